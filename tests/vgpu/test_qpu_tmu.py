# SPDX-License-Identifier: BSD-2-Clause
"""General memory access of the compute engine: loads, stores, atomics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support.qpu_bench import BASE, DATA, END, LANE_ADDRESS, ONE_SECTION, STORE_RF30, dispatch

PER_LANE, PER_QUAD = 0xFFFFFF80, 0xFFFFFF00
REGULAR, S8, S16, VEC2, VEC3, VEC4, U8, U16, U32 = 15 << 3, 0, 1, 2, 3, 4, 5, 6, 7


READ_FIRST = ACCESS_READ | ACCESS_READ_FIRST


def gather(
    addresses: np.ndarray, kind: int, components: int, data: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Loads with each lane's address from the table at DATA; data follows it.

    Returns:
        The components, and the access map of the data.
    """
    code = LANE_ADDRESS + "nop; mov tmua, rf10\nnop; nop; ldtmu.rf1\nnop; mov tmuau, rf1\nnop; nop; ldunif\n"
    for i in range(components):
        code += f"nop; nop; ldtmu.rf{20 + i}\n"
    code += "nop; mov r1, r5\n"
    for i in range(components):
        code += f"add rf10, rf10, r1\nnop; mov tmud, rf{20 + i}\nnop; mov tmua, rf10\n"
    uniforms = [DATA, PER_LANE | REGULAR | kind, 0x4000]
    outcomes = [
        dispatch(code + END, uniforms, np.concatenate([addresses, data]), flags=ONE_SECTION, track=track)
        for track in (False, True)
    ]
    plain, tracked = outcomes
    assert (plain.error, plain.fault) == ("", None)
    np.testing.assert_array_equal(plain.memory, tracked.memory)
    noted = tracked.noted[DATA + 64 - BASE :][: data.nbytes]
    return [plain.words(DATA + 0x4000 * (i + 1), 16) for i in range(components)], noted


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
    kind = U32 if components == 1 else components
    got, noted = gather((DATA + offsets).astype(np.uint32), kind, components, data)
    touched = np.zeros_like(noted)
    for c, values in enumerate(got):
        at = offsets // 16 * 16 + (offsets + 4 * c) % 16
        expected = memory[at // 4].copy()
        table = at // 4 < 16
        assert not table.any()
        np.testing.assert_array_equal(values, expected)
        touched[(at - 64).reshape(-1, 1) + np.arange(4)] = READ_FIRST
    np.testing.assert_array_equal(noted, touched)


@pytest.mark.parametrize(("kind", "dtype"), [(S8, np.int8), (U8, np.uint8), (S16, np.int16), (U16, np.uint16)])
def test_small_loads(kind: int, dtype: type) -> None:
    data = np.random.default_rng(4).integers(0, 2**32, 200, np.uint32)
    size = np.dtype(dtype).itemsize
    index = np.random.default_rng(5).integers(0, 200 * 4 // size, 16)
    (got,), noted = gather((DATA + 64 + size * index).astype(np.uint32), kind, 1, data)
    np.testing.assert_array_equal(got, data.view(dtype)[index].astype(np.int64).astype(np.uint32))
    assert set(np.flatnonzero(noted)) == set((size * index.reshape(-1, 1) + np.arange(size)).ravel())


@pytest.mark.parametrize(("kind", "components"), [(U32, 1), (VEC2, 2), (VEC3, 3), (VEC4, 4), (U16, 1), (U8, 1)])
def test_stores(kind: int, components: int) -> None:
    """Lane i stores i + 100 c at 16 * i, one lane in four not at all; nothing else changes."""
    code = LANE_ADDRESS + "eidx rf1\nshl rf2, rf1, 4\nadd rf2, rf2, rf9\nnop; mov r1, 3\nand.pushz -, rf1, r1\n"
    code += "nop; nop; ldunifrf.r2\nnop; mov rf3, rf1\n" + "nop; mov tmud, rf3\nadd rf3, rf3, r2\n" * components
    code += "nop; mov.ifna tmuau, rf2\n" + END
    uniforms = [DATA, 100, PER_LANE | REGULAR | kind]
    outcome = dispatch(code, uniforms, [0xAAAAAAAA] * 64, flags=ONE_SECTION, track=True)
    assert (outcome.error, outcome.fault) == ("", None)
    expected, noted = np.full(64, 0xAAAAAAAA, np.uint32), np.zeros(256, np.uint8)
    size = {U16: 2, U8: 1}.get(kind, 4)
    for lane in range(16):
        for c in range(components):
            if lane % 4:
                value = (lane + 100 * c).to_bytes(4, "little")[:size]
                expected.view(np.uint8)[16 * lane + 4 * c :][:size] = np.frombuffer(value, np.uint8)
                noted[16 * lane + 4 * c :][:size] = ACCESS_WRITTEN
    np.testing.assert_array_equal(outcome.words(DATA, 64), expected)
    np.testing.assert_array_equal(outcome.noted[DATA - BASE :][:256], noted)
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
    outcome = dispatch(code, [DATA, DATA + 64, config], values, flags=ONE_SECTION, track=True)
    assert (outcome.error, outcome.fault) == ("", None)
    assert outcome.noted[DATA + 64 - BASE :][:5].tolist() == [READ_FIRST | ACCESS_WRITTEN] * 4 + [0]
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
