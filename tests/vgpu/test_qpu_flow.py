# SPDX-License-Identifier: BSD-2-Clause
"""Labels of a QPU's data (struct vgpu_flow): what changes when an input changes has that input's label.

Runs of the same program with one word changed after the other are the other opinion: whatever they show to depend
on a word must be labelled so. The exact sets are tested for each way that data can take.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.qpu_bench import (
    CODE,
    DATA,
    END,
    LANE_ADDRESS,
    ONE_SECTION,
    SINGLE_SEGMENT,
    STORE_RF30,
    UNIFORMS,
    Follow,
    Outcome,
    dispatch,
)
from tests.support.qpu_programs import EPILOGUE, PROLOGUE, WORDS, deciding, inputs, plain, storing

UNKNOWN = 1 << 31
OUT = DATA + 0x400
PER_LANE = 0xFFFFFF80
REGULAR, VEC2, VEC4, U8, U16, U32 = 15 << 3, 2, 4, 5, 6, 7


def of_words(labels: list[int] | np.ndarray) -> np.ndarray:
    """Labels of bytes, from those of words."""
    return np.repeat(np.asarray(labels, np.uint32), 4)


def run(lines: str, words: np.ndarray, follow: bool = True, implicit: int = 0xFFFFFFFF) -> Outcome:
    """Run lines between prologue and epilogue."""
    uniforms = [DATA, OUT, 64, *[64] * 40]
    labels = Follow({DATA: of_words(1 << np.arange(WORDS, dtype=np.uint32))}, implicit) if follow else None
    outcome = dispatch(PROLOGUE + lines + EPILOGUE + END, uniforms, words, flags=ONE_SECTION, follow=labels)
    assert (outcome.error, outcome.fault) == ("", None)
    return outcome


def results(outcome: Outcome) -> np.ndarray:
    """All bytes that a program may have written."""
    return outcome.memory.view(np.uint8)[OUT - CODE : OUT - CODE + 0x800]


def unlabelled(lines: str, words: np.ndarray, others: np.ndarray) -> int:
    """Labels (bits) of words on which some byte depends that has no such label."""
    followed = run(lines, words)
    before, labels = results(followed), followed.labels_at(OUT, 0x800)
    np.testing.assert_array_equal(before, results(run(lines, words, follow=False)))
    missing = 0
    for i in range(WORDS):
        changed = words.copy()
        changed[i] = others[i] if others[i] != words[i] else ~words[i]
        differs = results(run(lines, changed, follow=False)) != before
        if (differs & (labels >> np.uint32(i) & 1 == 0)).any():
            missing |= 1 << i
    return missing


@settings(max_examples=40)
@given(st.lists(plain(), min_size=1, max_size=8).map("\n".join), inputs, inputs)
def test_what_depends_on_an_input_has_its_label(lines: str, words: np.ndarray, others: np.ndarray) -> None:
    assert unlabelled(lines + "\n", words, others) == 0


@settings(max_examples=20)
@given(st.lists(plain() | deciding(), min_size=1, max_size=8).map("\n".join), inputs, inputs)
def test_what_has_no_label_is_reported(lines: str, words: np.ndarray, others: np.ndarray) -> None:
    """An input may decide that something is not written; then it is said that it decides."""
    outcome = run(lines + "\n", words)
    assert unlabelled(lines + "\n", words, others) & ~(outcome.addresses | outcome.control) == 0


def over_old(steps: list[tuple[str, list[int]]], words: np.ndarray, old: np.ndarray, follow: bool) -> Outcome:
    """Run stores to OUT, where there are these words; each has its own label, the input has none."""
    code = PROLOGUE + "".join(lines for lines, _ in steps) + END
    uniforms = [DATA, OUT, 64, *(config for _, configs in steps for config in configs)]
    data = np.zeros((OUT - DATA) // 4 + len(old), np.uint32)
    data[: len(words)], data[-len(old) :] = words, old
    labels = Follow({OUT: of_words(1 << np.arange(len(old), dtype=np.uint32) % 32)}) if follow else None
    outcome = dispatch(code, uniforms, data, flags=ONE_SECTION, follow=labels)
    assert (outcome.error, outcome.fault) == ("", None)
    return outcome


@settings(max_examples=60)
@given(st.lists(storing(), min_size=1, max_size=6), inputs, st.integers(0, 2**32 - 1))
def test_what_stores_leave_keeps_its_label(
    steps: list[tuple[str, list[int]]], words: np.ndarray, seed: int
) -> None:
    """Bytes of a word that no lane writes, lanes that are left out, what a sum adds to."""
    old = np.random.default_rng(seed).integers(0, 2**32, 128, np.uint32)
    followed = over_old(steps, words, old, follow=True)
    labels, before = followed.labels_at(OUT, 512), results(followed)[:512]
    for label in range(32):
        changed = old.copy()
        changed[label::32] ^= 0xFFFFFFFF
        differs = results(over_old(steps, words, changed, follow=False))[:512] != before
        assert not (differs & (labels >> np.uint32(label) & 1 == 0)).any()


ONE = np.arange(1, WORDS + 1, dtype=np.uint32)
LANES = 1 << np.arange(16, dtype=np.uint32)
HIGH = LANES << np.uint32(16)
ALL = np.full(16, 0xFFFF, np.uint32)
QUADS = np.repeat(LANES[::4], 4)
WHOLE_QUADS = QUADS * 15
NONE = np.zeros(16, np.uint32)
LANE_3 = np.where(np.arange(16) == 3, LANES, NONE)
# The lines; labels of the lanes of rf25 after them.
EXACT = {
    "constant": ("nop; mov rf25, 3", NONE),
    "copy": ("nop; mov rf25, rf20", LANES),
    "two operands": ("add rf25, rf20, rf21", LANES | HIGH),
    "one operand": ("not rf25, rf21", HIGH),
    "overwritten": ("add rf25, rf20, rf21\nnop; mov rf25, 3", NONE),
    "both ALUs": ("add rf25, rf20, rf21; mov rf20, rf21\nnop; mov rf25, rf20", HIGH),
    "untouched by the other ALU": ("add rf24, rf20, rf21; mov rf25, rf21", HIGH),
    "half kept": ("nop; mov rf25, rf20\nnop; fmov rf25.h, rf21", LANES | HIGH),
    "condition, constant": ("nop; mov.ifa rf25, rf20", LANE_3),
    "condition, data": ("nop; mov rf25, 3\nadd.pushz -, rf20, 1\nnop; mov.ifa rf25, rf21", LANES | HIGH),
    "condition, data, the other side": (
        "nop; mov rf25, rf21\nadd.pushz -, rf20, 1\nnop; mov.ifna rf25, 3", LANES | HIGH,
    ),
    "condition, data, by a copy": (
        "nop; mov rf25, 3\nadd.pushz -, rf20, 1\nnop; mov.ifa rf25, rf21\nnop; mov rf25, rf25", LANES | HIGH,
    ),
    "flags pushed twice": (
        "add.pushz -, rf20, 1\nadd.pushz -, rf22, 1\nnop; mov.ifb rf25, 1\nnop; mov.ifa rf25, 2", LANES,
    ),
    "flags, both true": ("sub.pushz -, rf20, rf20\nsub.andz -, rf21, rf21\nnop; mov.ifa rf25, 1", LANES | HIGH),
    "flags, new one false": ("sub.pushz -, rf20, rf20\nadd.andz -, rf10, 1\nnop; mov.ifa rf25, 1", NONE),
    "flags, old one false": ("add.pushz -, rf10, 1\nsub.andz -, rf21, rf21\nnop; mov.ifa rf25, 1", NONE),
    "flags, inverse false": ("sub.pushz -, rf20, rf20\nsub.andnz -, rf10, rf10\nnop; mov.ifa rf25, 1", NONE),
    "flags, new one false by data": (
        "sub.pushz -, rf20, rf20\nadd.andz -, rf21, 1\nnop; mov.ifa rf25, 1", LANES | HIGH,
    ),
    "flags, old one false by data": (
        "add.pushz -, rf20, 1\nsub.andz -, rf21, rf21\nnop; mov.ifa rf25, 1", LANES | HIGH,
    ),
    "flags, nor": ("add.pushz -, rf20, 1\nadd.norn -, rf21, 1\nnop; mov.ifa rf25, 1", LANES | HIGH),
    "flags of what is not known": (
        "sub.pushz -, rf20, rf20\nfcmp.andn -, rf21, rf20\nnop; mov.ifa rf25, 1", LANES | HIGH,
    ),
    "flags replaced": ("add.pushz -, rf20, 1\nadd.pushz -, rf21, 1\nnop; mov.ifa rf25, 1", HIGH),
    "comparison": ("fcmp.pushn -, rf20, rf21\nnop; mov.ifa rf25, 1", LANES | HIGH),
    "difference": ("fcmp rf25, rf20, rf21", LANES | HIGH),
    "rows": ("fdx rf25, rf20", WHOLE_QUADS),
    "columns": ("fdy rf25, rf20", WHOLE_QUADS),
    "flag A as halves": ("add.pushz -, rf20, 1\nvfla rf25", LANES),
    "flag B as halves": ("add.pushz -, rf20, 1\nadd.pushz -, rf22, 1\nvflnb rf25", LANES),
    "flag A as bits": ("add.pushz -, rf20, 1\nflapush rf25, rf21", LANES | HIGH),
    "flag B as bits": ("add.pushz -, rf20, 1\nadd.pushz -, rf22, 1\nflbpush rf25, rf21", LANES | HIGH),
    "first lane": ("add.pushz -, rf20, 1\nflafirst rf25", ALL),
    "quad": ("nop; mov r5, rf20\nnop; mov rf25, r5", QUADS),
    "replicated": ("nop; mov r5rep, rf20\nnop; mov rf25, r5", NONE + 1),
    "special unit": ("nop; mov recip, rf20\nnop; nop\nnop; nop\nnop; mov rf25, r4", LANES),
    "product": ("nop; multop -, rf20, rf22\nnop; umul24 rf25, rf21, rf22", LANES | HIGH),
    "product once": (
        "nop; multop -, rf20, rf22\nnop; umul24 rf24, rf21, rf22\nnop; umul24 rf25, rf21, rf22", HIGH,
    ),
    "address": (
        "and r0, rf21, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25", LANES | HIGH,
    ),
    "load of some lanes": ("add.pushz -, rf21, 1\nnop; mov.ifa tmua, rf10\nnop; nop; ldtmu.rf25", LANES | HIGH),
    "queue in order": (
        "add r0, rf10, 8\nnop; mov tmua, rf10\nadd r0, r0, 8\nnop; mov tmua, r0\n"
        "nop; nop; ldtmu.rf24\nnop; nop; ldtmu.rf25", LANES << np.uint32(4),
    ),
    "unifa": (
        "nop; mov unifa, rf12\nnop; nop\nnop; nop\nnop; nop; ldunifarf.rf24\nnop; nop; ldunifarf.rf25", NONE + 2,
    ),
    "sample mask": ("setmsf -, rf20\nmsf rf25\nsetmsf -, rf24", LANES),
}  # fmt: skip


@pytest.mark.parametrize("case", EXACT)
def test_exact_labels(case: str) -> None:
    lines, expected = EXACT[case]
    outcome = run(lines + "\n", ONE)
    np.testing.assert_array_equal(outcome.labels_at(OUT + 64 * 5, 64), of_words(expected))
    np.testing.assert_array_equal(outcome.labels_at(OUT + 64, 64), of_words(HIGH))  # rf21 itself


def test_labels_that_are_not_implicit_do_not_spread_through_addresses_and_conditions() -> None:
    lines = EXACT["address"][0] + "\nadd.pushz -, rf20, 1\nnop; mov.ifa rf25, rf25\n"
    outcome = run(lines, ONE, implicit=0)
    np.testing.assert_array_equal(outcome.labels_at(OUT + 64 * 5, 64), of_words(LANES))
    assert (outcome.addresses, outcome.control) == (0, 0)


@pytest.mark.parametrize(
    ("lines", "addresses", "control"),
    [
        ("nop; mov rf25, rf20", 0, 0),
        ("and r0, rf21, 0\nadd r0, r0, rf10\nnop; mov tmua, r0\nnop; nop; ldtmu.rf25", 0xFFFF0000, 0),
        ("and r0, rf20, 0\nadd r0, r0, rf12\nnop; mov unifa, r0\nnop; nop\nnop; nop\nnop; nop; ldunifa", 1, 0),
        ("add.pushz -, rf20, 1\nnop; mov tmud, 1\nnop; mov.ifa tmua, rf11", 0, 0xFFFF),
        ("and r0, rf20, 0\nnot tmuc, r0", 0, 0xFFFF),
        ("add.pushz -, rf20, 1\nnop; mov.ifa rf25, 1", 0, 0),  # one lane is not written, its old value is read
        # A branch may move the stream of uniforms, from which an address is made later.
        ("add.pushz -, rf20, 1\nb.anya 0\nnop; nop\nnop; nop\nnop; nop", 0xFFFF, 0xFFFF),
        ("add.pushz -, rf20, 1\nb 0\nnop; nop\nnop; nop\nnop; nop", 0, 0),
    ],
)
def test_what_decides_is_reported(lines: str, addresses: int, control: int) -> None:
    outcome = run(lines + "\n", ONE)
    assert (outcome.addresses, outcome.control) == (addresses, control)


def test_a_store_that_no_lane_makes_because_of_the_input() -> None:
    """Which lanes exist is the input's to say: that memory stays as it is says something of it."""
    lines = "setmsf -, rf20\nnop; mov tmud, 1\nnop; mov tmua, rf11\nsetmsf -, rf24\n"
    for words in (ONE, np.zeros(WORDS, np.uint32)):
        code = PROLOGUE + lines + END
        follow = Follow({DATA: of_words(1 << np.arange(WORDS, dtype=np.uint32))})
        outcome = dispatch(code, [DATA, OUT, 64], words, flags=ONE_SECTION, follow=follow)
        assert (outcome.labels_at(OUT, 64) == 0xFFFF).all()
        assert outcome.words(OUT, 16).any() == words.any()


def test_what_a_store_would_write_with_other_data() -> None:
    """A lane whose condition data decides: memory has the labels of what is there and of what would be."""
    store = "add.pushz -, rf20, {0}\nnop; mov tmud, rf21\nnop; mov.ifa tmua, rf11\n"
    for constant in (0, 1):  # of ONE no word is 0; none plus 1 is 0 either
        follow = Follow(
            {DATA: of_words(1 << np.arange(WORDS, dtype=np.uint32)), OUT: [1 << 31] * 64}, implicit=0xFFFFFFFF
        )
        code = PROLOGUE + store.format(constant) + END
        outcome = dispatch(code, [DATA, OUT, 64], ONE, flags=ONE_SECTION, follow=follow)
        assert not outcome.words(OUT, 16).any()
        np.testing.assert_array_equal(outcome.labels_at(OUT, 64), of_words(LANES | HIGH | 1 << 31))


def test_lanes_that_data_rotates_by() -> None:
    """By how many lanes data says: a lane may get any lane's."""
    lines = "nop; mov r5rep, rf20\nnop; mov r0, rf21\nnop; nop\nnop; mov rf25, r0; rot"
    labels = run(lines + "\n", ONE).labels_at(OUT + 64 * 5, 64)
    np.testing.assert_array_equal(labels, of_words(NONE + 0xFFFF0001))


def test_after_a_branch_everything_written_depends_on_it() -> None:
    lines = "nop; mov tmud, 1\nnop; mov tmua, rf11\nadd rf11, rf11, 8\nadd.pushz -, rf20, 1\n"
    lines += "b.anya 0\nnop; nop\nnop; nop\nnop; nop\n"
    labels = run(lines, ONE).labels_at(OUT, 64 * 6)
    assert labels[:8].tolist() == [0] * 8
    assert (labels[64 * 3 : 64 * 5] & 0xFFFF == 0xFFFF).all()


def memory_case(lines: str, config: int, labels: list[int], **options: int) -> Outcome:
    """Lane-wise access with a configuration; rf9: DATA, rf10: DATA + 4 * lane, rf11: OUT + 16 * lane."""
    code = LANE_ADDRESS + "eidx r0; nop; ldunifrf.rf11\nshl r0, r0, 4\nadd rf11, rf11, r0\n" + lines + END
    return dispatch(
        code, [DATA, OUT, config], np.arange(64), flags=ONE_SECTION, follow=Follow({DATA: labels}, **options)
    )


@pytest.mark.parametrize(("kind", "size"), [(U8, 1), (U16, 2), (U32, 4)])
def test_bytes_of_loads_and_stores(kind: int, size: int) -> None:
    """A load takes the labels of the bytes that it reads, a store labels the bytes that it writes."""
    labels = [1 << i for i in range(31)]
    lines = "nop; mov tmuau, rf9\nnop; nop; ldtmu.rf30\nnop; mov tmud, rf30\nnop; mov tmuau, rf11\n"
    outcome = dispatch(
        LANE_ADDRESS + "nop; nop; ldunifrf.rf11\n" + lines + END,
        [DATA, OUT, *[PER_LANE | REGULAR | kind] * 2],
        np.arange(64),
        flags=ONE_SECTION,
        follow=Follow({DATA: labels}),
    )
    expected = (1 << size) - 1
    assert outcome.labels_at(OUT, 6).tolist() == [expected if i < size else 0 for i in range(6)]


def test_vectors() -> None:
    """The components of a vector wrap within 16 bytes, and come out of the queue one after the other."""
    lines = "add r1, rf9, 8\nnop; mov tmuau, r1\n"
    lines += "".join(f"nop; nop; ldtmu.rf{20 + c}\n" for c in range(4))
    lines += "".join(f"nop; mov tmud, rf{20 + c}\n" for c in (0, 1, 2, 3)) + "nop; mov tmua, rf11\n"
    config = 0xFFFF0000 | (0x80 | REGULAR | VEC4) << 8 | 0x80 | REGULAR | VEC4
    outcome = memory_case(lines, config, [1] * 4 + [2] * 4 + [4] * 4 + [8] * 4)
    assert outcome.labels_at(OUT, 16)[::4].tolist() == [4, 8, 1, 2]


@pytest.mark.parametrize("conditional", [False, True])
def test_atomics(conditional: bool) -> None:
    """The word gets the labels of all data, each lane's result those of the data of the lanes before."""
    lines = "nop; mov tmua, rf10\nnop; nop; ldtmu.rf20\n"
    lines += "add.pushz -, rf20, 0\n" if conditional else ""
    data, cond = ("1", ".ifna") if conditional else ("rf20", "")
    lines += f"nop; mov tmud, {data}\nnop; mov{cond} tmuau, rf9\n"
    lines += "nop; nop; ldtmu.rf21\nnop; mov tmud, rf21\nnop; mov tmua, rf11\n"
    outcome = memory_case(lines, PER_LANE | 0 << 3 | U32, of_words(LANES).tolist())
    assert outcome.error == ""
    assert outcome.labels_at(DATA, 4).tolist() == [0xFFFF] * 4
    results = [int(outcome.labels_at(OUT + 16 * lane, 1)[0]) for lane in range(16)]
    own = [1 << lane if conditional else 0 for lane in range(16)]
    assert results[1:] == [((1 << lane) - 1) | own[lane] for lane in range(1, 16)]


def test_a_prefetch_reads_nothing() -> None:
    outcome = memory_case("nop; mov tmuau, rf10\n", PER_LANE | 0 << 3 | U32, [7] * 64)
    assert outcome.labels_at(DATA, 64).tolist() == [7] * 64


def test_labels_of_uniforms_configuration_and_code() -> None:
    code = "eidx rf30; nop; ldunifrf.rf10\nnop; mov tmud, rf10\nnop; mov tmuau, rf10\n" + END
    for where, labels, control in ((UNIFORMS, [1] * 4, 0), (UNIFORMS, [0] * 4 + [2] * 4, 2), (CODE, [4], 4)):
        follow = Follow({where: labels})
        outcome = dispatch(code, [DATA, PER_LANE | REGULAR | U32], flags=ONE_SECTION, follow=follow)
        assert outcome.error == ""
        assert outcome.control == control
        assert outcome.commands == max(labels)
        assert outcome.labels_at(DATA, 1)[0] == max(labels)


def test_registers_that_nothing_has_written() -> None:
    """What a thread finds in them is not known; where it exists is (rf0, rf2)."""
    code = "eidx r0; nop; ldunifrf.rf10\nshl r0, r0, 2\nadd rf10, rf10, r0\n"
    for register, expected in (("rf0", 0), ("rf2", 0), ("rf1", UNKNOWN), ("rf40", UNKNOWN), ("r3", UNKNOWN)):
        lines = f"nop; mov tmud, {register}\nnop; mov tmua, rf10\n"
        outcome = dispatch(code + lines + END, [DATA], flags=ONE_SECTION, follow=Follow({}, registers=UNKNOWN))
        assert set(outcome.labels_at(DATA, 64).tolist()) == {expected}


def test_registers_that_nothing_has_written_on_a_v3d_71() -> None:
    """As above; there the payload is in rf3 and rf2."""
    code = "nop; nop; ldunifrf.rf10\neidx rf11; nop\nshl rf11, rf11, 2; nop\nadd rf10, rf10, rf11; nop\n"
    for register, expected in (("rf3", 0), ("rf2", 0), ("rf0", UNKNOWN), ("rf1", UNKNOWN), ("rf40", UNKNOWN)):
        lines = f"nop; mov tmud, {register}\nnop; mov tmua, rf10\n"
        follow = Follow({}, registers=UNKNOWN)
        outcome = dispatch(code + lines + END, [DATA], flags=SINGLE_SEGMENT, follow=follow, version=71)
        assert (outcome.error, outcome.fault) == ("", None)
        assert set(outcome.labels_at(DATA, 64).tolist()) == {expected}


def test_lanes_that_take_no_part_in_a_load_get_what_is_not_known() -> None:
    code = LANE_ADDRESS + "xor.pushz -, rf10, rf9\nnop; mov.ifa tmua, rf10\nnop; nop; ldtmu.rf30\n"
    outcome = dispatch(
        code + STORE_RF30 + END, [DATA], flags=ONE_SECTION, follow=Follow({DATA: [1] * 64}, registers=UNKNOWN)
    )
    assert outcome.labels_at(DATA, 64)[::4].tolist() == [1] + [UNKNOWN] * 15


def test_threads_that_wait_for_each_other() -> None:
    """Of two batches each reads what the other has written before the barrier."""
    code = """
    eidx r0; nop; ldunifrf.rf9
    tidx r1                                    # 0 and 4
    shl r1, r1, 4
    shl r0, r0, 2
    add r0, r0, r1
    add rf10, rf9, r0; nop; ldunifrf.rf11
    add rf12, rf10, rf11
    nop; mov tmua, rf10
    nop; nop; ldtmu.rf20
    nop; mov tmud, rf20
    nop; mov tmua, rf12
    barrierid syncb
    nop; nop; thrsw
    nop; nop
    nop; nop
    xor r0, rf12, rf13; nop; ldunifrf.rf13
    xor r0, rf12, rf13
    nop; mov tmua, r0
    nop; nop; ldtmu.rf30
    add rf10, rf12, rf11
    """
    ends = "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\n"
    labels = of_words(np.repeat(np.array([1, 2], np.uint32), 16))
    outcome = dispatch(
        code + STORE_RF30 + ends + END,
        [DATA, 0x400, 64],
        np.arange(64),
        size=32,
        follow=Follow({DATA: labels}),
    )
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.labels_at(DATA + 0x800, 128)[::64].tolist() == [2, 1]


def test_following_changes_neither_results_nor_counts() -> None:
    words = np.random.default_rng(7).integers(0, 2**32, WORDS, np.uint32)
    plain_run, followed = (run(EXACT["address"][0] + "\n", words, follow=on) for on in (False, True))
    np.testing.assert_array_equal(plain_run.memory, followed.memory)
    for name in ("instructions", "bytes_read", "bytes_written"):
        assert getattr(plain_run, name) == getattr(followed, name)
