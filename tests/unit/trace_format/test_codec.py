# SPDX-License-Identifier: BSD-2-Clause
"""How sections are stored: what was packed is unpacked, damaged data is refused; where an image is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_format import codec, errors
from trace_format.schema import Codec

CODE = b"".join(bytes([index % 7, 0, 0, 1, 2, index % 3, 0, 9]) * 3 for index in range(1000))


@given(st.binary(max_size=3000), st.booleans())
def test_codec_round_trip(raw: bytes, compress: bool) -> None:
    method, stored = codec.encode(raw, compress=compress)
    assert len(stored) <= len(raw)
    assert compress or method is Codec.STORED
    assert codec.decode(method, stored, len(raw), offset=0) == raw


@given(st.binary(min_size=1, max_size=64), st.integers(0, 2000))
def test_codec_packs_what_repeats(piece: bytes, times: int) -> None:
    raw = piece * times
    method, stored = codec.encode(raw)
    if len(raw) > 500:
        assert method is Codec.LZ4
        assert len(stored) < len(raw)
    assert codec.decode(method, stored, len(raw), offset=0) == raw


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_codec_refuses_or_decodes_random_bytes(stored: bytes, raw_bytes: int) -> None:
    try:
        raw = codec.decode(Codec.LZ4, stored, raw_bytes, offset=7)
    except errors.CodecError:
        return
    assert len(raw) == raw_bytes


def weights(count: int) -> bytes:
    """Floats as networks have them."""
    return np.random.default_rng(count).normal(0, 0.05, count).astype("<f4").tobytes()


@pytest.mark.parametrize("count", [20_000, 500_001])
def test_sections_of_an_image_begin_where_words_do(count: int) -> None:
    """A device copies what is stored by whole words where it lies alike in the file and in the image."""
    image = weights(count) + bytes(count) + b"end"
    pieces = [piece for piece, _ in codec.image_pieces(image, compress=True)]
    assert b"".join(pieces) == image
    assert 1 < len(pieces) <= codec.MAX_IMAGE_SECTIONS
    assert all(len(piece) % 64 == 0 for piece in pieces[:-1])


def test_what_packs_well_is_told_from_what_does_not() -> None:
    code, random = CODE[:65536].ljust(65536, b"\0"), np.random.default_rng(3).bytes(49152)
    pieces = list(codec.image_pieces(random + code + random, compress=True))
    assert [(bytes(piece), packs) for piece, packs in pieces] == [(random, False), (code, True), (random, False)]
    assert [packs for _, packs in codec.image_pieces(random + code, compress=False)] == [False]
    assert not list(codec.image_pieces(b"", compress=True))
