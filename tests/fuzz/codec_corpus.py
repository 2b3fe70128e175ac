# SPDX-License-Identifier: BSD-2-Clause
"""The committed inputs of the LZ4 decoder's fuzz target."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import lz4.block


def lz4_inputs() -> Iterator[tuple[str, bytes]]:
    """For c/lz4.c."""

    def made(raw_bytes: bytes, chunk: int, bad: int = 0, fails: int = 0, packed: bytes | None = None) -> bytes:
        block = packed if packed is not None else lz4.block.compress(raw_bytes, store_size=False)
        return struct.pack("<HBBB", len(raw_bytes), chunk, bad, fails) + block

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
