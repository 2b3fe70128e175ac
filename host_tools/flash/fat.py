# SPDX-License-Identifier: BSD-2-Clause
"""Reads FAT32 file systems, strictly, and shares no code with what writes them (mkfs.fat, mtools).

Facts: Microsoft Extensible Firmware Initiative FAT32 File System Specification 1.03 (2000): "Boot Sector and BPB",
"FAT Data Structure", "FAT Directory Structure", "FAT Long Directory Entries".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from construct import Bytes, Const, Int8ul, Int16ul, Int32ul, Struct

from host_tools.flash.errors import ImageError, unpack

SECTOR_BYTES = 512
BOOT_SECTOR = Struct(
    "jump" / Bytes(3),
    "oem_name" / Bytes(8),
    "bytes_per_sector" / Const(SECTOR_BYTES, Int16ul),
    "sectors_per_cluster" / Int8ul,
    "reserved_sectors" / Int16ul,
    "fats" / Const(2, Int8ul),
    "root_entries" / Const(0, Int16ul),
    "sectors_16" / Const(0, Int16ul),
    "media" / Int8ul,
    "fat_sectors_16" / Const(0, Int16ul),
    "geometry" / Bytes(4),
    "hidden_sectors" / Int32ul,
    "sectors" / Int32ul,
    "fat_sectors" / Int32ul,
    "flags" / Const(0, Int16ul),
    "version" / Const(0, Int16ul),
    "root_cluster" / Int32ul,
    "more" / Bytes(462),
    "signature" / Const(b"\x55\xaa"),
)
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
READ_ONLY, HIDDEN, SYSTEM, VOLUME, FOLDER = 1, 2, 4, 8, 16
LONG_NAME = READ_ONLY | HIDDEN | SYSTEM | VOLUME  # attributes of an entry with a part of a long name
LAST_PART, PART_NUMBER = 0x40, 0x3F
DELETED, END = 0xE5, 0
LOWER_BASE, LOWER_EXTENSION = 0x08, 0x10  # of "case": Windows NT's and Linux's
FIRST_CLUSTER = 2
CLUSTER_BITS, END_OF_CHAIN = 0x0FFFFFFF, 0x0FFFFFF8
MAX_DEPTH = 4


@dataclass(frozen=True)
class _Volume:
    """A file system in `data`, at `start`."""

    data: bytes
    start: int
    boot: Any
    used: set[int] = field(default_factory=set)  # clusters that belong to a chain: none is in two, or twice in one

    @property
    def cluster_bytes(self) -> int:
        return int(self.boot.sectors_per_cluster) * SECTOR_BYTES

    @property
    def first_data(self) -> int:
        """Offset in `data` of cluster 2."""
        return self.start + int(self.boot.reserved_sectors + 2 * self.boot.fat_sectors) * SECTOR_BYTES

    @property
    def end(self) -> int:
        return self.start + int(self.boot.sectors) * SECTOR_BYTES

    def table(self, index: int) -> bytes:
        at = self.start + (self.boot.reserved_sectors + index * self.boot.fat_sectors) * SECTOR_BYTES
        return self.data[at : at + self.boot.fat_sectors * SECTOR_BYTES]

    def clusters(self, first: int, what: str) -> list[int]:
        """The chain of clusters that starts with `first`."""
        entries = np.frombuffer(self.table(0), "<u4")
        count = min(len(entries), FIRST_CLUSTER + (self.end - self.first_data) // self.cluster_bytes)
        chain: list[int] = []
        cluster = first
        while cluster < END_OF_CHAIN:
            if not FIRST_CLUSTER <= cluster < count or cluster in self.used:
                raise ImageError(
                    f"FAT: chain of {what}",
                    offset=self.start
                    + self.boot.reserved_sectors * SECTOR_BYTES
                    + 4 * (chain[-1] if chain else 0),
                    expected=f"a cluster from {FIRST_CLUSTER} to {count - 1} that no other has, or the end",
                    found=f"{cluster:#x}",
                )
            chain.append(cluster)
            self.used.add(cluster)
            cluster = int(entries[cluster]) & CLUSTER_BITS
        return chain

    def offset(self, cluster: int) -> int:
        return self.first_data + (cluster - FIRST_CLUSTER) * self.cluster_bytes

    def contents(self, first: int, what: str) -> bytes:
        size = self.cluster_bytes
        return b"".join(self.data[(at := self.offset(c)) : at + size] for c in self.clusters(first, what))


def read(data: bytes, start: int, end: int) -> dict[str, tuple[int, bytes]]:
    """The files of the FAT32 file system from `start` to `end`.

    Returns:
        Name, with slashes where there are folders -> offset in `data`, contents.

    Raises:
        ImageError: no FAT32 file system with two equal tables, an entry that leads nowhere, or a file whose
            clusters do not follow one another (what was written once to an empty file system is never so).
    """
    boot = unpack(BOOT_SECTOR, data, start, "FAT boot sector")
    volume = _Volume(data, start, boot)
    if boot.sectors_per_cluster not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise ImageError(
            "FAT: sectors in a cluster", offset=start + 13, expected="a power of 2", found=boot.sectors_per_cluster
        )
    if volume.end != end:
        raise ImageError(
            "FAT: sectors", offset=start + 32, expected=(end - start) // SECTOR_BYTES, found=boot.sectors
        )
    if not start < volume.first_data <= end or boot.fat_sectors == 0:
        raise ImageError(
            "FAT: sectors of a table", offset=start + 36, expected="room for them", found=boot.fat_sectors
        )
    if volume.table(0) != volume.table(1):
        at = int(np.argmax(np.frombuffer(volume.table(0), "u1") != np.frombuffer(volume.table(1), "u1")))
        where = start + boot.reserved_sectors * SECTOR_BYTES + at
        raise ImageError("FAT: the second table is not like the first one", offset=where)
    return dict(_files(volume, boot.root_cluster, "", 0))


def _files(volume: _Volume, first: int, folder: str, depth: int) -> Iterator[tuple[str, tuple[int, bytes]]]:
    for name, entry in _entries(volume.contents(first, f"folder {folder or '/'}")):
        if name in (".", "..") or entry.attributes & VOLUME:
            continue
        path = folder + name
        cluster = entry.cluster_high << 16 | entry.cluster_low
        if entry.attributes & FOLDER:
            if depth == MAX_DEPTH:
                raise ImageError(f"FAT: folder {path}", expected=f"at most {MAX_DEPTH} levels")
            yield from _files(volume, cluster, f"{path}/", depth + 1)
            continue
        chain = volume.clusters(cluster, path) if cluster else []
        if chain != list(range(cluster, cluster + len(chain))):
            raise ImageError(f"FAT: {path} is in pieces", offset=volume.offset(cluster))
        if len(chain) != -(-entry.bytes // volume.cluster_bytes):
            raise ImageError(
                f"FAT: size of {path}",
                expected=f"one for {len(chain)} clusters of {volume.cluster_bytes}",
                found=entry.bytes,
            )
        at = volume.offset(cluster) if chain else 0
        yield path, (at, volume.data[at : at + entry.bytes])


def _entries(data: bytes) -> Iterator[tuple[str, Any]]:
    """The entries of a folder with their names."""
    parts: list[str] = []
    for at in range(0, len(data), ENTRY.sizeof()):
        if data[at] == END:
            return
        if data[at] == DELETED:
            parts = []
            continue
        entry = ENTRY.parse(data[at : at + ENTRY.sizeof()])
        if entry.attributes == LONG_NAME:
            raw = data[at : at + ENTRY.sizeof()]
            parts.append((raw[1:11] + raw[14:26] + raw[28:32]).decode("utf-16-le", "replace"))
            continue
        long_name = "".join(reversed(parts)).partition("\0")[0]
        parts = []
        yield long_name or _short_name(entry), entry


def _short_name(entry: Any) -> str:
    base, extension = (part.decode("ascii", "replace").rstrip(" ") for part in (entry.name[:8], entry.name[8:]))
    base = base.lower() if entry.case & LOWER_BASE else base
    extension = extension.lower() if entry.case & LOWER_EXTENSION else extension
    return f"{base}.{extension}" if extension else base
