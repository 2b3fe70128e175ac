# SPDX-License-Identifier: BSD-2-Clause
"""A small ELF file with the symbols by which OP-TEE's core is measured."""

from __future__ import annotations

import struct

BASE = 0x1000
FILE_AT = 0x100
CODE, CONSTANTS, DATA = bytes(range(64)), bytes(range(64, 96)), bytes(range(96, 112))
SYMBOLS = {
    "__text_start": BASE,
    "__text_data_start": BASE + 16,
    "__text_data_end": BASE + 24,
    "__text_end": BASE + len(CODE),
    "__rodata_start": BASE + len(CODE),
    "__rodata_end": BASE + len(CODE + CONSTANTS),
}
_RELA, _SYMTAB, _STRTAB, _PROGBITS = 4, 2, 3, 1
_RELATIVE = 1027  # R_AARCH64_RELATIVE


def elf(relocated: int = 0, symbols: tuple[str, ...] = tuple(SYMBOLS)) -> bytes:
    """The file (System V ABI, 4; ELF for the Arm 64-bit architecture).

    Args:
        relocated: an address that is; 0: none.
        symbols: their names; the address of one that SYMBOLS does not have is 0.
    """
    loaded = CODE + CONSTANTS + DATA
    names = b"\0" + b"".join(name.encode() + b"\0" for name in symbols)
    table = bytes(24)
    for name in symbols:
        table += struct.pack("<IBBHQQ", names.index(name.encode() + b"\0"), 0x10, 0, 1, SYMBOLS.get(name, 0), 0)
    rela = struct.pack("<QQq", relocated, _RELATIVE, 0) if relocated else b""
    titles = b"\0.text\0.symtab\0.strtab\0.rela\0.shstrtab\0"
    body, rows, at = bytearray(loaded), [bytes(64)], FILE_AT + len(loaded)
    rows.append(_row(titles, ".text", _PROGBITS, BASE, FILE_AT, len(loaded)))
    for title, kind, address, data, link, size in (
        (".symtab", _SYMTAB, 0, table, 3, 24),
        (".strtab", _STRTAB, 0, names, 0, 0),
        (".rela", _RELA, 0x9000, rela, 2, 24),
        (".shstrtab", _STRTAB, 0, titles, 0, 0),
    ):
        rows.append(_row(titles, title, kind, address, at, len(data), link, size))
        body += data
        at += len(data)
    ident = b"\x7fELF\2\1\1" + bytes(9)
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, 183, 1, BASE, 64, at, 0, 64, 56, 1, 64, len(rows), len(rows) - 1
    )
    segment = struct.pack("<IIQQQQQQ", 1, 7, FILE_AT, BASE, BASE, len(loaded), len(loaded), 16)
    return (head + segment).ljust(FILE_AT, b"\0") + bytes(body) + b"".join(rows)


def _row(
    titles: bytes, title: str, kind: int, address: int, at: int, size: int, link: int = 0, entry: int = 0
) -> bytes:
    name = titles.index(title.encode() + b"\0")
    return struct.pack("<IIQQQQIIQQ", name, kind, 2 if address else 0, address, at, size, link, 0, 8, entry)
