# SPDX-License-Identifier: BSD-2-Clause
"""The register history that Arm's kbase driver prints in debugfs (`regs_history`): index, r or w, address, value.

    Last 3 register accesses of 3 total:
         0: r: reg 0xffffff800b8e0000 val 60a00002

Addresses are where the kernel has the register window. The history has nothing about memory or time, so the trace
made of it holds register accesses only: it can be read and compared, but not replayed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np

from host_tools.gpus.mali import kbase
from trace_format import layout, profile
from trace_format.actions import ACTION_DTYPE
from trace_format.errors import TraceError
from trace_format.files import read_file
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

GPU = "mali_g71"
_HEAD = re.compile(rb"Last (\d{1,20}) register accesses of (\d{1,20}) total:")
_LINE = re.compile(rb" *(\d{1,20}): ([rwRW]): reg 0x([0-9a-f]{1,16}) val ([0-9a-f]{1,8})")


class RegsHistoryError(TraceError):
    """A register history is malformed."""


def import_regs_history(path: Path, name: str) -> Trace:
    """Turn the text of a register history into a raw trace of register accesses.

    Args:
        path: the text.
        name: of the trace.

    Raises:
        RegsHistoryError, AccessError: naming file and offset.
    """
    gpu = profile.load(GPU)
    data = read_file(path)
    with layout.naming(str(path)):
        accesses, total = read(data, gpu)
        stream = kbase.convert(accesses, gpu, strict=False)
    return Trace(
        gpu=GPU,
        actions=np.array(stream.actions, dtype=ACTION_DTYPE),
        image=b"",
        carveout_bytes=PAGE_BYTES,
        va_bytes=1 << gpu.mmu["va_bits"],
        meta={"name": name, "recorder": "kbase regs_history", "kernel": "Arm kbase"},
        notes={
            "imported": "register history of the kbase driver; registers only",
            "file": hashlib.sha256(data).hexdigest(),
            "accesses": len(accesses),
            "accesses_before_the_history": total - len(accesses),
        },
        raw=True,
    )


def read(data: bytes, gpu: Profile) -> tuple[list[kbase.Access], int]:
    """The accesses of a register history, and how many the driver had made in all.

    Raises:
        RegsHistoryError
    """
    lines = data.split(b"\n")
    if lines[-1]:
        raise RegsHistoryError("the last line is cut off: it has no end", offset=len(data) - len(lines[-1]))
    head = _HEAD.fullmatch(lines[0])
    if head is None:
        raise RegsHistoryError(
            "first line",
            offset=0,
            expected="Last N register accesses of M total:",
            found=repr(lines[0][:60].decode("ascii", "backslashreplace")),
        )
    count, total = int(head[1]), int(head[2])
    if count != len(lines) - 2 or count > total or count == 0:
        raise RegsHistoryError(
            "number of accesses", offset=0, expected=f"{len(lines) - 2}, not 0 and at most {total}", found=count
        )
    rows = []
    at = len(lines[0]) + 1
    for index, line in enumerate(lines[1:-1]):
        match = _LINE.fullmatch(line)
        if match is None or int(match[1]) != index:
            raise RegsHistoryError(
                f"line {index + 2}",
                offset=at,
                expected=f"{index}: r or w: reg 0xADDRESS val VALUE",
                found=repr(line[:60].decode("ascii", "backslashreplace")),
            )
        rows.append((at, match[2] in b"wW", int(match[3], 16), int(match[4], 16)))
        at += len(line) + 1
    base = _window(rows, gpu)
    return [_access(row, base, gpu) for row in rows], total


def _access(row: tuple[int, bool, int, int], base: int, gpu: Profile) -> kbase.Access:
    at, write, address, value = row
    register = kbase.find(gpu, address - base, write)
    if isinstance(register, str):
        raise RegsHistoryError(register, offset=at)
    return kbase.Access(at, 0, write, register, value)


def _window(rows: list[tuple[int, bool, int, int]], gpu: Profile) -> int:
    """Address of the register window: the only page from which every access hits a register that takes it."""
    accesses = {(write, address) for _, write, address, _ in rows}
    addresses = [address for _, address in accesses]
    first = max(0, (max(addresses) + 4 - gpu.window_bytes + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES)
    fits = [
        base
        for base in range(first, min(addresses) + 1, PAGE_BYTES)
        if not any(isinstance(kbase.find(gpu, address - base, write), str) for write, address in accesses)
    ]
    if len(fits) != 1:
        raise RegsHistoryError(
            f"the addresses fit a {gpu.title}'s registers in {len(fits)} places",
            offset=rows[0][0],
            expected="one",
            found=", ".join(f"{base:#x}" for base in fits) or "none",
        )
    return fits[0]
