# SPDX-License-Identifier: BSD-2-Clause
"""Blocks without short matches: they decode to the same bytes, by LZ4's own decoder."""

from __future__ import annotations

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_format.codec import packed_as
from trace_format.lz4_sequences import SHORTEST, without_short_matches
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
    block = without_short_matches(packed(raw), raw)
    assert lz4.block.decompress(block, uncompressed_size=len(raw)) == raw
    assert all(length >= SHORTEST for length in matches(block))


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 269, 270, 271, 525, 70_000])
def test_lengths_at_the_bounds_of_their_bytes(size: int) -> None:
    """Literals of a length, and a match of that length."""
    literals = np.random.default_rng(size).bytes(size)
    raw = literals + bytes(size) + literals
    block = without_short_matches(packed(raw), raw)
    assert lz4.block.decompress(block, uncompressed_size=len(raw)) == raw


def test_short_matches_go_and_long_ones_stay() -> None:
    """Matches of five bytes between bytes that never were before: all go; of 20, all stay."""
    new = np.random.default_rng(2).bytes(4000)
    for size, stay in ((5, False), (20, True)):
        raw = b"".join(new[at : at + 30] + new[:size] for at in range(0, len(new), 30))
        assert len(matches(packed(raw))) > 100
        assert (len(matches(without_short_matches(packed(raw), raw))) > 100) is stay


def test_what_is_to_be_small_keeps_them() -> None:
    raw = np.random.default_rng(3).integers(0, 3, 5000, np.uint8).tobytes()
    small, quick = (bytes(packed_as(Codec.LZ4, raw, smallest=way)) for way in (True, False))
    assert small == packed(raw)
    assert len(small) < len(quick)
    assert len(matches(quick)) < len(matches(small)) / 2
