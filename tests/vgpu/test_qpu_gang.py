# SPDX-License-Identifier: BSD-2-Clause
"""Batches that run together do what they do one by one, as they run while an access map is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.qpu_bench import DATA, END, ONE_SECTION, PROPAGATE_NAN, Outcome, dispatch
from tests.support.qpu_programs import ADDRESSES, EPILOGUE, LOADS, conditions, deciding, plain, registers
from tests.support.sampling import few

OUT, EXCHANGED, SHARED = DATA + 0x1000, DATA + 0x8000, DATA + 0x9000
BATCHES = 20  # at most
WORDS = 32  # of input of each batch, of which the next one has the second half, too
# After ADDRESSES: each batch has its own input (64 bytes on) and output (1024 bytes on). rf14: SHARED; rf15: the
# item's word of what batches exchange.
OWN = """
nop; nop; ldunifrf.r1
shr r0, rf2, r1                                # item in its workgroup
shr r0, r0, 4
or r1, rf0, rf0; nop; ldunifrf.r2
shl r1, r1, r2
shr r1, r1, r2                                 # workgroup x
nop; nop; ldunifrf.r2
nop; umul24 r1, r1, r2                         # batches a workgroup
add r0, r0, r1
shl r1, r0, 6
add rf12, rf12, r1
add rf10, rf10, r1; nop; ldunifrf.rf15
add rf15, rf15, r1
eidx r1
shl r1, r1, 2
add rf15, rf15, r1
shl r1, r0, 10
add rf13, rf13, r1
add rf11, rf11, r1; nop; ldunifrf.rf14
nop; nop; ldunifrf.rf16                        # 64
"""
LAST_SECTION = "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\n"
# What a batch stores, another one loads.
EXCHANGE = """
nop; mov tmud, {a}
nop; mov tmua, rf15
barrierid syncb; nop; thrsw
nop; nop
nop; nop
xor r0, rf15, rf16
nop; mov tmua, r0
nop; nop; ldtmu.{d}
"""
# As often as the data say.
LOOP = """
and rf26, {a}, 3
add {d}, {d}, {b}
sub rf26, rf26, 1
max.pushz rf26, rf26, 0
b.anyna -56
nop; nop
nop; nop
nop; nop
"""


@st.composite
def atomics(draw: st.DrawFn) -> str:
    """On words that all batches have; what was there before counts, too. `*`: the configuration, a uniform."""
    a, d, cond = draw(registers), draw(registers), draw(conditions)
    operation = draw(st.sampled_from([0, 1, 2, 5, 6, 9, 10]))
    where = draw(st.sampled_from(["rf14", "r0"]))
    return (
        f"and r0, {a}, 3\nshl r0, r0, 2\nadd r0, r0, rf14\n"
        f"nop; mov tmud, {a}\nnop; mov{cond} tmuau, {where} *{0xFFFFFF87 | operation << 3}\nnop; nop; ldtmu.{d}"
    )


loops = st.builds(lambda a, b, d: LOOP.format(a=a, b=b, d=d), registers, registers, registers)
exchanges = st.builds(lambda a, d: EXCHANGE.format(a=a, d=d), registers, registers)
programs = st.lists(st.one_of(plain(), plain(), deciding(), loops, atomics()), min_size=1, max_size=10)
contents = st.lists(
    st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 3), st.sampled_from([0x3F800000, 0x7FC00000])),
    min_size=1, max_size=16 * (BATCHES + 1),
)  # fmt: skip


def both(
    lines: str,
    words: list[int],
    size: int = 64,
    groups: int = 1,
    version: int = 42,
    flags: int = PROPAGATE_NAN,
) -> tuple[Outcome, Outcome]:
    """Run lines between prologue and epilogue in gangs, and one by one."""
    text, *extra = lines.split("*")
    uniforms = [DATA, OUT, 32 - max(6, (size - 1).bit_length()), 16, -(-size // 16), EXCHANGED, SHARED, 64, 64]
    for part in extra:
        value, rest = part.split("\n", 1)
        uniforms.append(int(value))
        text += "\n" + rest
    code = ADDRESSES + OWN + LOADS + text + "\n" + EPILOGUE + (END if flags & 2 else LAST_SECTION + END)
    inputs = np.resize(np.array(words, np.uint64), 16 * (BATCHES + 1)).astype(np.uint32)
    one, two = (
        dispatch(
            code,
            [*uniforms, 64],
            inputs,
            groups=(groups, 1, 1),
            size=size,
            flags=flags,
            track=track,
            version=version,
        )
        for track in (False, True)
    )
    return one, two


def same(one: Outcome, two: Outcome) -> None:
    """In all that a dispatch leaves."""
    assert (one.error, one.fault) == (two.error, two.fault) == ("", None)
    np.testing.assert_array_equal(one.memory, two.memory)
    np.testing.assert_array_equal(one.touched, two.touched)
    assert (one.instructions, one.bytes_read, one.bytes_written) == (
        two.instructions,
        two.bytes_read,
        two.bytes_written,
    )


@few(40, 300, deadline=None)
@given(programs, contents, st.integers(1, 160), st.integers(1, 2))
def test_gangs_equal_single_batches(lines: list[str], words: list[int], size: int, groups: int) -> None:
    same(*both("\n".join(lines), words, size, groups, flags=ONE_SECTION))


@few(40, 150, deadline=None)
@given(programs, exchanges, programs, contents, st.integers(1, 5), st.integers(1, 2))
def test_gangs_with_barriers(
    before: list[str], exchange: str, after: list[str], words: list[int], pairs: int, groups: int
) -> None:
    same(*both("\n".join([*before, exchange, *after]), words, 32 * pairs, groups))


FAILURES = {
    "access that is not mapped": "nop; mov.ifa rf10, 0\nnop; mov tmua, rf10\nnop; nop; ldtmu.rf20",
    "store that is not granted": "nop; mov.ifa rf11, 0\nnop; mov tmud, 1\nnop; mov tmua, rf11",
    "store to a bad address": "nop; mov.ifa rf11, 1\nnop; mov tmud, 1\nnop; mov tmua, rf11",
    "stream that is not mapped": (
        "nop; mov.ifa rf12, 0\nnop; mov unifa, rf12\nnop; nop\nnop; nop\nnop; nop; ldunifarf.rf20"
    ),
    "rotation": "nop; mov r5, 0\neidx r0\nnop; mov.ifa r5, r0\nnop; nop\nnop; add rf20, rf20, rf20; rot",
    "atomic operation": f"nop; mov.ifa rf14, 1\nnop; mov tmud, 1\nnop; mov tmuau, rf14 *{0xFFFFFF87}\n",
    "failure that others have first": (
        "nop; mov r0, 0\nnop; mov.ifa tmua, r0\nxor.pushz -, rf20, 6\nnop; mov.ifa rf10, 1\nnop; mov tmua, rf10"
    ),
}


@pytest.mark.parametrize("failing", [(0, 3), (2,), (3, 2), (1, 2, 3, 4), (6,), (7, 5)])
@pytest.mark.parametrize("name", FAILURES)
def test_the_first_batch_that_fails_is_reported(name: str, failing: tuple[int, ...]) -> None:
    """What batches before it have done, they have done."""
    words = np.full((BATCHES + 1, 16), 6)
    words[list(failing)] = 5
    # rf20: a batch's own words.
    one, two = both("xor.pushz -, rf20, 5\n" + FAILURES[name], words.ravel().tolist(), 64, 2, flags=ONE_SECTION)
    assert one.error or one.fault
    assert (one.error, one.fault) == (two.error, two.fault)
    done = 0 if "others" in name else min(failing)
    np.testing.assert_array_equal(one.words(OUT, 256 * done), two.words(OUT, 256 * done))
    assert done == 0 or one.words(OUT, 256 * done).any()


# The third delay slot is run again by batches whose words are even.
BRANCH = """
b 0; link
nop; nop
nop; nop
nop; nop
lr rf26; nop
and r0, rf20, 1
shl r0, r0, 3
add rf26, rf26, r0
add rf26, rf26, rf16
b rf26
nop; nop
nop; nop
add rf21, rf21, 1
"""


@pytest.mark.parametrize("odd", [(1,), (0, 1), (0, 2, 3, 5)])
def test_branches_by_registers_that_differ(odd: tuple[int, ...]) -> None:
    words = np.zeros((BATCHES + 1, 16), np.int64)
    words[list(odd)] = 1
    one, two = both(BRANCH, words.ravel().tolist(), 64, 2, flags=ONE_SECTION)
    same(one, two)
    found = [int(one.words(OUT + 1024 * batch + 64, 1)[0] - words[batch + 1, 0]) for batch in range(8)]
    assert found == [1 if batch in odd else 2 for batch in range(8)]
