# SPDX-License-Identifier: BSD-2-Clause
"""SD cards: a partition table and one FAT32 partition, written by mkfs.fat and mtools, the same each time.

Facts: the classic "MBR" partition table: UEFI 2.10, 5.2.1; type 0x0c is FAT32 with LBA, which the Raspberry Pi's
boot loader looks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from construct import Bytes, Const, Int8ul, Int32ul, Struct

from host_tools.flash import fat
from host_tools.flash.errors import FlashError, ImageError, unpack, zeros

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
VOLUME_ID = "47524d46"
EPOCH = 315532800  # 1980-01-01, FAT's first day: the time of all files
NEEDS = {"mkfs.fat": "dosfstools", "mcopy": "mtools", "mmd": "mtools"}


def write(files: Mapping[str, bytes]) -> bytes:
    """A card's image with these files, in this order.

    Args:
        files: name, with slashes where there are folders -> contents.

    Raises:
        FlashError: a program is missing or fails.
    """
    paths = {name: shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") for name in NEEDS}
    missing = sorted({NEEDS[name] for name, path in paths.items() if path is None})
    if missing:
        raise FlashError(f"a card cannot be written: apt-get install {' '.join(missing)}")
    clusters = sum(len(data) + 2 * SECTOR_BYTES for data in files.values())
    size = max(MIN_BYTES, -(-(clusters + clusters // 32 + MIB) // MIB) * MIB)
    with tempfile.TemporaryDirectory(prefix="gramophone-card-") as name:
        image = Path(name) / "card"
        with image.open("wb") as file:
            file.truncate(FIRST_SECTOR * SECTOR_BYTES + size)
        # Small clusters, so that a small card has enough of them; one KiB is mkfs.fat's unit of size.
        options = [
            "--invariant",
            "-F",
            "32",
            "-s",
            "1",
            "-S",
            str(SECTOR_BYTES),
            "-i",
            VOLUME_ID,
            "-n",
            "GRAMOPHONE",
        ]
        place = ["--offset", str(FIRST_SECTOR), "-h", str(FIRST_SECTOR), str(image), str(size // 1024)]
        _run([str(paths["mkfs.fat"]), *options, *place])
        where = ["-i", f"{image}@@{FIRST_SECTOR * SECTOR_BYTES}"]
        for folder in sorted({str(Path(file).parent) for file in files} - {"."}):
            _run([str(paths["mmd"]), *where, f"::{folder}"])
        for index, (target, data) in enumerate(files.items()):
            source = Path(name) / str(index)
            source.write_bytes(data)
            os.utime(source, (EPOCH, EPOCH))
            _run([str(paths["mcopy"]), "-m", *where, str(source), f"::{target}"])
        table = {
            "code": bytes(446),
            "first_chs": BEYOND_CHS,
            "last_chs": BEYOND_CHS,
            "sectors": size // SECTOR_BYTES,
        }
        return bytes(MBR.build(table)) + image.read_bytes()[SECTOR_BYTES:]


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


def read_device(path: Path) -> bytes:
    """An image's bytes; of a device, which is larger than what was written to it, as far as its partition goes."""
    with path.open("rb") as file:
        if path.is_file():
            return file.read()
        head = file.read(SECTOR_BYTES)
        if not is_card(head):
            raise ImageError("not a card that 'gramophone flash' wrote", file=str(path))
        sectors = unpack(MBR, head, 0, "partition table").sectors
        return head + file.read((FIRST_SECTOR + sectors - 1) * SECTOR_BYTES)


def _run(command: list[str]) -> None:
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "TZ": "UTC",
        "LC_ALL": "C",
        "MTOOLSRC": os.devnull,
    }
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode:
        raise FlashError(f"{Path(command[0]).name} failed: {' '.join((done.stderr or done.stdout).split())}")
