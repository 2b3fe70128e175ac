"""The device's LZMA decoder against the standard library's encoder."""

from __future__ import annotations

import lzma

import pytest
import replayer_samples as s
from hypothesis import given
from hypothesis import strategies as st

from tee_replayer import hostlib

MAX_LC_LP = 4
PROPERTIES = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)).filter(
    lambda p: p[0] + p[1] <= MAX_LC_LP
)
# pieces that repeat at near and far distances, so that every kind of match is used
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 200)).map(lambda p: p[0] * p[1]),
        st.integers(0, 3000).map(lambda n: bytes(range(256)) * (n // 256) + bytes(n % 256)),
    ),
    max_size=12,
).map(b"".join)


def encode(raw: bytes, properties: tuple[int, int, int]) -> tuple[int, bytes]:
    """Properties byte, and raw LZMA with an end marker."""
    lc, lp, pb = properties
    filters = [{"id": lzma.FILTER_LZMA1, "preset": 6, "lc": lc, "lp": lp, "pb": pb}]
    return (pb * 5 + lp) * 9 + lc, lzma.compress(raw, format=lzma.FORMAT_RAW, filters=filters)


@given(PIECES, PROPERTIES, st.sampled_from([1, 7, 4096]))
def test_what_was_compressed_comes_back(raw: bytes, properties: tuple[int, int, int], chunk_bytes: int) -> None:
    code, packed = encode(raw, properties)
    left, out = hostlib.lzma_decode(s.library(), packed, len(raw), code, chunk_bytes)
    assert out == raw
    assert 0 <= left <= 16, "no more than the end marker is left over"


@pytest.mark.parametrize("size", [1 << 20, 3 << 20])
def test_far_matches(size: int) -> None:
    raw = (bytes(range(256)) * 17 + bytes(size) + bytes(range(255, -1, -1)) * 5) * 2
    code, packed = encode(raw, (3, 0, 2))
    assert hostlib.lzma_decode(s.library(), packed, len(raw), code, 4096)[1] == raw


@pytest.mark.parametrize("lost", [1, 2, 5, 10, 100])
def test_a_short_stream_is_refused(lost: int) -> None:
    raw = bytes(i * i % 251 for i in range(5000))
    code, packed = encode(raw, (3, 0, 2))
    left, _ = hostlib.lzma_decode(s.library(), packed[: len(packed) - 10 - lost], len(raw), code, 4096)
    assert left == -1


@pytest.mark.parametrize("code", [225, 255, 4 + 9, 44])
def test_properties_out_of_range_are_refused(code: int) -> None:
    left, out = hostlib.lzma_decode(s.library(), bytes(100), 50, code, 4096)
    assert left == -1
    assert out == bytes(50)


def test_more_output_than_there_is_ends() -> None:
    code, packed = encode(b"abc", (3, 0, 2))
    assert hostlib.lzma_decode(s.library(), packed, 1 << 20, code, 4096)[0] == -1
