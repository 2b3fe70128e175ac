# SPDX-License-Identifier: BSD-2-Clause
"""The committed inputs of the codecs' fuzz targets."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import lz4.block

from tests.support import planes_samples
from trace_format import planes


def section(out_bytes: int, block: bytes, chunk: int, bad: int = 0, fails: int = 0) -> bytes:
    """An input of a codec's decoder (c/codec.c)."""
    return struct.pack("<HBBB", out_bytes, chunk, bad, fails) + block


def lz4_inputs() -> Iterator[tuple[str, bytes]]:
    """For the LZ4 decoder."""

    def made(raw_bytes: bytes, chunk: int, bad: int = 0, fails: int = 0, packed: bytes | None = None) -> bytes:
        block = packed if packed is not None else lz4.block.compress(raw_bytes, store_size=False)
        return section(len(raw_bytes), block, chunk, bad, fails)

    text = bytes(range(40)) * 20 + b"a" * 600
    yield "text", made(text, 63)
    yield "repeated", made(bytes(3000), 3)
    yield "noise", made(bytes(i * i % 251 for i in range(400)), 255)
    yield "empty", made(b"", 9)
    yield "bad-chunk", made(text, 15, bad=2)
    yield "no-read", made(text, 15, fails=3)
    yield "too-far", made(bytes(8), 7, packed=b"\x10a\x02\x00\x00")
    yield "too-long", made(bytes(8), 7, packed=b"\xf0\xff\xff\xff\xff")
    yield "literals-too-long", made(bytes(8), 63, packed=b"\xc0" + b"a" * 12)
    yield "cut", made(text, 63, packed=lz4.block.compress(text, store_size=False)[:-9])


def planes_inputs() -> Iterator[tuple[str, bytes]]:
    """For the decoder of byte planes."""
    numbers = struct.pack("<300f", *(1 / (3 + i) for i in range(300)))
    few = bytes(0xF0 + (i * i % 23 > 18) + (i % 7 > 5) for i in range(1003))
    for name, raw in {"numbers": numbers, "few": few, "zeros": bytes(3000), "short": b"abc"}.items():
        yield name, section(len(raw), planes.encode(raw), 63)
        yield f"{name}-bad-chunk", section(len(raw), planes.encode(raw), 15, bad=2)
    yield "no-read", section(len(numbers), planes.encode(numbers), 99, fails=3)
    for name, (block, out_bytes) in planes_samples.MALFORMED.items():
        yield name.replace(" ", "-"), section(out_bytes, block, 31)
