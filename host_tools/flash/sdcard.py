# SPDX-License-Identifier: BSD-2-Clause
"""SD cards: a partition table and one FAT32 partition.

Facts: the classic "MBR" partition table: UEFI 2.10, 5.2.1; type 0x0c is FAT32 with LBA, which the Raspberry Pi's
boot loader looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from construct import Bytes, Const, Int8ul, Int32ul, Struct

from host_tools.flash import fat, fat_write
from host_tools.flash.errors import ImageError, unpack, zeros
from host_tools.flash.fat_write import Volume
from trace_format import limits
from trace_format.files import open_regular, read_file

MIB = 1 << 20
SECTOR_BYTES = fat.SECTOR_BYTES
FIRST_SECTOR = MIB // SECTOR_BYTES  # of the partition: aligned to the erase blocks of cards
MIN_BYTES = 64 * MIB  # of the partition: enough clusters for FAT32 where each has 512 bytes
FAT32_LBA = 0x0C
MBR = Struct(
    "code" / Bytes(446),
    "active" / Const(0, Int8ul),
    "first_chs" / Bytes(3),
    "type" / Const(FAT32_LBA, Int8ul),
    "last_chs" / Bytes(3),
    "first_sector" / Const(FIRST_SECTOR, Int32ul),
    "sectors" / Int32ul,
    "other_partitions" / Const(bytes(48)),
    "signature" / Const(b"\x55\xaa"),
)
BEYOND_CHS = b"\xfe\xff\xff"  # cylinder, head and sector of what they cannot address
VOLUME_NUMBER, LABEL = 0x47524D46, "GRAMOPHONE"


def write(files: Mapping[str, bytes]) -> bytes:
    """A card's image with these files, in this order: the same files always give the same bytes.

    Args:
        files: name, with a slash where it is in a folder -> contents.
    """
    needed = sum(len(data) + 2 * SECTOR_BYTES for data in files.values())
    size = max(MIN_BYTES, -(-(needed + needed // 32 + MIB) // MIB) * MIB)
    sectors = size // SECTOR_BYTES
    table = {"code": bytes(446), "first_chs": BEYOND_CHS, "last_chs": BEYOND_CHS, "sectors": sectors}
    start = bytes(MBR.build(table)).ljust(FIRST_SECTOR * SECTOR_BYTES, b"\0")
    return start + fat_write.write(files, Volume(FIRST_SECTOR, sectors, VOLUME_NUMBER, LABEL))


def is_card(data: bytes) -> bool:
    """Whether this looks like a card, and not like an archive or a firmware."""
    return data[SECTOR_BYTES - 2 : SECTOR_BYTES] == b"\x55\xaa" and not any(data[:446])


def read(data: bytes) -> dict[str, tuple[int, bytes]]:
    """The files of a card: name -> offset in the image, contents; ImageError as `fat.read`."""
    table = unpack(MBR, data, 0, "partition table")
    for field, at in (("first_chs", 447), ("last_chs", 451)):
        if table[field] != BEYOND_CHS:
            raise ImageError(
                f"partition table, {field}", offset=at, expected=BEYOND_CHS.hex(), found=table[field].hex()
            )
    start = FIRST_SECTOR * SECTOR_BYTES
    end = start + table.sectors * SECTOR_BYTES
    if end != len(data):
        raise ImageError(
            "partition table, sectors",
            offset=458,
            expected=max(0, len(data) - start) // SECTOR_BYTES,
            found=table.sectors,
        )
    zeros(data, SECTOR_BYTES, start, "room before the partition")
    return fat.read(data, start, end)


def used_bytes(data: bytes) -> int:
    """Bytes of a card up to the end of the last file or folder; after them there are only free clusters.

    Raises:
        ImageError: there is no boot sector.
    """
    return min(fat.used_end(data, FIRST_SECTOR * SECTOR_BYTES), len(data))


def read_device(path: Path) -> bytes:
    """An image's bytes: of a file, or of a disk as `of_disk`."""
    if path.is_file():
        return read_file(path)
    with open_regular(path, or_disk=True) as file:
        return of_disk(file, str(path))


def of_disk(file: BinaryIO, name: str) -> bytes:
    """The image on a disk, which is larger than what was written to it: as far as the partition goes.

    Free clusters are taken as zeros: bmaptool leaves what was there before, and nothing reads it.
    """
    head = file.read(SECTOR_BYTES)
    if not is_card(head):
        raise ImageError("not a card that 'gramophone flash' wrote", file=name)
    sectors = unpack(MBR, head, 0, "partition table").sectors
    limits.check("size of the partition in bytes", sectors * SECTOR_BYTES, limits.FILE_BYTES, file=name)
    data = head + file.read((FIRST_SECTOR + sectors - 1) * SECTOR_BYTES)
    used = used_bytes(data)
    return data[:used] + bytes(len(data) - used)
