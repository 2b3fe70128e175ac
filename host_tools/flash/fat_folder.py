# SPDX-License-Identifier: BSD-2-Clause
"""Folders of a FAT file system: their entries, with names as every reader reads them, or an error.

Readers differ in what they do with a long name that does not belong to the entry after it, with two entries of one
name, bits that Windows NT added, deleted entries, and what follows the end. None of that is accepted.

Facts: Microsoft Extensible Firmware Initiative FAT32 File System Specification 1.03 (2000): "FAT Directory
Structure", "FAT Long Directory Entries", "Name Limits and Character Sets".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from construct import Bytes, Int8ul, Int16ul, Int32ul, Struct

from host_tools.flash.errors import ImageError

ENTRY = Struct(
    "name" / Bytes(11),
    "attributes" / Int8ul,
    "case" / Int8ul,
    "times" / Bytes(7),
    "cluster_high" / Int16ul,
    "written" / Bytes(4),
    "cluster_low" / Int16ul,
    "bytes" / Int32ul,
)
ENTRY_BYTES = ENTRY.sizeof()
FILE, FOLDER, LABEL = 0x20, 0x10, 0x08  # the attributes of what there may be
LONG_NAME = 0x0F  # attributes of an entry with a part of a long name
LAST_PART, PART_CHARACTERS = 0x40, 13
DELETED, END = 0xE5, 0
DOTS = {b".".ljust(11): ".", b"..".ljust(11): ".."}
_SHORT = re.compile(rb"([A-Z0-9_~-]+) *")
_LONG = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?<!\.)")


@dataclass(frozen=True)
class Entry:
    """An entry of a folder.

    Attributes:
        name: the long one where it has one.
        short: its 8.3 name, with a dot.
        attributes: FILE, FOLDER or LABEL.
        cluster: where it begins; 0: it has no contents.
        bytes: size.
        offset: of the entry in the image.
    """

    name: str
    short: str
    attributes: int
    cluster: int
    bytes: int
    offset: int


def checksum(short: bytes) -> int:
    """Of an 8.3 name of 11 bytes: what each part of its long name must have."""
    total = 0
    for byte in short:
        total = ((total & 1) << 7) + (total >> 1) + byte & 0xFF
    return total


def read(data: bytes, place: Callable[[int], int], folder: str) -> list[Entry]:
    """The entries of a folder, without "." and "..".

    Args:
        data: of all its clusters.
        place: offset in `data` -> offset in the image.
        folder: its path with a slash at the end, "" for the root.

    Raises:
        ImageError: something that another reader would read in another way.
    """
    found: list[Entry] = []
    names: dict[str, str] = {}
    for entry in _entries(data, place, folder):
        if entry.attributes == LABEL and (folder or entry.cluster or entry.bytes or found):
            raise _error(f"volume label {entry.short!r}", entry.offset, "one, the first of the root folder")
        for name in {entry.name.upper(), entry.short.upper()} if entry.attributes != LABEL else ():
            if name in names:
                raise _error(
                    f"{folder}{entry.name}: its name in some reader, {name}",
                    entry.offset,
                    "a name of its own",
                    f"that of {names[name]}",
                )
            names[name] = entry.name
        found.append(entry)
    return found


def _entries(data: bytes, place: Callable[[int], int], folder: str) -> Iterator[Entry]:
    parts: list[bytes] = []
    for at in range(0, len(data), ENTRY_BYTES):
        raw, where = data[at : at + ENTRY_BYTES], place(at)
        if raw[0] == END:
            rest = data[at:].lstrip(b"\0")
            if rest:
                raise _error(
                    f"bytes after the last entry of folder /{folder}", place(len(data) - len(rest)), "zero"
                )
            break
        if raw[0] == DELETED:
            raise _error(f"a deleted entry in folder /{folder}", where, "none")
        if raw[11] == LONG_NAME:
            parts.append(raw)
            continue
        fields = ENTRY.parse(raw)
        if fields.name in DOTS and folder and at < 2 * ENTRY_BYTES and not parts:
            continue
        yield _entry(fields, parts, where)
        parts = []
    if parts:
        raise _error(f"a long name of no file in folder /{folder}", place(at), "an entry after it")


def _entry(fields: Any, parts: list[bytes], where: int) -> Entry:
    if fields.attributes not in (FILE, FOLDER, LABEL):
        raise _error("attributes", where + 11, "a file, a folder or a label", f"{fields.attributes:#04x}")
    if fields.case:
        raise _error("bits for a name in lower case", where + 12, "zero, as not every reader knows them")
    base, extension = (_SHORT.fullmatch(part) for part in (fields.name[:8], fields.name[8:]))
    if base is None or (extension is None and fields.name[8:] != b"   "):
        raise _error("8.3 name", where, "capitals, digits, '_', '~' and '-'", fields.name.hex())
    short = base[1].decode() + (f".{extension[1].decode()}" if extension else "")
    cluster = fields.cluster_high << 16 | fields.cluster_low
    name = _long_name(parts, fields.name, where) if parts else short
    return Entry(name, short, fields.attributes, cluster, fields.bytes, where)


def _long_name(parts: list[bytes], short: bytes, where: int) -> str:
    """The long name that stands in the entries before one; each must be what the one encoding of it is."""
    text = b"".join(part[1:11] + part[14:26] + part[28:32] for part in reversed(parts)).decode(
        "utf-16-le", "replace"
    )
    name = text.partition("\0")[0]
    if not _LONG.fullmatch(name):
        raise _error("long name", where, "letters, digits, '.', '_' and '-'", ascii(name))
    for index, (part, right) in enumerate(zip(parts, long_entries(name, short), strict=False)):
        if part != right:
            raise _error(
                f"long name {name}, entry {index}",
                where - (len(parts) - index) * ENTRY_BYTES,
                f"{right.hex()}, with the checksum of the 8.3 name",
                part.hex(),
            )
    if len(parts) != -(-len(name) // PART_CHARACTERS):
        raise _error(f"long name {name}", where, f"{-(-len(name) // PART_CHARACTERS)} entries", len(parts))
    return name


def long_entries(name: str, short: bytes) -> list[bytes]:
    """The entries of a long name, as they precede that of its 8.3 name.

    Args:
        name: of characters of UTF-16's first plane.
        short: 11 bytes.
    """
    count = -(-len(name) // PART_CHARACTERS)
    text = name if len(name) % PART_CHARACTERS == 0 else name + "\0"
    data = text.encode("utf-16-le").ljust(count * PART_CHARACTERS * 2, b"\xff")
    made = []
    for number in range(count, 0, -1):
        part = data[(number - 1) * 26 : number * 26]
        order = number | (LAST_PART if number == count else 0)
        head = bytes([order]) + part[:10] + bytes([LONG_NAME, 0, checksum(short)])
        made.append(head + part[10:22] + bytes(2) + part[22:])
    return made


def _error(what: str, offset: int, expected: str, found: object = "something else") -> ImageError:
    return ImageError(f"FAT: {what}", offset=offset, expected=expected, found=found)
