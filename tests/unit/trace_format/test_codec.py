# SPDX-License-Identifier: BSD-2-Clause
"""How sections are stored: what was packed is unpacked, and damaged data is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_format import codec, errors
from trace_format.schema import Codec


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
