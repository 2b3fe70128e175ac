# SPDX-License-Identifier: BSD-2-Clause
"""Writes FAT32 file systems: the same files in the same order always give the same bytes.

Clusters of one sector; the folders first, then the files, each in clusters that follow one another. Every file has
its name as it is (long) and an 8.3 name. Other programs read what is written here (tests/emulated/test_flash.py).

Facts: Microsoft Extensible Firmware Initiative FAT32 File System Specification 1.03 (2000).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from host_tools.flash.fat import BOOT_SECTOR, END_OF_CHAIN, FIRST_CLUSTER, SECTOR_BYTES
from host_tools.flash.fat_folder import ENTRY, FILE, FOLDER, LABEL, PART_CHARACTERS, long_entries

RESERVED_SECTORS, INFO_SECTOR, BACKUP_SECTOR = 32, 1, 6
FIXED_DISK = 0xF8
FIRST_ENTRIES = (0x0FFFFF00 | FIXED_DISK, 0x0FFFFFFF)  # the medium; cleanly unmounted, without errors
LINK_BYTES = 4
DAY = (1 << 5 | 1).to_bytes(2, "little")  # 1980-01-01, the first day of FAT: of all files
TIMES, WRITTEN = bytes(3) + DAY + DAY, bytes(2) + DAY  # made and last read; last written
_SHORT = re.compile(r"[A-Z0-9_-]{1,8}(\.[A-Z0-9_-]{1,3})?")


@dataclass(frozen=True)
class Volume:
    """What a file system is, besides its files.

    Attributes:
        first_sector: of the disk.
        sectors: its size.
        number, label: of the volume.
    """

    first_sector: int
    sectors: int
    number: int
    label: str


def write(files: Mapping[str, bytes], volume: Volume) -> bytes:
    """The file system with these files.

    Args:
        files: name, with one slash where it is in a folder -> contents, not empty.
        volume: large enough for them.
    """
    folders = {"": [name for name in files if "/" not in name]}
    for name in files:
        folder, slash, _ = name.rpartition("/")
        if slash:
            folders.setdefault(folder, []).append(name)
    sizes = {
        f"{name}/": _entry_count(name, members, folders) * ENTRY.sizeof() for name, members in folders.items()
    }
    chains: dict[str, range] = {}
    next_free = FIRST_CLUSTER
    for name, size in [*sizes.items(), *((name, len(data)) for name, data in files.items())]:
        chains[name] = range(next_free, next_free + -(-size // SECTOR_BYTES))
        next_free = chains[name].stop
    table_sectors = _table_sectors(volume.sectors)
    clusters = volume.sectors - RESERVED_SECTORS - 2 * table_sectors
    if next_free > clusters + FIRST_CLUSTER:
        raise ValueError(f"{next_free} clusters do not fit in {clusters}")
    links = [*FIRST_ENTRIES, *(link for chain in chains.values() for link in _links(chain))]
    table = struct.pack(f"<{len(links)}I", *links).ljust(table_sectors * SECTOR_BYTES, b"\0")
    contents = {f"{name}/": _folder(name, folders, files, chains, volume) for name in folders} | dict(files)
    body = b"".join(contents[name].ljust(len(chain) * SECTOR_BYTES, b"\0") for name, chain in chains.items())
    start = _reserved(volume, table_sectors, clusters - (next_free - FIRST_CLUSTER), next_free)
    return (start + table + table + body).ljust(volume.sectors * SECTOR_BYTES, b"\0")


def _table_sectors(sectors: int) -> int:
    """Sectors of one table: the fewest that have a link for each cluster of what is left."""
    per_sector = SECTOR_BYTES // LINK_BYTES
    return -(-(sectors - RESERVED_SECTORS + FIRST_CLUSTER) // (per_sector + 2))


def _links(chain: range) -> Iterable[int]:
    yield from chain[1:]
    if chain:
        yield END_OF_CHAIN | 7


def _reserved(volume: Volume, table_sectors: int, free: int, next_free: int) -> bytes:
    """The sectors before the tables: boot sector and sector of free clusters, both twice."""
    more = struct.pack("<HH12xBBBI11s8s", INFO_SECTOR, BACKUP_SECTOR, 0x80, 0, 0x29, volume.number,
                       volume.label.encode().ljust(11), b"FAT32   ")  # fmt: skip
    boot: bytes = BOOT_SECTOR.build(
        {
            "jump": b"\xeb\xfe\x90",  # a loop: nothing boots from here
            "oem_name": b"MSWIN4.1",
            "sectors_per_cluster": 1,
            "reserved_sectors": RESERVED_SECTORS,
            "media": FIXED_DISK,
            "geometry": struct.pack("<HH", 63, 255),
            "hidden_sectors": volume.first_sector,
            "sectors": volume.sectors,
            "fat_sectors": table_sectors,
            "root_cluster": FIRST_CLUSTER,
            "more": more.ljust(462, b"\0"),
        }
    )
    info = struct.pack("<4s480x4sII12xI", b"RRaA", b"rrAa", free, next_free, 0xAA550000)
    pair = (boot + info).ljust(BACKUP_SECTOR * SECTOR_BYTES, b"\0")
    return (pair + boot + info).ljust(RESERVED_SECTORS * SECTOR_BYTES, b"\0")


def _entry_count(folder: str, members: list[str], folders: Mapping[str, list[str]]) -> int:
    """Entries of a folder, with one after the last that is zero: not every reader stops at the chain's end."""
    names = [*members, *(name for name in folders if name and not folder)]
    first = 2 if folder else 1
    return first + sum(1 + -(-len(_base(name)) // PART_CHARACTERS) for name in names) + 1


def _folder(
    folder: str,
    folders: Mapping[str, list[str]],
    files: Mapping[str, bytes],
    chains: Mapping[str, range],
    volume: Volume,
) -> bytes:
    """A folder's entries: in the root the label and the folders, elsewhere "." and ".."; then the files."""
    if folder:
        made = [_entry(b".", FOLDER, chains[f"{folder}/"].start), _entry(b"..", FOLDER, 0)]
    else:
        made = [_entry(volume.label.encode(), LABEL, 0)]
    taken: set[bytes] = set()
    for name in [name for name in folders if name and not folder] + folders[folder]:
        short = _short_name(_base(name), taken)
        taken.add(short)
        is_file = name in files
        made += long_entries(_base(name), short)
        chain = chains[name if is_file else f"{name}/"]
        size = len(files[name]) if is_file else 0
        made.append(_entry(short, FILE if is_file else FOLDER, chain.start if chain else 0, size))
    return b"".join(made)


def _entry(short: bytes, attributes: int, cluster: int, size: int = 0) -> bytes:
    values = {
        "name": short.ljust(11),
        "attributes": attributes,
        "case": 0,
        "times": TIMES,
        "cluster_high": cluster >> 16,
        "written": WRITTEN,
        "cluster_low": cluster & 0xFFFF,
        "bytes": size,
    }
    return bytes(ENTRY.build(values))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _short_name(name: str, taken: set[bytes]) -> bytes:
    """An 8.3 name that no other file of the folder has, in 11 bytes."""
    if _SHORT.fullmatch(name.upper()):
        stem, _, extension = name.upper().partition(".")
        plain = stem.encode().ljust(8) + extension.encode().ljust(3)
        if plain not in taken:
            return plain
    stem, _, extension = name.upper().rpartition(".")
    stem, extension = (re.sub(r"[^A-Z0-9_-]", "", part) for part in (stem, extension))
    numbers = (f"~{number}" for number in range(1, 1 << 16))
    made = (stem[: 8 - len(number)] + number for number in numbers)
    return next(n for m in made if (n := m.encode().ljust(8) + extension[:3].encode().ljust(3)) not in taken)
