# SPDX-License-Identifier: BSD-2-Clause
"""What holds an image's files: a tar archive or the folder it was unpacked to, a flash image, an SD card."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from host_tools.flash import sdcard
from host_tools.flash.errors import ImageError
from trace_format.files import read_file

FIRMWARE = "firmware.bin"
FLASH_SECTOR = 256 << 10  # of QEMU's machine "virt" (VIRT_FLASH_SECTOR_SIZE of its hw/arm/virt.c)
ARCHIVE_AT = FLASH_SECTOR  # in a flash image, after the firmware
ERASED = b"\xff"  # what flash holds where nothing was written
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257  # POSIX.1-1988


@dataclass(frozen=True)
class File:
    """A file of an image.

    Attributes:
        offset: of its first byte in the image; 0 in a folder.
        data: its contents.
    """

    offset: int
    data: bytes


@dataclass(frozen=True)
class Opened:
    """An image taken apart.

    Attributes:
        kind: "archive", "folder", "flash" or "card".
        files: name -> file; names have slashes where there are folders.
        data: the whole image; None for a folder, which has no bytes of its own.
    """

    kind: str
    files: Mapping[str, File]
    data: bytes | None


def pack_archive(files: Mapping[str, bytes]) -> bytes:
    """A tar archive (POSIX.1-1988) of the files in this order: the same files always give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)  # time, owner and group are 0
            info.size, info.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def pack_flash(files: Mapping[str, bytes]) -> bytes:
    """The firmware at the reset address, then an archive of the other files, in whole sectors."""
    firmware = files[FIRMWARE]
    if len(firmware) > ARCHIVE_AT:
        raise ImageError(f"size of {FIRMWARE}", expected=f"at most {ARCHIVE_AT}", found=len(firmware))
    archive = pack_archive({name: data for name, data in files.items() if name != FIRMWARE})
    return firmware.ljust(ARCHIVE_AT, ERASED) + archive + ERASED * (-len(archive) % FLASH_SECTOR)


def open_image(path: Path) -> Opened:
    """Take an image apart.

    Raises:
        ImageError: it is none of those that `gramophone flash` writes, or its files cannot be determined.
        OSError: it cannot be read.
    """
    if path.is_dir():
        return _opened("folder", _read_folder(path), None)
    return take_apart(sdcard.read_device(path))


def _read_folder(path: Path) -> dict[str, File]:
    """The files of a folder to which an archive was unpacked: no links, for they can lead elsewhere tomorrow."""
    for entry in sorted(path.iterdir()):
        if entry.is_symlink() or not entry.is_file():
            raise ImageError(f"{entry.name!r} in the folder", expected="a file", found="something else")
    return {entry.name: File(0, read_file(entry)) for entry in sorted(path.iterdir())}


def take_apart(data: bytes) -> Opened:
    """As `open_image`, for an image in memory."""
    if sdcard.is_card(data):
        files = {name: File(at, contents) for name, (at, contents) in sdcard.read(data).items()}
        return _opened("card", files, data)
    if _is_archive(data, 0):
        return _opened("archive", _read_archive(data, 0), data)
    if _is_archive(data, ARCHIVE_AT):
        files = _read_archive(data, ARCHIVE_AT)
        return _opened("flash", {FIRMWARE: File(0, data[:ARCHIVE_AT].rstrip(ERASED))} | files, data)
    raise ImageError(
        "not an image that 'gramophone flash' wrote",
        expected="an archive, a card with a FAT file system, or a flash image",
        found=data[:8].hex() or "an empty file",
    )


def _opened(kind: str, files: Mapping[str, File], data: bytes | None) -> Opened:
    """An image whose files have names that can be written and printed, and are different to every reader."""
    for name, file in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or path.as_posix() != name or not name.isprintable():
            raise ImageError(f"file {name!r}: expected a name that stays in its folder", offset=file.offset)
    by_case: dict[str, str] = {}
    for name, file in files.items():
        other = by_case.setdefault(name.lower(), name)
        if other != name:
            raise ImageError(f"file {name!r}: expected a name that differs from {other!r}", offset=file.offset)
    return Opened(kind, files, data)


def _is_archive(data: bytes, at: int) -> bool:
    return data[at + _TAR_MAGIC_AT : at + _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def _read_archive(data: bytes, at: int) -> dict[str, File]:
    files: dict[str, File] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data[at:]), mode="r:") as tar:
            for member in tar:
                start = at + member.offset_data
                if start + member.size > len(data):
                    raise ImageError(
                        f"end of {member.name!r} in the archive",
                        offset=at + member.offset,
                        expected=f"at most {len(data):#x}",
                        found=f"{start + member.size:#x}",
                    )
                if not member.isreg() or member.name in files:
                    raise ImageError(
                        f"{member.name!r} in the archive: expected a file of its own name",
                        offset=at + member.offset,
                    )
                files[member.name] = File(start, data[start : start + member.size])
    except (tarfile.TarError, ValueError, OverflowError) as error:  # sizes that make no sense
        raise ImageError(f"not a tar archive ({error})", offset=at) from None
    return files
