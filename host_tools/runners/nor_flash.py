# SPDX-License-Identifier: BSD-2-Clause
"""The emulated board's second flash, in which firmware with the feature `store` keeps versions.

Its file, and a model of its commands for Unicorn.

QEMU's machine "virt" has it at 0x04000000: 64 MiB, sectors of 256 KiB, two chips of 16 bits side by side, with the
commands of Intel's NOR flash (CFI, command set 0001). Facts: QEMU hw/arm/virt.c, hw/block/pflash_cfi01.c.
"""

from __future__ import annotations

from pathlib import Path

from host_tools.runners.replay import RunnerError
from host_tools.support.files import write_atomically
from tee_replayer.generator import boards
from tee_replayer.generator.rollback_store import DEVICE
from trace_format.files import open_regular

FLASH_BYTES = 64 << 20
SECTOR_BYTES = 256 << 10
ERASED = 0xFF
PLACE = boards.load(boards.QEMU_VIRT).devices[DEVICE]
# Commands and answers, of one of the two chips.
READ_ARRAY, CLEAR_STATUS, PROGRAM, ERASE, CONFIRM, READY = 0xFF, 0x50, 0x40, 0x20, 0xD0, 0x80


def prepared(path: Path) -> Path:
    """A flash's file, made with erased sectors where the store lies if there is none.

    Raises:
        RunnerError: it has another size.
        OSError: it can be neither read nor made.
    """
    if not path.exists():
        write_atomically(path, bytes([ERASED]) * PLACE.bytes)
        with path.open("r+b") as file:
            file.truncate(FLASH_BYTES)  # a hole: the firmware does not read it
    if (size := path.stat().st_size) != FLASH_BYTES:
        raise RunnerError(f"{path}: the flash of the emulated board: expected {FLASH_BYTES} bytes, found {size}")
    return path


def read(path: Path) -> bytes:
    """What is in the sectors of the store."""
    with open_regular(path) as file:
        return file.read(PLACE.bytes)


def qemu_options(path: Path) -> tuple[str, ...]:
    """Options of QEMU for a flash that `prepared` gave."""
    escaped = str(path.resolve()).replace(",", ",,")
    return ("-drive", f"if=pflash,unit=1,format=raw,file={escaped}")


class NorFlash:
    """The chips' state, as the firmware sees it by words of 32 bits.

    Attributes:
        data: what is in the sectors of the store.
    """

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self._mode = READ_ARRAY
        self._pending = 0

    def read(self, offset: int) -> int:
        """The word at an offset, or both chips' status."""
        if self._mode != READ_ARRAY:
            return READY << 16 | READY
        return int.from_bytes(self.data[offset : offset + 4], "little")

    def write(self, offset: int, value: int) -> None:
        """A command, or what one waits for.

        Raises:
            RunnerError: a command that the board's port does not use, or one for a single chip.
        """
        pending, self._pending = self._pending, 0
        if pending == PROGRAM:
            old = int.from_bytes(self.data[offset : offset + 4], "little")
            self.data[offset : offset + 4] = (old & value).to_bytes(4, "little")
            return
        command = value & 0xFFFF
        if value >> 16 != command:
            raise RunnerError(f"flash command {value:#x} of the firmware: not for both chips")
        if pending == ERASE and command == CONFIRM:
            start = offset // SECTOR_BYTES * SECTOR_BYTES
            self.data[start : start + SECTOR_BYTES] = bytes([ERASED]) * SECTOR_BYTES
        elif command in (PROGRAM, ERASE):
            self._mode, self._pending = command, command
        elif command == READ_ARRAY:
            self._mode = READ_ARRAY
        elif command != CLEAR_STATUS:
            raise RunnerError(f"unknown flash command {command:#x} of the firmware")
