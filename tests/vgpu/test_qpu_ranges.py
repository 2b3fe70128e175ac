# SPDX-License-Identifier: BSD-2-Clause
"""Words that the lanes of a gang load and store, on one page or many: against NumPy, and threads one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.qpu_bench import BASE, DATA, END, ONE_SECTION, PAGES, READ_ONLY, Outcome, dispatch

ITEMS, GROUPS = 64, 3  # a workgroup is a gang of four
COUNT = ITEMS * GROUPS
MASKS = DATA + 4 * COUNT  # after the addresses: whether the item takes part
OUT = DATA + 0x2000
FREE = DATA + 0x4000  # what is loaded or stored
FREE_PAGES = (BASE + READ_ONLY * 4096 - FREE) // 4096
U32 = npt.NDArray[np.uint32]

# rf20: the item's address; rf11: DATA + 4 * number of the item among all. Flag a: it takes no part.
OWN = """
nop; nop; ldunifrf.r1
shr r0, rf2, r1                                # item in its workgroup
shl r0, r0, 2
nop; nop; ldunifrf.r1
and r2, rf0, r1; nop; ldunifrf.r1              # workgroup
shl r2, r2, r1
add r0, r0, r2; nop; ldunifrf.r1
add rf11, r0, r1; nop; ldunifrf.r1
nop; mov tmua, rf11
add r0, rf11, r1
nop; mov tmua, r0; ldtmu.rf20
nop; nop; ldtmu.rf21
nop; mov.pushz -, rf21
nop; nop; ldunifrf.r1
add rf11, rf11, r1
"""
UNIFORMS = [26, 0xFFFF, 8, DATA, 4 * COUNT, OUT - DATA]
LOAD = OWN + "nop; mov.ifna tmua, rf20\nnop; nop; ldtmu.rf30\nnop; mov tmud, rf30\nnop; mov tmua, rf11\n" + END
STORE = OWN + "nop; mov tmud, rf11\nnop; mov.ifna tmua, rf20\n" + END

BATCH_PATTERNS = {
    "one address": np.zeros(16, int),
    "one a quad": np.repeat([0, 9, 3000, 9], 4),
    "rows": (np.arange(16) % 4 + np.arange(16) // 4 * 700),
    "consecutive": np.arange(16),
    "columns": 16 * np.arange(16),
    "twice the same eight": np.tile(16 * np.arange(8), 2),
    "eight pages": 2048 * (np.arange(16) % 8),
    "two pages": 2048 * (np.arange(16) // 8),
}


@st.composite
def addresses(draw: st.DrawFn) -> U32:
    """An address an item: batches with a pattern or without one, some the same as the one before."""
    batches: list[U32] = []
    again = st.booleans()
    for _ in range(COUNT // 16):
        if draw(again) and batches:
            batches.append(batches[-1])
            continue
        name = draw(st.sampled_from([*BATCH_PATTERNS, "random"]))
        seed = draw(st.integers(0, 2**32 - 1))
        words = FREE_PAGES * 1024
        random = np.random.default_rng(seed).integers(0, words, 16)
        offsets = random if name == "random" else (BATCH_PATTERNS[name] + random[0]) % words
        batches.append((FREE + 4 * offsets).astype(np.uint32))
    return np.concatenate(batches)


masks = st.one_of(
    st.just(np.ones(COUNT, np.uint32)),
    st.integers(0, 2**COUNT - 1).map(
        lambda bits: np.array([bits >> i & 1 for i in range(COUNT)], np.uint32)  # any
    ),
    st.integers(0, 2**16 - 1).map(lambda bits: np.tile([bits >> i & 1 for i in range(16)], COUNT // 16)),
)


def run(code: str, table: U32, mask: npt.ArrayLike, *, track: bool) -> Outcome:
    data = np.arange(PAGES * 1024 - (DATA - BASE) // 4, dtype=np.uint32) * np.uint32(2654435761)
    data[: 2 * COUNT] = np.concatenate([table, np.asarray(mask, np.uint32)])
    return dispatch(code, UNIFORMS, data, flags=ONE_SECTION, groups=(GROUPS, 1, 1), size=ITEMS, track=track)


def both(code: str, table: U32, mask: npt.ArrayLike) -> Outcome:
    """In gangs; asserts that threads one by one do the same."""
    gangs, alone = (run(code, table, mask, track=track) for track in (False, True))
    assert (gangs.error, gangs.fault) == (alone.error, alone.fault)
    if not gangs.error and not gangs.fault:  # else others of the gang have begun
        for name in ("instructions", "bytes_read", "bytes_written"):
            assert getattr(gangs, name) == getattr(alone, name), name
        np.testing.assert_array_equal(gangs.touched, alone.touched)
        np.testing.assert_array_equal(gangs.memory, alone.memory)
    return gangs


@settings(max_examples=60)
@given(addresses(), masks)
def test_loads(table: U32, mask: U32) -> None:
    got = both(LOAD, table, mask)
    assert (got.error, got.fault) == ("", None)
    expected = np.where(mask, got.memory[(table - BASE) // 4], 0)
    np.testing.assert_array_equal(got.words(OUT, COUNT), expected)


@settings(max_examples=60)
@given(addresses(), masks)
def test_stores(table: U32, mask: U32) -> None:
    got = both(STORE, table, mask)
    assert (got.error, got.fault) == ("", None)
    words = PAGES * 1024 - (DATA - BASE) // 4
    expected = run(END, table, mask, track=False).words(DATA, words)
    for item in np.flatnonzero(mask):  # the highest wins
        expected[(table[item] - DATA) // 4] = OUT + 4 * item
    np.testing.assert_array_equal(got.words(DATA, words), expected)


@pytest.mark.parametrize("code", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize("item", [0, 5, 17, 63, 130])
def test_the_lowest_lane_that_faults_is_named(code: str, item: int) -> None:
    """Lanes before it are on several pages, some behind it on those pages, others nowhere, too."""
    table = (FREE + 8192 * (np.arange(COUNT) % 5)).astype(np.uint32)
    nowhere = BASE + PAGES * 4096 + 4096
    table[item::3] = nowhere + 4 * np.arange(len(table[item::3]))
    got = both(code, table, np.ones(COUNT))
    assert got.fault == (nowhere, code is STORE)
    assert both(code, table, np.arange(COUNT) % 3 != item % 3).fault is None


@pytest.mark.parametrize("code", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize("spread", [0, 8192], ids=["one page", "many pages"])
def test_lanes_that_are_not_aligned_are_refused(code: str, spread: int) -> None:
    table = (FREE + spread * (np.arange(COUNT) % 5)).astype(np.uint32)
    table[[35, 38]] += np.array([1, 2], np.uint32)
    mask = np.ones(COUNT, np.uint32)
    assert "multiple of it (lane mask 0x0048)" in both(code, table, mask).error
    mask[35] = 0
    assert "multiple of it (lane mask 0x0040)" in both(code, table, mask).error
    mask[38] = 0
    assert both(code, table, mask).error == ""
