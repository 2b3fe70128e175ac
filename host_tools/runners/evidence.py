# SPDX-License-Identifier: BSD-2-Clause
"""The replay log and the attestation of an emulated device: room for them in the mailbox, and what it keeps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from host_tools.runners.mailbox import Extra, Layout, message
from host_tools.runners.replay import Evidence, RunnerError
from host_tools.runners.requests import BoardRequest
from host_tools.support.files import write_atomically
from trace_format import packing
from trace_format.files import read_file
from trace_format.schema.mailbox import (
    MAILBOX_ATTESTATION,
    MAILBOX_ATTESTATION_BYTES,
    MAILBOX_LOG,
    MAILBOX_NONCE,
)

STORED = ("device.secret", "device.tail", "device.boots")  # baremetal/qemu_virt.c opens no others
_MESSAGE_BYTES = packing.size_of("mailbox_message")
_BESIDE_REPLAYS = 2  # entries of a boot and a load
# Semihosting (Arm "Semihosting for AArch32 and AArch64", 2.0): operations and modes that the port uses.
SYS_OPEN, SYS_CLOSE, SYS_WRITE, SYS_READ = 1, 2, 5, 6
MODE_READ, MODE_WRITE = 1, 5
FAILED = (1 << 64) - 1
_HANDLE = 3


def extras(request: BoardRequest) -> tuple[Extra, ...]:
    """Buffers of a request for firmware with a replay log; none when it is not wanted."""
    if request.store is None or not request.has_log:
        return ()
    entry = packing.size_of("log_entry")
    room = [Extra(MAILBOX_LOG, bytes(_MESSAGE_BYTES + (_BESIDE_REPLAYS + request.repeat) * entry))]
    if request.nonce is not None:
        room.append(Extra(MAILBOX_NONCE, request.nonce))
        room.append(Extra(MAILBOX_ATTESTATION, bytes(MAILBOX_ATTESTATION_BYTES)))
    return tuple(room)


def answer(memory: memoryview, request: BoardRequest, places: Layout) -> Evidence:
    """What the firmware wrote to these buffers."""
    found = {
        extra.slot: message(memory, at, len(extra.data))
        for extra, at in zip(extras(request), places.extras_at, strict=True)
        if extra.slot != MAILBOX_NONCE
    }
    return Evidence(found.get(MAILBOX_LOG, b""), found.get(MAILBOX_ATTESTATION, b""))


class Store:
    """The files that a board keeps beside the emulator, as its firmware sees them: semihosting.

    Args:
        folder: where they are; None: there are none.
        read, write: the machine's memory, by address.
    """

    def __init__(
        self, folder: Path | None, read: Callable[[int, int], bytes], write: Callable[[int, bytes], None]
    ) -> None:
        self._folder, self._read, self._write = folder, read, write
        self._open: Path | None = None

    def call(self, operation: int, block: int) -> int:
        """Do an operation with the parameters at an address; its result.

        Raises:
            RunnerError: an operation that the port does not use.
        """
        if operation == SYS_OPEN:
            at, mode, size = self._words(block, 3)
            name = self._read(at, size).decode("ascii", "replace")
            if self._folder is None or name not in STORED or mode not in (MODE_READ, MODE_WRITE):
                return FAILED
            self._open = self._folder / name
            return _HANDLE if mode == MODE_WRITE or self._open.is_file() else FAILED
        if operation == SYS_CLOSE:
            self._open = None
            return 0
        if operation not in (SYS_READ, SYS_WRITE):
            raise RunnerError(f"unknown semihosting operation {operation:#x} of the firmware")
        _, at, size = self._words(block, 3)
        if self._open is None:
            return size
        if operation == SYS_WRITE:
            write_atomically(self._open, self._read(at, size), mode=0o600)
            return 0
        data = read_file(self._open)[:size]
        self._write(at, data)
        return size - len(data)

    def _words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self._read(at, 8 * count))
