"""Threads, memory and dispatches of the compute engine: control flow, TMU, workgroups, barriers, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from qpu_asm import assemble
from qpu_bench import (
    BASE,
    CODE,
    DATA,
    END,
    FOUR_THREADS,
    PAGES,
    PROPAGATE_NAN,
    READ_ONLY,
    SINGLE_SEGMENT,
    UNIFORMS,
    dispatch,
)

ONE_SECTION = PROPAGATE_NAN | SINGLE_SEGMENT
# rf10: DATA + 4 * lane; takes one uniform.
LANE_ADDRESS = "eidx r0; nop; ldunifrf.rf9\nshl r0, r0, 2\nadd rf10, r0, rf9\n"
STORE_RF30 = "nop; mov tmud, rf30\nnop; mov tmua, rf10\n"

# ---- control flow ----


def test_loop_with_uniforms() -> None:
    """Sums a uniform over lane-dependent numbers of rounds, by a backward branch that rewinds the uniforms."""
    code = (
        LANE_ADDRESS
        + """
        eidx rf1; mov rf30, 0
        nop; nop; ldunif                       # loop: the same uniform each round
        sub.pushn rf1, rf1, 1; nop
        add.ifna rf30, rf30, r5; nop
        bu.anyna -56, r:unif                   # back by 7 instructions from after the delay slots
        nop; nop
        nop; nop
        nop; nop
        """
        + STORE_RF30
        + END
    )
    outcome = dispatch(code, [DATA, 5, (-8) & 0xFFFFFFFF], flags=ONE_SECTION)
    assert outcome.error == ""
    np.testing.assert_array_equal(outcome.words(DATA, 16), 5 * np.arange(16))
    assert outcome.instructions == 4 + 16 * 7 + 2 + 3
    assert outcome.bytes_read == 4 * (1 + 2 * 16)
    assert outcome.bytes_written == 64


@pytest.mark.parametrize(
    ("cond", "flags", "taken"),
    [
        ("a0", 0x0001, True),
        ("a0", 0xFFFE, False),
        ("na0", 0xFFFE, True),
        ("na0", 0x0001, False),
        ("alla", 0xFFFF, True),
        ("alla", 0xFFEF, False),
        ("anyna", 0xFFEF, True),
        ("anyna", 0xFFFF, False),
        ("anya", 0x0100, True),
        ("anya", 0x0000, False),
        ("allna", 0x0000, True),
        ("allna", 0x0100, False),
    ],
)
def test_branch_conditions(cond: str, flags: int, taken: bool) -> None:
    code = (
        LANE_ADDRESS
        + f"""
        eidx r1; mov rf30, 1; ldunif
        shr r1, r5, r1
        and r1, r1, 1
        xor.pushz -, r1, 1
        b.{cond} 8
        nop; mov rf31, 1
        nop; mov rf32, 2
        add rf33, rf31, rf32
        nop; mov rf30, 0                       # jumped over when taken
        add rf30, rf30, rf33                   # the three delay slots ran in any case
        """
        + STORE_RF30
        + END
    ).replace("eidx r1; mov rf30, 1; ldunif", "eidx r1; mov rf30, 1\nnop; nop; ldunif")
    outcome = dispatch(code, [DATA, flags], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [4 if taken else 3] * 16


def test_branch_ignores_lanes_without_samples() -> None:
    """With a workgroup of 5, lanes 5 to 15 do not exist; msfign p leaves them out, q counts lanes 5 to 7."""
    body = """
        msf.pushz -                            # A: the lane does not exist
        mov rf30, 0
        b.{cond} 8
        nop; nop
        nop; nop
        nop; nop
        nop; mov rf30, 1
        """.replace("mov rf30, 0", "nop; mov rf30, 0")
    for cond, jumps in (("anya", True), ("anyap", False), ("anyaq", True), ("allna", False), ("allnap", True)):
        code = LANE_ADDRESS + body.format(cond=cond) + STORE_RF30 + END
        outcome = dispatch(code, [DATA], size=5, flags=ONE_SECTION)
        assert outcome.error == ""
        assert outcome.words(DATA, 6).tolist() == [0 if jumps else 1] * 5 + [0], cond


def test_branch_to_register_and_absolute_uniforms() -> None:
    code = (
        LANE_ADDRESS
        + """
        nop; nop; ldunifrf.rf1
        bu rf1, a:unif
        nop; nop
        nop; nop
        nop; nop
        nop; mov rf30, 0                       # never
        nop; nop; ldunifrf.rf30
        """
        + STORE_RF30
        + END
    )
    outcome = dispatch(code, [DATA, CODE + 8 * 9, UNIFORMS + 16, 0, 77], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [77] * 16


def test_second_uniform_stream() -> None:
    code = LANE_ADDRESS + "nop; nop; ldunifrf.unifa\nnop; nop; ldunifa\nnop; mov r1, r5; ldunifarf.rf2\n"
    code += "add rf30, r1, rf2\n" + STORE_RF30 + END
    outcome = dispatch(code, [DATA, DATA + 64], [0] * 16 + [30, 12], flags=ONE_SECTION)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [42] * 16


def test_sections_and_thread_end() -> None:
    """Two switches, then two in a row announce the last section; the next one ends the thread after two slots."""
    switch = "nop; nop; thrsw\nnop; nop\nnop; nop\n"
    code = LANE_ADDRESS + switch + switch + "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\n" + "nop; mov rf30, 9\n"
    code += "nop; mov tmud, rf30\nnop; nop; thrsw\nnop; mov tmua, rf10\nnop; nop\n"
    code += "nop; mov tmud, 1\nnop; mov tmua, rf10\n"  # never
    outcome = dispatch(code, [DATA], flags=PROPAGATE_NAN)
    assert outcome.error == ""
    assert outcome.words(DATA, 16).tolist() == [9] * 16
    assert outcome.instructions == 3 + 3 + 3 + 3 + 1 + 4


# ---- TMU ----

PER_LANE, PER_QUAD = 0xFFFFFF80, 0xFFFFFF00
REGULAR, S8, S16, VEC2, VEC3, VEC4, U8, U16, U32 = 15 << 3, 0, 1, 2, 3, 4, 5, 6, 7


def gather(addresses: np.ndarray, kind: int, components: int, data: np.ndarray) -> list[np.ndarray]:
    """Loads with each lane's address from the table at DATA; data follows it. Returns the components."""
    code = LANE_ADDRESS + "nop; mov tmua, rf10\nnop; nop; ldtmu.rf1\nnop; mov tmuau, rf1\nnop; nop; ldunif\n"
    for i in range(components):
        code += f"nop; nop; ldtmu.rf{20 + i}\n"
    code += "nop; mov r1, r5\n"
    for i in range(components):
        code += f"add rf10, rf10, r1\nnop; mov tmud, rf{20 + i}\nnop; mov tmua, rf10\n"
    outcome = dispatch(
        code + END, [DATA, PER_LANE | REGULAR | kind, 0x4000], np.concatenate([addresses, data]), flags=ONE_SECTION
    )
    assert (outcome.error, outcome.fault) == ("", None)
    return [outcome.words(DATA + 0x4000 * (i + 1), 16) for i in range(components)]


ADDRESS_PATTERNS = {
    "one address": np.full(16, 64),
    "consecutive words": 64 + 4 * np.arange(16),
    "consecutive vectors": 64 + 16 * np.arange(16),
    "scattered in a page": 64 + 16 * np.random.default_rng(1).integers(0, 200, 16),
    "over pages": 64 + 16 * np.random.default_rng(2).integers(0, 900, 16),
    "across one page border": 4096 - 128 + 16 * np.arange(16),
}


@pytest.mark.parametrize("pattern", ADDRESS_PATTERNS)
@pytest.mark.parametrize("components", [1, 2, 3, 4])
@pytest.mark.parametrize("shift", [0, 4, 12])
def test_loads(pattern: str, components: int, shift: int) -> None:
    """Word loads; a vector's components wrap within 16 bytes."""
    data = np.random.default_rng(3).integers(0, 2**32, 4000, np.uint32)
    offsets = ADDRESS_PATTERNS[pattern] + shift
    memory = np.concatenate([np.zeros(16, np.uint32), data])
    got = gather((DATA + offsets).astype(np.uint32), U32 if components == 1 else components, components, data)
    for c, values in enumerate(got):
        at = offsets // 16 * 16 + (offsets + 4 * c) % 16
        expected = memory[at // 4].copy()
        table = at // 4 < 16
        assert not table.any()
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(("kind", "dtype"), [(S8, np.int8), (U8, np.uint8), (S16, np.int16), (U16, np.uint16)])
def test_small_loads(kind: int, dtype: type) -> None:
    data = np.random.default_rng(4).integers(0, 2**32, 200, np.uint32)
    size = np.dtype(dtype).itemsize
    index = np.random.default_rng(5).integers(0, 200 * 4 // size, 16)
    (got,) = gather((DATA + 64 + size * index).astype(np.uint32), kind, 1, data)
    np.testing.assert_array_equal(got, data.view(dtype)[index].astype(np.int64).astype(np.uint32))


@pytest.mark.parametrize(("kind", "components"), [(U32, 1), (VEC2, 2), (VEC3, 3), (VEC4, 4), (U16, 1), (U8, 1)])
def test_stores(kind: int, components: int) -> None:
    """Lane i stores i + 100 c at 16 * i, one lane in four not at all; nothing else changes."""
    code = LANE_ADDRESS + "eidx rf1\nshl rf2, rf1, 4\nadd rf2, rf2, rf9\nnop; mov r1, 3\nand.pushz -, rf1, r1\n"
    code += "nop; nop; ldunifrf.r2\nnop; mov rf3, rf1\n" + "nop; mov tmud, rf3\nadd rf3, rf3, r2\n" * components
    code += "nop; mov.ifna tmuau, rf2\n" + END
    outcome = dispatch(code, [DATA, 100, PER_LANE | REGULAR | kind], [0xAAAAAAAA] * 64, flags=ONE_SECTION)
    assert (outcome.error, outcome.fault) == ("", None)
    expected = np.full(64, 0xAAAAAAAA, np.uint32)
    size = {U16: 2, U8: 1}.get(kind, 4)
    for lane in range(16):
        for c in range(components):
            if lane % 4:
                value = (lane + 100 * c).to_bytes(4, "little")[:size]
                expected.view(np.uint8)[16 * lane + 4 * c :][:size] = np.frombuffer(value, np.uint8)
    np.testing.assert_array_equal(outcome.words(DATA, 64), expected)
    assert outcome.bytes_written == 12 * size * components


def test_highest_lane_wins_a_store() -> None:
    code = "eidx rf30; nop; ldunifrf.rf10\n" + STORE_RF30 + END
    assert dispatch(code, [DATA], flags=ONE_SECTION).words(DATA, 2).tolist() == [15, 0]


def test_per_quad_access_takes_in_the_whole_quad() -> None:
    """Of a workgroup of 5 lanes, a per-quad store writes for 8, a per-lane store for 5."""
    for config, lanes in ((PER_QUAD, 8), (PER_LANE, 5)):
        code = LANE_ADDRESS + "nop; mov tmud, 1\nnop; mov tmuau, rf10\n" + END
        outcome = dispatch(code, [DATA, config | REGULAR | U32], size=5, flags=ONE_SECTION)
        assert outcome.words(DATA, 16).tolist() == [1] * lanes + [0] * (16 - lanes)


ATOMICS: dict[int, Callable[[int, int], int]] = {
    0: lambda old, x: old + x,
    1: lambda old, x: old - x,
    2: lambda old, x: x,
    4: min,
    5: max,
    6: lambda old, x: min(old, x, key=lambda v: v - (v >> 31 << 32)),
    7: lambda old, x: max(old, x, key=lambda v: v - (v >> 31 << 32)),
    8: lambda old, x: old & x,
    9: lambda old, x: old | x,
    10: lambda old, x: old ^ x,
}


@pytest.mark.parametrize("operation", ATOMICS)
def test_atomics(operation: int) -> None:
    """Sixteen lanes work on one word, in ascending order; each gets the value from before."""
    values = np.random.default_rng(operation).integers(0, 2**32, 17, np.uint32)
    code = LANE_ADDRESS + "nop; mov tmua, rf10\nnop; nop; ldtmu.rf1\nnop; mov tmud, rf1; ldunif\n"
    code += "nop; mov tmuau, r5\nnop; nop; ldtmu.rf30\n" + STORE_RF30 + END
    config = PER_LANE | operation << 3 | U32
    outcome = dispatch(code, [DATA, DATA + 64, config], values, flags=ONE_SECTION)
    assert (outcome.error, outcome.fault) == ("", None)
    word, before = int(values[16]), []
    for x in values[:16].tolist():
        before.append(word)
        word = ATOMICS[operation](word, x) & 0xFFFFFFFF
    assert outcome.words(DATA, 17).tolist() == [*before, word]


def test_increment_decrement_and_compare_exchange() -> None:
    code = "nop; nop; ldunifrf.rf10\n" + LANE_ADDRESS.replace("rf10", "rf11")
    code += "nop; mov tmuau, rf10\nnop; nop; ldtmu.rf1\nnop; mov tmuau, rf10\nnop; nop; ldtmu.rf1\n"
    code += "nop; nop; ldunif\nnop; mov tmud, r5\nnop; mov tmud, 5\nnop; mov tmuau, rf10\nnop; nop; ldtmu.rf30\n"
    code += "nop; mov tmud, rf30\nnop; mov tmua, rf11\n" + END
    uniforms = [DATA, DATA + 64, PER_LANE | 8 << 3 | U32, PER_LANE | 9 << 3 | U32, 1000, PER_LANE | 3 << 3 | VEC2]
    outcome = dispatch(code, uniforms, [1000], flags=ONE_SECTION)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.words(DATA, 1).tolist() == [5]
    assert outcome.words(DATA + 64, 16).tolist() == [1000] + [5] * 15


def test_prefetch_brings_nothing() -> None:
    code = LANE_ADDRESS + "nop; mov tmuau, rf10\nnop; nop; ldtmu.r0\n" + END
    outcome = dispatch(code, [DATA, PER_LANE | U32], flags=ONE_SECTION)
    assert "ldtmu with no TMU result" in outcome.error


# ---- dispatches ----


@pytest.mark.parametrize("per_supergroup", [1, 3, 16])
@pytest.mark.parametrize("size", [1, 5, 16, 64, 100, 256])
@pytest.mark.parametrize("threads", [1, 4])
def test_payload_and_workgroups(size: int, per_supergroup: int, threads: int) -> None:
    """Every item of every workgroup runs once and knows who it is."""
    if size * per_supergroup > 16 * 256:
        pytest.skip("no such supergroup: its batches would not fit the configuration word")
    groups = (3, 2, 2)
    bits = max(6, (size - 1).bit_length())
    # item = (x + 3 y + 6 z) * size + local index; stores 1 + its previous value, so that a second run would show.
    code = """
        nop; nop; ldunifrf.rf5                 # 0xffff
        nop; nop; ldunifrf.rf6                 # 16
        nop; nop; ldunifrf.rf7                 # 32 - bits
        and rf11, rf0, rf5
        shr rf12, rf0, rf6
        and rf13, rf2, rf5
        shr rf14, rf2, rf7
        nop; umul24 r0, rf12, 3
        add r0, r0, rf11
        nop; umul24 r1, rf13, 6
        add r0, r0, r1; nop; ldunif            # size
        nop; umul24 r0, r0, r5
        add r0, r0, rf14; nop; ldunif          # DATA
        shl r0, r0, 2
        add rf10, r0, r5
        nop; mov tmua, rf10
        nop; nop; ldtmu.r0
        add rf30, r0, 1
    """
    uniforms = [0xFFFF, 16, 32 - bits, size, DATA]
    outcome = dispatch(
        code + STORE_RF30 + END,
        uniforms,
        groups=groups,
        size=size,
        per_supergroup=per_supergroup,
        flags=ONE_SECTION,
        threads=threads,
    )
    assert (outcome.error, outcome.fault) == ("", None)
    total = size * 12
    np.testing.assert_array_equal(outcome.words(DATA, total), np.ones(total))
    assert not outcome.words(DATA + 4 * total, 16).any()


def test_workgroup_offsets() -> None:
    code = LANE_ADDRESS + "nop; mov tmud, rf0\nnop; mov tmua, rf10\n" + END
    outcome = dispatch(code, [DATA], flags=ONE_SECTION, cfg={0: 1 << 16 | 5, 1: 1 << 16 | 7})
    assert outcome.words(DATA, 16).tolist() == [7 << 16 | 5] * 16


BARRIER_SUM = """
    eidx r0; nop; ldunifrf.rf5                 # 26
    nop; nop; ldunifrf.rf9                     # DATA
    shr rf4, rf2, rf5
    shl r0, rf4, 2
    add rf10, r0, rf9
    add rf30, rf4, 1
    nop; mov tmud, rf30
    nop; mov tmua, rf10
    tmuwt -
    barrierid syncb; nop; thrsw
    nop; nop
    nop; nop
    nop; nop; ldunifrf.r1                      # 252
    sub r1, r1, r0                             # 63 - index
    shl r0, rf4, 2
    nop; nop; ldunif
    sub r1, r5, r0
    add r1, r1, rf9
    nop; mov tmua, r1
    nop; nop; ldtmu.rf31
    nop; nop; ldunifrf.r2
    add rf10, rf10, r2
    nop; mov tmud, rf31
    nop; mov tmua, rf10
    nop; nop; thrsw
    nop; nop; thrsw
    nop; nop
    nop; nop
    nop; nop
"""


def test_barrier() -> None:
    """Each item reads what the opposite item of another batch stored before the barrier."""
    outcome = dispatch(BARRIER_SUM + END, [26, DATA, 252, 252, 0x1000], size=64)
    assert (outcome.error, outcome.fault) == ("", None)
    np.testing.assert_array_equal(outcome.words(DATA + 0x1000, 64), np.arange(64, 0, -1))


def test_barrier_that_some_never_reach() -> None:
    code = """
        eidx -; nop; ldunif                    # 26
        shr.pushz -, rf2, r5
        b.a0 24                                # the batch with item 0 skips the barrier
        nop; nop
        nop; nop
        nop; nop
        barrierid syncb; nop; thrsw
        nop; nop
        nop; nop
        nop; nop; thrsw
        nop; nop; thrsw
        nop; nop
    """
    outcome = dispatch(code + END, [26], size=32)
    assert "hang" in outcome.error
    assert "barrier" in outcome.error


def test_thread_index_is_distinct_among_batches_that_run_together() -> None:
    code = """
        tidx rf30; nop; ldunifrf.r1            # DATA
        shl r0, rf30, 2
        add rf10, r0, r1
        nop; mov tmud, 1
        nop; mov tmua, rf10
        barrierid syncb; nop; thrsw
        nop; nop
        nop; nop
        nop; nop; thrsw
        nop; nop; thrsw
        nop; nop
    """
    outcome = dispatch(code + END, [DATA], size=256)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.words(DATA, 17).tolist() == [1] * 16 + [0]


def test_supergroups_with_shared_memory_do_not_overlap() -> None:
    """Each workgroup uses the same words as scratch: with four workers the result must be the same."""
    code = (
        """
        nop; nop; ldunifrf.rf5                 # 16
        nop; nop; ldunifrf.rf6                 # DATA
        nop; nop; ldunifrf.rf7                 # repetitions
        shr r0, rf2, rf5                       # workgroup in memory (and more): marks the shader
        eidx r0
        shl r0, r0, 2
        add rf10, r0, rf6
        nop; mov tmua, rf10                    # loop: scratch += 1
        nop; nop; ldtmu.r0
        add rf30, r0, 1
        nop; mov tmud, rf30
        nop; mov tmua, rf10
        sub.pushz rf7, rf7, 1
        b.na0 -80
        nop; nop
        nop; nop
        nop; nop
        """
        + END
    )
    for threads in (1, 4):
        outcome = dispatch(code, [16, DATA, 2000], groups=(40, 1, 1), flags=ONE_SECTION, threads=threads)
        assert (outcome.error, outcome.fault) == ("", None)
        assert outcome.words(DATA, 16).tolist() == [80000] * 16


def test_tracking_notes_every_byte() -> None:
    code = LANE_ADDRESS + "nop; mov tmua, rf10\nnop; nop; ldtmu.rf30\n" + STORE_RF30 + END
    outcome = dispatch(code, [DATA], flags=ONE_SECTION, track=True)
    assert outcome.noted == (len(assemble(code)) + 4 + 64, 64)
    page = (DATA - BASE) // 4096
    assert outcome.touched[[0, (UNIFORMS - BASE) // 4096, page]].tolist() == [1, 1, 3]
    assert np.count_nonzero(outcome.touched) == 3


# ---- what must not pass silently ----

ERRORS = {
    "fadd tmus, r0, r1": "texture",
    "nop; mov tmuc, r0": "texture",
    "nop; nop; wrtmuc": "texture",
    "nop; nop; rot": "not modelled",
    "nop; nop; ucb": "not modelled",
    "nop; nop; ldvary.rf1": "no sense in a compute shader",
    "nop; nop; ldtlb.rf1": "no sense in a compute shader",
    "nop; mov tlb, r0": "not modelled",
    "nop; mov vpm, r0": "not modelled",
    "nop; mov sync, r0": "not modelled",
    "barrierid rf1": "barrierid",
    "nop; mov syncb, r0": "barrierid",
    "faddnf r0, r1, r2": "not modelled",
    "rsqrt2 r0, r1": "not modelled",
    "nop; mov rsqrt2, r0": "not modelled",
    "fdx r0, r1": "not modelled",
    "vfla r0": "not modelled",
    "flpop r0, r1": "not modelled",
    "lr r0": "not modelled",
    "iid r0": "not modelled",
    "revf r0": "not modelled",
    "fcmp r0, r1, r2": "used for its effect",
    "nop; multop r0, r1, r2": "used for its effect",
    "max.pushc r0, r1, r2": "carry",
    "vfmin.pushz r0, r1, r2": "flags",
    "b lri": "link register",
    "bu 0, lri": "link register",
    "nop; mov tmuau, r0; ldunif": "two reads of the uniform stream",
    "nop; nop; ldtmu.r0": "no TMU result",
    "b -8000\nnop; nop\nnop; nop\nnop; nop": "outside the shader",
    "nop; mov tmud, r0\nnop; mov tmud, r0\nnop; mov tmua, r0": "TMU data words",
    "nop; mov tmua, 1": "no multiple",
    "nop; nop; thrsw\nnop; nop\nnop; nop; thrsw": "thrsw in the delay slots of thrsw",
    "nop; nop; thrsw\nb 0": "branch in the delay slots of thrsw",
    "b 0\nb 0": "in the delay slots of a branch",
    "b -32\nnop; nop\nnop; nop\nnop; nop": "hang",
}


@pytest.mark.parametrize("lines", ERRORS)
def test_errors_name_the_instruction(lines: str) -> None:
    outcome = dispatch(lines + "\n" + END, [], flags=ONE_SECTION)
    assert ERRORS[lines] in outcome.error
    assert outcome.error.startswith(f"QPU instruction at 0x{CODE:08x}"[:-2])
    assert "(0x" in outcome.error
    assert outcome.fault is None


def test_reserved_word() -> None:
    outcome = dispatch(assemble("nop; nop") + bytes(8), [], flags=ONE_SECTION)
    assert outcome.error.startswith(f"QPU instruction at 0x{CODE + 8:08x} (0x0000000000000000): neither an ALU")


def test_code_after_the_end_does_not_count() -> None:
    assert dispatch(assemble(END) + bytes(8), [], flags=ONE_SECTION).error == ""


def test_tmu_fifo_of_a_thread_among_four_overflows() -> None:
    code = LANE_ADDRESS + "nop; mov tmua, rf10\n" * 5 + END
    assert dispatch(code, [DATA], flags=ONE_SECTION).error == ""
    assert "overflows its 4 entries" in dispatch(code, [DATA], flags=ONE_SECTION | FOUR_THREADS).error


END_OF_MEMORY = BASE + PAGES * 4096


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("nop; mov tmua, r5", (END_OF_MEMORY, False)),
        ("nop; mov tmud, r5\nnop; mov tmua, r5", (END_OF_MEMORY, True)),
        ("nop; mov unifa, r5\nnop; nop; ldunifa", (END_OF_MEMORY, False)),
        ("bu 0, a:unif\nnop; nop\nnop; nop\nnop; nop\nnop; nop; ldunif", (END_OF_MEMORY, False)),
    ],
)
def test_faults(lines: str, fault: tuple[int, bool], track: bool) -> None:
    uniforms = [END_OF_MEMORY, END_OF_MEMORY]
    outcome = dispatch("nop; nop; ldunif\n" + lines + "\n" + END, uniforms, flags=ONE_SECTION, track=track)
    assert outcome.fault == fault
    assert outcome.error == ""


def test_fault_on_a_read_only_page() -> None:
    va = BASE + READ_ONLY * 4096
    code = "nop; nop; ldunif\nnop; mov tmua, r5\nnop; nop; ldtmu.r0\nnop; mov tmud, r0\nnop; mov tmua, r5\n" + END
    assert dispatch(code, [va], flags=ONE_SECTION).fault == (va, True)


def test_code_that_runs_off_its_page() -> None:
    last = END_OF_MEMORY - 8
    outcome = dispatch("nop; nop", [], flags=ONE_SECTION, cfg={5: last | ONE_SECTION})
    assert outcome.error  # the last word there is zero: no instruction
    outcome = dispatch("nop; nop", [], cfg={5: END_OF_MEMORY | ONE_SECTION})
    assert outcome.fault == (END_OF_MEMORY, False)


@pytest.mark.parametrize("threads", [1, 4])
def test_lowest_failing_workgroup_is_reported(threads: int) -> None:
    """Workgroups 7 and up fault, each at an address of its own, after some work."""
    code = """
        nop; nop; ldunifrf.rf1                 # 7
        nop; nop; ldunifrf.rf2                 # outside
        nop; nop; ldunifrf.rf3                 # rounds
        sub.pushz rf3, rf3, 1
        b.na0 -40
        nop; nop
        nop; nop
        nop; nop
        sub.pushn -, rf0, rf1
        shl r0, rf0, 12
        add r0, r0, rf2
        nop; mov.ifna tmua, r0
    """
    outcome = dispatch(
        code + END, [7, END_OF_MEMORY, 3000], groups=(64, 1, 1), size=1, flags=ONE_SECTION, threads=threads
    )
    assert outcome.fault == (END_OF_MEMORY + 7 * 4096, False)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({0: 0}, "word 0 = 0x00000000: no workgroups"),
        ({3: 1 << 27 | 0x110}, "bits 31:27"),
        ({3: 0x1110}, "batches per supergroup"),
        ({4: 1}, "number of batches"),
        ({5: CODE | SINGLE_SEGMENT}, "propagate NaN"),
        ({6: UNIFORMS + 2}, "no multiple of 4"),
    ],
)
def test_bad_configuration(cfg: dict[int, int], message: str) -> None:
    assert message in dispatch(END, [], flags=ONE_SECTION, cfg=cfg).error
