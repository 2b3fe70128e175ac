# SPDX-License-Identifier: BSD-2-Clause
"""Blocks without short matches: they decode to the same bytes, by LZ4's own decoder."""

from __future__ import annotations

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_format.codec import packed_as
from trace_format.lz4_sequences import GROWTH, SHORTEST, without_short_matches
from trace_format.schema import Codec

WORDS = b"".join(i.to_bytes(2, "little") for i in range(300))


def packed(raw: bytes) -> bytes:
    return bytes(lz4.block.compress(raw, mode="high_compression", compression=12, store_size=False))


def matches(block: bytes) -> list[int]:
    """Lengths of a block's matches, read by the format's description."""
    found: list[int] = []
    at = 0
    while True:
        token = block[at]
        at += 1
        lengths: list[int] = []
        for length, width in ((token >> 4, 0), (token & 15, 2)):
            if lengths:
                at += lengths[0]
                if at == len(block):
                    return found
                at += width
            if length == 15:
                while (more := block[at]) == 255:
                    length, at = length + 255, at + 1
                length, at = length + more, at + 1
            lengths.append(length)
        found.append(lengths[1] + 4)


@given(st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 500).map(bytes), st.just(WORDS)), max_size=30))
def test_it_decodes_to_the_same_bytes(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    small = packed(raw)
    block = without_short_matches(small, raw)
    assert lz4.block.decompress(block, uncompressed_size=len(raw)) == raw
    assert len(block) - len(small) <= len(raw) // GROWTH
    assert len(matches(block)) <= len(matches(small))


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 269, 270, 271, 525, 70_000])
def test_lengths_at_the_bounds_of_their_bytes(size: int) -> None:
    """Literals of a length, and a match of that length."""
    literals = np.random.default_rng(size).bytes(size)
    raw = literals + bytes(size) + literals
    block = without_short_matches(packed(raw), raw)
    assert lz4.block.decompress(block, uncompressed_size=len(raw)) == raw


def test_short_matches_go_and_long_ones_stay() -> None:
    """Between 200 bytes that never were before: matches shorter than SHORTEST go, the others stay."""
    new = np.random.default_rng(2).bytes(40_000)
    for size, stay in ((SHORTEST - 1, False), (SHORTEST, True)):
        raw = b"".join(new[at : at + 200] + new[:size] for at in range(0, len(new), 200))
        assert min(matches(packed(raw))) == size
        assert len(matches(packed(raw))) > 100
        assert (len(matches(without_short_matches(packed(raw), raw))) > 100) is stay


@pytest.mark.parametrize(("step", "kept"), [(12, {7}), (300, set())])
def test_a_section_does_not_grow_by_much(step: int, kept: set[int]) -> None:
    """Matches of six and of seven bytes: where there are many, a section may not lose all of them."""
    new = np.random.default_rng(4).bytes(40_000)
    raw = b"".join(new[at : at + step] + new[: 6 + at // step % 2] for at in range(0, len(new), step))
    small = packed(raw)
    block = without_short_matches(small, raw)
    assert {6, 7} <= set(matches(small))
    assert {6, 7} & set(matches(block)) == kept
    assert len(block) - len(small) <= len(raw) // GROWTH


def test_a_section_has_few_of_them() -> None:
    new = np.random.default_rng(3).bytes(40_000)
    raw = b"".join(new[at : at + 200] + new[:6] for at in range(0, len(new), 200))
    small, quick = packed(raw), bytes(packed_as(Codec.LZ4, raw))
    assert len(small) < len(quick)
    assert len(matches(quick)) < len(matches(small)) / 2
