"""Section codecs: stored, and DEFLATE (RFC 1951; the device has a decoder of its own).

Start-up decides (docs/adr/0008-deflate-sections.md): a byte of LZMA costs the device some 600 instructions, a
byte of DEFLATE less than a tenth.
"""

from __future__ import annotations

import zlib

import zopfli.zopfli

from trace_format.errors import CodecError
from trace_format.schema import Codec

# A stored byte costs the device a copy, a packed one tens of instructions. Weights, of which DEFLATE takes off
# less than a tenth, are stored.
MIN_GAIN = 0.1
_SLOW_BYTES = 1 << 20  # up to here, the encoder that searches long for a shorter form
_ZLIB_HEADER_BYTES, _ZLIB_TRAILER_BYTES = 2, 4


def is_worth_packing(raw: bytes) -> bool:
    """Whether DEFLATE takes off enough, tried fast."""
    return len(_deflate(raw, 1)) <= len(raw) * (1 - MIN_GAIN)


def _deflate(raw: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return packer.compress(raw) + packer.flush()


def encode(raw: bytes, *, compress: bool = True) -> tuple[Codec, bytes]:
    """Store `raw` in the smallest way worth it: (codec, stored bytes)."""
    if not compress or not raw:
        return Codec.STORED, raw
    packed = _deflate(raw, 9)
    if len(packed) <= len(raw) * (1 - MIN_GAIN) and len(raw) <= _SLOW_BYTES:
        packed = min(packed, zopfli.zopfli.compress(raw)[_ZLIB_HEADER_BYTES:-_ZLIB_TRAILER_BYTES], key=len)
    return (Codec.DEFLATE, packed) if len(packed) <= len(raw) * (1 - MIN_GAIN) else (Codec.STORED, raw)


def decode(codec: int, stored: bytes, raw_bytes: int, *, offset: int) -> bytes:
    """The section's bytes, exactly `raw_bytes` of them.

    Args:
        offset: where the section lies in the file, for the error.

    Raises:
        CodecError: unknown codec, or data that does not decode to `raw_bytes` bytes.
    """
    if codec == Codec.STORED:
        if len(stored) != raw_bytes:
            raise CodecError(
                "stored section's two sizes differ", offset=offset, expected=raw_bytes, found=len(stored)
            )
        return stored
    if codec != Codec.DEFLATE:
        raise CodecError("unknown codec", offset=offset, expected=[int(c) for c in Codec], found=codec)
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        raw = unpacker.decompress(stored, raw_bytes + 1)
    except zlib.error as error:
        raise CodecError(f"DEFLATE data is damaged ({error})", offset=offset) from None
    except MemoryError:
        raise CodecError(f"no memory to decode {raw_bytes} bytes", offset=offset) from None
    if len(raw) != raw_bytes:
        raise CodecError("DEFLATE data decodes to another size", offset=offset, expected=raw_bytes, found=len(raw))
    if not unpacker.eof or unpacker.unused_data:
        raise CodecError(
            "end of the DEFLATE data",
            offset=offset,
            expected="a last block and nothing behind it",
            found=f"{len(unpacker.unused_data)} bytes behind it" if unpacker.eof else "no last block",
        )
    return raw
