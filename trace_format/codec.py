"""Section codecs: stored, and raw LZMA1 as liblzma writes it (the device has a decoder of its own).

LZMA was chosen because the device's decoder is small (about 1.5 KB of code), the encoder is the standard
library's, and traces come out no larger than `xz -9e` of the same bytes (docs/adr/0002-lzma-sections.md).
"""

from __future__ import annotations

import lzma

from trace_format.errors import CodecError
from trace_format.schema import LZMA_MAX_LC_LP, Codec

# (lc, lp, pb): liblzma's default, one without position bits (text, code), and two for 4-byte elements.
_CHOICES = ((3, 0, 2), (3, 0, 0), (0, 2, 2), (2, 2, 2))
_SAMPLE_BYTES = 1 << 16  # what the choices compete on, taken from the middle
# A stored byte costs the device a copy, an LZMA literal some 300 instructions: weights, of which LZMA takes off
# about a sixth, would make nearly all of the start-up (docs/adr/0002).
MIN_GAIN = 0.25


def _compress(raw: bytes, choice: tuple[int, int, int], preset: int) -> bytes:
    return lzma.compress(raw, format=lzma.FORMAT_RAW, filters=_filter(*choice, len(raw), preset))


def _filter(lc: int, lp: int, pb: int, raw_bytes: int, preset: int) -> list[dict[str, int]]:
    size = min(max(4096, raw_bytes), 0xFFFFFFFF)
    return [{"id": lzma.FILTER_LZMA1, "preset": preset, "lc": lc, "lp": lp, "pb": pb, "dict_size": size}]


def encode(raw: bytes, *, compress: bool = True) -> tuple[Codec, int, bytes]:
    """Store `raw` in the smallest way worth it: (codec, codec_param, stored bytes)."""
    if not compress or not raw:
        return Codec.STORED, 0, raw
    middle = max(0, (len(raw) - _SAMPLE_BYTES) // 2)
    sample = raw[middle : middle + _SAMPLE_BYTES]
    choice = min(_CHOICES, key=lambda c: len(_compress(sample, c, 6)))
    packed = _compress(raw, choice, 9 | lzma.PRESET_EXTREME)
    if len(packed) > len(raw) * (1 - MIN_GAIN):
        return Codec.STORED, 0, raw
    lc, lp, pb = choice
    return Codec.LZMA, (pb * 5 + lp) * 9 + lc, packed


def decode(codec: int, param: int, stored: bytes, raw_bytes: int, *, offset: int) -> bytes:
    """The section's bytes, exactly `raw_bytes` of them.

    Args:
        offset: where the section lies in the file, for the error.

    Raises:
        CodecError: unknown codec, bad parameters, or data that does not decode to `raw_bytes` bytes.
    """
    if codec == Codec.STORED:
        if param:
            raise CodecError("stored section has a codec parameter", offset=offset, expected=0, found=param)
        if len(stored) != raw_bytes:
            raise CodecError(
                "stored section's two sizes differ", offset=offset, expected=raw_bytes, found=len(stored)
            )
        return stored
    if codec != Codec.LZMA:
        raise CodecError("unknown codec", offset=offset, expected=[int(c) for c in Codec], found=codec)
    lc, lp, pb = param % 9, param // 9 % 5, param // 45
    if pb > 4 or lc + lp > LZMA_MAX_LC_LP:
        raise CodecError(
            "LZMA properties out of range", offset=offset, expected="lc + lp <= 4, pb <= 4", found=param
        )
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_filter(lc, lp, pb, raw_bytes, 6))
    try:
        raw = decoder.decompress(stored, max_length=raw_bytes + 1)
    except lzma.LZMAError as error:
        raise CodecError(f"LZMA data is damaged ({error})", offset=offset) from None
    except MemoryError:
        raise CodecError(f"no memory to decode {raw_bytes} bytes", offset=offset) from None
    if len(raw) != raw_bytes:
        raise CodecError("LZMA data decodes to another size", offset=offset, expected=raw_bytes, found=len(raw))
    if not decoder.eof or decoder.unused_data:
        raise CodecError(
            "end of the LZMA data",
            offset=offset,
            expected="an end marker and nothing behind it",
            found=f"{len(decoder.unused_data)} bytes behind it" if decoder.eof else "no end marker",
        )
    return raw
