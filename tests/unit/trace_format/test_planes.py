# SPDX-License-Identifier: BSD-2-Clause
"""Byte planes: encoder and decoder, and where an image is cut for them."""

from __future__ import annotations

import heapq
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.text.reader import assemble
from tests.support import planes_samples as samples
from tests.support import trace_samples
from tests.support.trace_text import annotated
from trace_format import codec, cuts, errors, layout, planes
from trace_format.schema import MAX_CODE_BITS, PLANES, Codec, SectionType
from trace_format.trace import Trace

# Few values, many, and one; lengths around multiples of the planes and beyond a step of the decoder.
BYTES = st.one_of(
    st.binary(max_size=100),
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(0, 400)).map(lambda p: p[0] * p[1]),
    st.tuples(st.integers(0, 99), st.integers(0, 40_000), st.sampled_from([1, 30, 255])).map(
        lambda p: (np.random.default_rng(p[0]).geometric(0.3, p[1]) % p[2]).astype(np.uint8).tobytes()
    ),
)


@given(BYTES)
def test_what_was_encoded_comes_back(raw: bytes) -> None:
    assert planes.decode(planes.encode(raw), len(raw)) == raw


def test_more_than_a_step_comes_back() -> None:
    """Codes of more bytes than are decoded at once, of one bit, and of lengths that end on no byte."""
    random = np.random.default_rng(1)
    for raw in (
        bytes(16 * planes._STEP * 8),
        random.normal(0, 0.1, 1 << 18).astype("<f4").tobytes(),
        (random.geometric(0.1, 3 << 20) % 256).astype(np.uint8).tobytes(),
    ):
        stored = planes.encode(raw)
        assert len(stored) < len(raw)
        assert planes.decode(stored, len(raw)) == raw


def test_the_code_of_rfc_1951() -> None:
    assert planes.decode(samples.GOOD, len(samples.RAW)) == samples.RAW
    letters = "FFFFAABBCCDDEEGH" * 16  # of which that code is the best one
    bits = "".join(samples.RFC_1951[letter] for letter in letters)
    codes = int(bits, 2).to_bytes(len(bits) // 8, "big")
    raw = np.zeros((len(letters), PLANES), np.uint8)
    raw[:, 0] = np.frombuffer(letters.encode(), np.uint8)
    raw[:, 1:] = np.arange(len(letters))[:, None]
    expected = samples.plane(codes, samples.NIBBLES) + 7 * samples.stored(bytes(range(256)))
    assert planes.encode(raw.tobytes()) == expected


@given(st.lists(st.integers(0, 5000), min_size=256, max_size=256).filter(any))
def test_no_code_is_better(counts: list[int]) -> None:
    lengths = planes.code_lengths(np.array(counts))
    assert all(length > 0 for length, count in zip(lengths, counts, strict=True) if count)
    assert sum(2.0 ** -float(length) for length in lengths if length) == 1
    size = int(np.array(counts) @ lengths)
    unlimited, longest = huffman(counts)
    assert size == unlimited if longest <= MAX_CODE_BITS else size > unlimited


def huffman(counts: list[int]) -> tuple[int, int]:
    """Bits that Huffman's own algorithm needs, which limits no length, and the longest of its codes."""
    heap = [(count, 0) for count in counts if count]
    if len(heap) == 1:
        return heap[0][0], 1
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        one, two = heapq.heappop(heap), heapq.heappop(heap)
        total += one[0] + two[0]
        heapq.heappush(heap, (one[0] + two[0], 1 + max(one[1], two[1])))
    return total, heap[0][1]


def test_lengths_are_limited() -> None:
    """Of Fibonacci's numbers the best code is as deep as they are many."""
    counts = np.zeros(256, np.int64)
    counts[:20] = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765]
    lengths = planes.code_lengths(counts)
    assert lengths.max() == MAX_CODE_BITS
    # By another program: the optimum for ten bits, found by trying all ways to share 2^10 sequences.
    assert int(counts @ lengths) == best_limited(counts[:20].tolist(), MAX_CODE_BITS)


def best_limited(counts: list[int], limit: int) -> int:
    """Bits of the best code without a longer code, by dynamic programming over the sequences that are left."""
    whole = 1 << limit
    best = {whole: 0}
    for count in counts:
        after: dict[int, int] = {}
        for left, bits in best.items():
            for length in range(1, limit + 1):
                rest = left - (whole >> length)
                if rest >= 0 and bits + count * length < after.get(rest, 1 << 60):
                    after[rest] = bits + count * length
        best = after
    return min(best.values())


@pytest.mark.parametrize("name", samples.MALFORMED)
def test_malformed(name: str) -> None:
    with pytest.raises(errors.CodecError, match=re.escape("byte planes are damaged (")) as error:
        codec.decode(Codec.PLANES, *samples.MALFORMED[name], offset=7)
    assert error.value.offset == 7


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_random_bytes_are_refused_or_decoded(stored: bytes, raw_bytes: int) -> None:
    try:
        raw = planes.decode(stored, raw_bytes)
    except planes.PlanesError:
        return
    assert len(raw) == raw_bytes


def test_a_bomb_takes_no_memory() -> None:
    with pytest.raises(planes.PlanesError, match="expected enough for 4294967296 bytes"):
        planes.decode(samples.GOOD, 1 << 32)


def weights(count: int) -> bytes:
    """Floats as networks have them."""
    return np.random.default_rng(count).normal(0, 0.05, count).astype("<f4").tobytes()


CODE = b"".join(bytes([index % 7, 0, 0, 1, 2, index % 3, 0, 9]) * 3 for index in range(1000))
IMAGES = {
    "nothing": b"",
    "a byte": b"x",
    "zeros": bytes(100_000),
    "weights": weights(50_000),
    "code, weights, code": CODE + weights(20_000) + CODE,
    "layers": b"".join(CODE[: 900 * index] + weights(3000 * index) for index in range(20)),
    "random": np.random.default_rng(3).integers(0, 256, 60_001, np.uint8).tobytes(),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_cut_for_size(name: str) -> None:
    image = IMAGES[name]
    pieces = list(cuts.smallest(image))
    assert b"".join(pieces) == image
    assert all(pieces)
    assert len(pieces) <= codec.MAX_IMAGE_SECTIONS
    sizes = [len(codec.smallest(piece)[1]) for piece in pieces]
    quick = [
        len(codec.encode(piece, compress=packs)[1]) for piece, packs in codec.image_pieces(image, compress=True)
    ]
    assert sum(sizes) + 32 * len(sizes) <= sum(quick) + 32 * len(quick)


@pytest.mark.parametrize("count", [20_000, 500_001])
def test_sections_of_an_image_begin_where_words_do(count: int) -> None:
    """A device copies what is stored by whole words where it lies alike in the file and in the image."""
    image = weights(count) + bytes(count) + b"end"
    pieces = [piece for piece, _ in codec.image_pieces(image, compress=True)]
    assert b"".join(pieces) == image
    assert 1 < len(pieces) <= codec.MAX_IMAGE_SECTIONS
    assert all(len(piece) % 64 == 0 for piece in pieces[:-1])


def test_what_packs_well_is_told_from_what_does_not() -> None:
    code, random = CODE[:65536].ljust(65536, b"\0"), IMAGES["random"][:49152]
    pieces = list(codec.image_pieces(random + code + random, compress=True))
    assert [(bytes(piece), packs) for piece, packs in pieces] == [(random, False), (code, True), (random, False)]
    assert [packs for _, packs in codec.image_pieces(random + code, compress=False)] == [False]
    assert not list(codec.image_pieces(b"", compress=True))


def test_many_cuts_are_joined() -> None:
    """More changes than there may be sections."""
    image = b"".join(CODE[:4096] + weights(1024) for _ in range(100))
    assert len(list(cuts.smallest(image))) <= codec.MAX_IMAGE_SECTIONS


def test_a_trace_with_planes_is_the_same_trace() -> None:
    sample = trace_samples.sample()
    trace = sample.with_(image=weights(2048))
    start, size = trace.build(), trace.build(planes=True)
    assert len(size) < 0.9 * len(start)
    assert layout.disassemble(start)[1].linked_codecs == []
    assert layout.disassemble(size)[1].linked_codecs == [Codec.PLANES]
    assert Trace.parse(size).build() == start
    assert {part.codec for part in layout.disassemble(size)[1].all(SectionType.IMAGE)} == {Codec.PLANES}
    text = annotated(size)
    assert "\n  image planes 8192\n" in text
    assert assemble(text, "sample")[0] == size
