# SPDX-License-Identifier: BSD-2-Clause
"""The words in a signed trace's file, where only Python's standard library is: on a device.

The device has verified the signature over the trace's head, and passes over the notes. Their chunks are compared
here with the hashes that the head has, so that nobody swaps words under a model. Layout: docs/FORMAT.md.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from host_tools.extras.gguf.words import Words, noted_words
from trace_format import limits
from trace_format.errors import ChunkHashError, EncryptedError, SectionError, TraceError

SIGNED, TRACE = b"\x89GSG\r\n\x1a\n", b"\x89GTR\r\n\x1a\n"
SIGNED_BYTES, HEADER_BYTES, SECTION_BYTES, HASH_BYTES = 32, 64, 32, 32
CHUNKS, NOTES = 3, 32  # types of sections
STORED, LZ4 = 0, 1  # codecs
ENCRYPTED = 2  # of the header's flags
Section = tuple[int, int, int, int]  # codec, offset, bytes stored, bytes decoded


def signed_words(data: Any, file: str) -> Words:
    """The words of a model.

    Args:
        data: a signed trace that the device has loaded, any buffer.
        file: its name, for errors.

    Raises:
        EncryptedError: its notes are encrypted.
        ChunkHashError: the notes are not those that were signed.
        SectionError: it has no words, or its notes are something else.
    """
    try:
        return noted_words(_notes(memoryview(data)))
    except TraceError as error:
        error.file = error.file or file
        raise
    except (struct.error, IndexError, ValueError, RecursionError) as error:
        raise SectionError(
            f"notes: expected JSON in a section, found something else ({error})", file=file
        ) from None


def _notes(data: memoryview) -> dict[str, Any]:
    magic, _, envelope = struct.unpack_from("<8sII", data)
    if magic != SIGNED:
        raise SectionError("not a signed trace", offset=0, expected=SIGNED.hex(), found=magic.hex())
    start = SIGNED_BYTES + -(-envelope // 8) * 8
    trace = data[start:]
    magic, head_bytes, chunk_bytes, count, flags = struct.unpack_from("<8s16xII4xHH", trace)
    if magic != TRACE:
        raise SectionError("not a trace", offset=start, expected=TRACE.hex(), found=magic.hex())
    if flags & ENCRYPTED:
        raise EncryptedError("the body is encrypted, words and all; --given takes tokens as numbers")
    found = dict[int, Section]()
    for at in range(HEADER_BYTES, HEADER_BYTES + count * SECTION_BYTES, SECTION_BYTES):
        kind, codec, *places = struct.unpack_from("<HxxBxxxQQQ", trace, at)
        found[kind] = (codec, *places)
    if NOTES not in found:
        return {}
    codec, offset, stored, size = found[NOTES]
    limits.check("size of the notes in bytes", size, limits.NOTES_BYTES, offset=start + offset)
    first, last = (offset - head_bytes) // chunk_bytes, (offset + stored - 1 - head_bytes) // chunk_bytes
    at = head_bytes + first * chunk_bytes
    body = bytes(trace[at : head_bytes + (last + 1) * chunk_bytes])  # what is compared is what is read
    _, hashes, *_ = found[CHUNKS]
    for number in range(first, last + 1):
        wanted = bytes(trace[hashes + number * HASH_BYTES : hashes + (number + 1) * HASH_BYTES])
        part = body[(number - first) * chunk_bytes : (number - first + 1) * chunk_bytes]
        if hashlib.sha256(part).digest() != wanted:
            place = start + head_bytes + number * chunk_bytes
            raise ChunkHashError(f"chunk {number}, with the model's words, is damaged", offset=place)
    packed = body[offset - at : offset - at + stored]
    notes = json.loads(decoded(packed, size) if codec == LZ4 else packed)
    return notes if isinstance(notes, dict) else {}


def decoded(packed: bytes, size: int) -> bytes:
    """One LZ4 block (https://github.com/lz4/lz4, doc/lz4_Block_format.md).

    Args:
        packed: the block.
        size: of what it decodes to.

    Raises:
        IndexError, ValueError: it is none, or of another size.
    """
    out, at = bytearray(), 0

    def length(nibble: int) -> int:
        nonlocal at
        total, more = nibble, nibble == 15
        while more:
            total, more = total + packed[at], packed[at] == 255
            at += 1
        return total

    while at < len(packed) and len(out) <= size:
        token = packed[at]
        at += 1
        literals = length(token >> 4)
        out += packed[at : at + literals]
        at += literals
        if at >= len(packed):
            break
        distance = packed[at] | packed[at + 1] << 8
        at += 2
        count = length(token & 15) + 4
        if not 0 < distance <= len(out):
            raise ValueError("a match before the start")
        repeated = out[len(out) - distance : len(out) - distance + count]
        out += (repeated * (count // len(repeated) + 1))[:count]
    if len(out) != size or at != len(packed):
        raise ValueError("a block of another size")
    return bytes(out)
