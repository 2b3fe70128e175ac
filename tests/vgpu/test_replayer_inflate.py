"""The device's DEFLATE decoder against zlib's and zopfli's encoders, and on streams that neither would write."""

from __future__ import annotations

import contextlib
import zlib

import numpy as np
import pytest
import replayer_samples as s
import zopfli.zopfli
from hypothesis import given
from hypothesis import strategies as st

from tee_replayer import hostlib

# pieces that repeat at near and far distances, so that every kind of match is used
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 200)).map(lambda p: p[0] * p[1]),
        st.integers(0, 3000).map(lambda n: bytes(range(256)) * (n // 256) + bytes(n % 256)),
    ),
    max_size=12,
).map(b"".join)
STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED, zlib.Z_FILTERED]


def encode(raw: bytes, level: int = 9, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    """DEFLATE without a frame."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
    return packer.compress(raw) + packer.flush()


class Bits:
    """A stream written bit by bit."""

    def __init__(self) -> None:
        self.value = self.count = 0

    def put(self, value: int, bits: int) -> Bits:
        """A number, its lowest bit first."""
        self.value |= value << self.count
        self.count += bits
        return self

    def code(self, text: str) -> Bits:
        """A code, its first bit first."""
        for bit in text:
            self.put(int(bit), 1)
        return self

    def bytes(self) -> bytes:
        """The stream so far, filled up with zeros."""
        return self.value.to_bytes(-(-self.count // 8), "little")


def decode(packed: bytes, out_bytes: int, chunk_bytes: int = 4096) -> tuple[int, bytes]:
    """(bytes left over or -1, output) of the device's decoder."""
    return hostlib.inflate(s.library(), packed, out_bytes, chunk_bytes)


@given(PIECES, st.integers(0, 9), st.sampled_from(STRATEGIES), st.sampled_from([1, 7, 4096]))
def test_what_was_compressed_comes_back(raw: bytes, level: int, strategy: int, chunk_bytes: int) -> None:
    assert decode(encode(raw, level, strategy), len(raw), chunk_bytes) == (0, raw)


@pytest.mark.parametrize("seed", range(3))
def test_what_zopfli_compressed_comes_back(seed: int) -> None:
    """It cuts blocks and writes code lengths in ways that zlib does not."""
    random = np.random.default_rng(seed)
    raw = random.geometric(0.02, 60_000).astype(np.uint8).tobytes() + bytes(40_000) + random.bytes(3000)
    assert decode(zopfli.zopfli.compress(raw)[2:-4], len(raw)) == (0, raw)


@pytest.mark.parametrize("size", [1 << 15, 1 << 20])
def test_far_matches(size: int) -> None:
    raw = (bytes(range(256)) * 17 + bytes(size) + bytes(range(255, -1, -1)) * 5) * 2
    assert decode(encode(raw), len(raw)) == (0, raw)


def test_codes_of_fifteen_bits() -> None:
    """Frequencies that double give the longest codes there are."""
    raw = b"".join(bytes([i]) * (1 << i) for i in range(17))
    shuffled = np.random.default_rng(1).permutation(np.frombuffer(raw, np.uint8)).tobytes()
    assert decode(encode(shuffled, strategy=zlib.Z_HUFFMAN_ONLY), len(raw)) == (0, shuffled)


@pytest.mark.parametrize("lost", [1, 2, 5, 10, 100])
def test_a_short_stream_is_refused(lost: int) -> None:
    raw = bytes(i * i % 251 for i in range(5000))
    assert decode(encode(raw)[:-lost], len(raw))[0] == -1


@pytest.mark.parametrize("size", [0, 2, 4, 1 << 20])
def test_another_size_is_refused(size: int) -> None:
    assert decode(encode(b"abc"), size)[0] == -1


def block(kind: int) -> Bits:
    """The start of a last block."""
    return Bits().put(1, 1).put(kind, 2)


def lengths_block(literals: int, distances: int, *lengths: int) -> Bits:
    """The start of a block with codes of its own: the lengths of the code of lengths, in the order of RFC 1951."""
    bits = block(2).put(literals - 257, 5).put(distances - 1, 5).put(len(lengths) - 4, 4)
    for length in lengths:
        bits.put(length, 3)
    return bits


MALFORMED = {
    "empty": b"",
    "a block of the kind that does not exist": block(3).put(0, 64).bytes(),
    "stored, complement wrong": block(0).put(0, 5).put(3, 16).put(3, 16).bytes() + b"abc",
    "stored, more than there is room for": block(0).put(0, 5).put(9, 16).put(0xFFF6, 16).bytes() + b"abcdefghi",
    "stored, cut": block(0).put(0, 5).put(3, 16).put(0xFFFC, 16).bytes() + b"a",
    "distance before the start": block(1).code("0000001").code("00000").put(0, 64).bytes(),
    "length that does not exist (286)": block(1).code("00110000" + "11000110").put(0, 64).bytes(),
    "distance that does not exist (30)": block(1).code("00110000" + "0000001" + "11110").put(0, 64).bytes(),
    "match longer than there is room for": block(1).code("00110000" + "11000101" + "00000").put(0, 64).bytes(),
    "too many codes of one bit": lengths_block(257, 1, 1, 1, 1, 1).put(0, 400).bytes(),
    "no code at all": lengths_block(257, 1, 0, 0, 0, 0).put(0, 400).bytes(),
    "287 literals": lengths_block(287, 1, 0, 0, 1, 1).put(0, 400).bytes(),
    "repeat before the first length": lengths_block(257, 1, 1, 1, 0, 0).code("0").put(0, 400).bytes(),
    "more lengths than symbols": lengths_block(257, 1, 0, 0, 1, 0)
    .code("0" + "1111111" + "0" + "1111111")
    .put(0, 9)
    .put((1 << 400) - 1, 400)
    .bytes(),
    "blocks without end": bytes(Bits().put(0b010, 3).put(0, 7).bytes()) * 1,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    """Refused here, and by zlib too."""
    data = MALFORMED[name]
    left, _ = decode(data, 3)
    assert left == -1
    try:
        other = zlib.decompressobj(-zlib.MAX_WBITS)
        assert len(other.decompress(data)) != 3 or not other.eof
    except zlib.error:
        pass


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_random_bytes_end(data: bytes, out_bytes: int) -> None:
    """Whatever comes in, the decoder ends, and agrees with zlib on what it takes."""
    left, out = decode(data, out_bytes)
    if left >= 0:
        with contextlib.suppress(zlib.error):  # it refuses codes that leave some bits without a meaning
            assert zlib.decompressobj(-zlib.MAX_WBITS).decompress(data) == out
