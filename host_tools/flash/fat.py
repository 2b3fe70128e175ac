# SPDX-License-Identifier: BSD-2-Clause
"""Reads FAT32 file systems, strictly: what other readers could read in another way is an error.

Facts: Microsoft Extensible Firmware Initiative FAT32 File System Specification 1.03 (2000): "Boot Sector and BPB",
"FAT Data Structure".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from construct import Bytes, Const, Int8ul, Int16ul, Int32ul, Struct

from host_tools.flash import fat_folder
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
FIRST_CLUSTER = 2
CLUSTER_BITS, END_OF_CHAIN = 0x0FFFFFFF, 0x0FFFFFF8
MAX_DEPTH = 1


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


def used_end(data: bytes, start: int) -> int:
    """Offset in `data` after the last cluster that is not free, by the first table of the file system at `start`.

    Raises:
        ImageError: there is no boot sector.
    """
    volume = _Volume(data, start, unpack(BOOT_SECTOR, data, start, "FAT boot sector"))
    table = volume.table(0)
    entries = np.frombuffer(table, "<u4", len(table) // 4) & CLUSTER_BITS
    return max(volume.first_data, volume.offset(int(np.max(np.flatnonzero(entries), initial=0)) + 1))


def _files(volume: _Volume, first: int, folder: str, depth: int) -> Iterator[tuple[str, tuple[int, bytes]]]:
    size = volume.cluster_bytes
    places = [volume.offset(cluster) for cluster in volume.clusters(first, f"folder /{folder}")]
    data = b"".join(volume.data[at : at + size] for at in places)
    entries = fat_folder.read(data, lambda at: places[min(at // size, len(places) - 1)] + at % size, folder)
    if folder and not entries:
        raise ImageError(f"FAT: folder {folder} is empty", offset=places[0])
    for entry in entries:
        path = folder + entry.name
        if entry.attributes == fat_folder.FOLDER:
            if depth == MAX_DEPTH:
                raise ImageError(
                    f"FAT: folder {path}", offset=entry.offset, expected=f"at most {MAX_DEPTH} levels"
                )
            yield from _files(volume, entry.cluster, f"{path}/", depth + 1)
        elif entry.attributes == fat_folder.FILE:
            yield path, _file(volume, entry, path)


def _file(volume: _Volume, entry: fat_folder.Entry, path: str) -> tuple[int, bytes]:
    """Offset in the image, contents."""
    chain = volume.clusters(entry.cluster, path) if entry.cluster else []
    if chain != list(range(entry.cluster, entry.cluster + len(chain))):
        raise ImageError(f"FAT: {path} is in pieces", offset=volume.offset(entry.cluster))
    if len(chain) != -(-entry.bytes // volume.cluster_bytes):
        raise ImageError(
            f"FAT: size of {path}",
            offset=entry.offset,
            expected=f"one for {len(chain)} clusters of {volume.cluster_bytes}",
            found=entry.bytes,
        )
    at = volume.offset(entry.cluster) if chain else 0
    return at, volume.data[at : at + entry.bytes]
