# SPDX-License-Identifier: BSD-2-Clause
"""The device's LZ4 decoder against the library's encoder, and on blocks that no encoder would write."""

from __future__ import annotations

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tee_replayer.generator import hostlib
from tests.support import replayer_samples as s

# pieces that repeat at near and far distances, so that every kind of match is used
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 200)).map(lambda p: p[0] * p[1]),
        st.integers(0, 3000).map(lambda n: bytes(range(256)) * (n // 256) + bytes(n % 256)),
    ),
    max_size=12,
).map(b"".join)


END = b"the last ones"[:12]  # the library wants a block to end with literals


def encode(raw: bytes, level: int = 12) -> bytes:
    """One LZ4 block."""
    packed = lz4.block.compress(raw, mode="high_compression", compression=level, store_size=False)
    return bytes(packed)


def decode(packed: bytes, out_bytes: int, chunk_bytes: int = 4096) -> bytes | None:
    """Output of the device's decoder; None: refused."""
    return hostlib.lz4_decode(s.library(), packed, out_bytes, chunk_bytes)


@given(PIECES, st.integers(0, 12), st.sampled_from([1, 7, 4096]))
def test_what_was_compressed_comes_back(raw: bytes, level: int, chunk_bytes: int) -> None:
    assert decode(encode(raw, level), len(raw), chunk_bytes) == raw


@pytest.mark.parametrize("size", [1 << 16, 1 << 20])
def test_far_matches(size: int) -> None:
    raw = (bytes(range(256)) * 17 + bytes(size) + bytes(range(255, -1, -1)) * 5) * 2
    assert decode(encode(raw), len(raw)) == raw


@pytest.mark.parametrize("distance", [1, 2, 3, 7, 8, 9, 100])
def test_matches_that_overlap_themselves(distance: int) -> None:
    """A match of 300 bytes, begun `distance` bytes before."""
    start = bytes(range(distance))
    literals = bytes([0xFF, distance - 15]) + start if distance >= 15 else bytes([distance << 4 | 15]) + start
    block = literals + distance.to_bytes(2, "little") + bytes([255, 300 - 4 - 15 - 255]) + b"\xc0" + END
    expected = (start * 400)[: distance + 300] + END
    assert decode(block, len(expected)) == expected
    assert lz4.block.decompress(block, uncompressed_size=len(expected)) == expected


@pytest.mark.parametrize("lost", [1, 2, 5, 10, 100])
def test_a_short_block_is_refused(lost: int) -> None:
    raw = bytes(i * i % 251 for i in range(5000))
    assert decode(encode(raw)[:-lost], len(raw)) is None


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_more_output_than_there_is_is_refused(size: int) -> None:
    assert decode(encode(b"abc"), size) is None


MALFORMED = {
    "empty": b"",
    "a byte after the last": b"\x80abcdefgh\0",
    "a match before any output": b"\x00\x01\x00",
    "distance 0": b"\x1fa\x00\x00\x10a",
    "distance before the start": b"\x10a\x02\x00\x10a",
    "match longer than there is room for": b"\x1fa\x01\x00\xff\x00",
    "literals longer than there is room for": b"\xf0\xff\xff\x00" + bytes(600),
    "literals cut": b"\x50ab",
    "length without end": b"\xf0" + b"\xff" * 500,
    "match cut": b"\x10a\x01",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    """Refused here, and by the library too."""
    assert decode(MALFORMED[name], 8) is None
    with pytest.raises(lz4.block.LZ4BlockError):
        lz4.block.decompress(MALFORMED[name] or b"\xff", uncompressed_size=8)


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_random_bytes_end(data: bytes, out_bytes: int) -> None:
    """Whatever comes in, the decoder ends, and gives what the library gives if both take it."""
    out = decode(data, out_bytes)
    try:
        expected = lz4.block.decompress(data, uncompressed_size=out_bytes)
    except (lz4.block.LZ4BlockError, ValueError):
        return
    assert out is None or out == expected
