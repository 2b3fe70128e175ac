# SPDX-License-Identifier: BSD-2-Clause
"""Section codecs: stored, and one LZ4 block; the device has a decoder of its own.

LZ4 was chosen for the start-up and the decoder's size, against DEFLATE and LZMA (docs/adr/0008-lz4-sections.md)
and byte planes (docs/adr/0027-byte-planes.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import lz4.block

from trace_format import lz4_sequences
from trace_format.errors import CodecError
from trace_format.schema import Codec

Buffer = bytes | memoryview  # a file, or a view of a part of it

# Weights, which hardly shrink, are stored: the device copies them at once.
MIN_GAIN = 0.05
# A section each, so that weights are stored and the rest is packed.
IMAGE_SECTION_BYTES = 1 << 14
MAX_IMAGE_SECTIONS = 48
_ALIGNMENT = 64  # of a section in the image: sections are aligned in the file, and devices copy whole words faster
_LEVEL = 12  # the highest: the best parse that there is
_MAX_RATIO = 255  # a byte of LZ4 stands for at most that


def _pack(raw: Buffer, **options: object) -> bytes:
    return bytes(lz4.block.compress(raw, store_size=False, **options))


def is_worth_packing(raw: Buffer) -> bool:
    """Whether LZ4 takes off enough, tried fast."""
    return len(_pack(raw)) <= len(raw) * (1 - MIN_GAIN)


def image_pieces(image: Buffer, compress: bool) -> Iterator[tuple[memoryview, bool]]:
    """The image, cut where it changes between what packs well (code, descriptors) and what does not (weights).

    Yields:
        A piece, and whether it packs well.
    """
    step = max(IMAGE_SECTION_BYTES, -(-len(image) // (MAX_IMAGE_SECTIONS * _ALIGNMENT)) * _ALIGNMENT)
    begin, packed, view = 0, False, memoryview(image)
    for at in range(0, len(image), step):
        worth = compress and is_worth_packing(view[at : at + step])
        if at and worth != packed:
            yield view[begin:at], packed
            begin = at
        packed = worth
    if image:
        yield view[begin:], packed


def encode(raw: Buffer, *, compress: bool = True) -> tuple[Codec, Buffer]:
    """Store `raw` so that a device unpacks it with little work: (codec, stored bytes)."""
    if compress and len(raw):
        packed = packed_as(Codec.LZ4, raw)
        if len(packed) <= len(raw) * (1 - MIN_GAIN):
            return Codec.LZ4, packed
    return Codec.STORED, raw


def packed_as(codec: Codec, raw: Buffer) -> Buffer:
    """What a section of `raw` is stored as: LZ4 without matches that cost a device more than they take off."""
    if codec is Codec.STORED:
        return raw
    return lz4_sequences.without_short_matches(_pack(raw, mode="high_compression", compression=_LEVEL), raw)


def check(codec: int, stored_bytes: int, raw_bytes: int, *, offset: int) -> None:
    """Raise CodecError unless the codec is known and the two sizes can be those of one section.

    Args:
        offset: where the section lies in the file, for the error.
    """
    if codec not in list(Codec):
        raise CodecError("unknown codec", offset=offset, expected=[int(c) for c in Codec], found=codec)
    if codec == Codec.STORED and stored_bytes != raw_bytes:
        raise CodecError(
            "stored section's two sizes differ", offset=offset, expected=raw_bytes, found=stored_bytes
        )
    if codec == Codec.LZ4 and raw_bytes > stored_bytes * _MAX_RATIO:
        raise CodecError(
            "size of the LZ4 data", offset=offset, expected=f"enough for {raw_bytes} bytes", found=stored_bytes
        )


def decode(codec: int, stored: Buffer, raw_bytes: int, *, offset: int) -> Buffer:
    """The section's bytes, exactly `raw_bytes` of them; `stored` itself where that is what they are.

    Args:
        offset: where the section lies in the file, for the error.

    Raises:
        CodecError: unknown codec, or data that does not decode to `raw_bytes` bytes.
    """
    check(codec, len(stored), raw_bytes, offset=offset)
    if codec == Codec.STORED:
        return stored
    try:
        return _unpacked(stored, raw_bytes, offset)
    except MemoryError:
        raise CodecError(f"no memory to decode {raw_bytes} bytes", offset=offset) from None


def _unpacked(stored: Buffer, raw_bytes: int, offset: int) -> bytes:
    """The content of an LZ4 block; CodecError, MemoryError."""
    try:
        raw = bytes(lz4.block.decompress(stored, uncompressed_size=raw_bytes))
    except lz4.block.LZ4BlockError as error:
        raise CodecError(f"LZ4 data is damaged, or larger than it should be ({error})", offset=offset) from None
    if len(raw) != raw_bytes:
        raise CodecError("LZ4 data decodes to another size", offset=offset, expected=raw_bytes, found=len(raw))
    return raw
