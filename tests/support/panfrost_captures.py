# SPDX-License-Identifier: BSD-2-Clause
"""Captures as panfrost makes them on a Mali, put together by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

RAM_END = 0xC000_0000
PA = 0x4B00_0000  # of the one page that the GPU sees
PAGE = 0xA000  # its GPU page
HEAD = PAGE << 12
GPU_ID, LATEST_FLUSH, GPU_COMMAND, SHADER_PWROFF = 0x0, 0x38, 0x30, 0x1C0
JOB_RAWSTAT, JOB_CLEAR, JOB_MASK, JOB_STATUS = 0x1000, 0x1004, 0x1008, 0x100C
TABLE, MEMORY_ATTRIBUTES, AS_COMMAND, TABLE_CONFIG = 0x2400, 0x2408, 0x2418, 0x2430
HEAD_NEXT, AFFINITY_NEXT, CONFIG_NEXT, COMMAND_NEXT, FLUSH_NEXT = 0x18C0, 0x18D0, 0x18D8, 0x18E0, 0x18F0
LPAE_TABLE, FLUSHES = 0x4B944007, 0x87B00


def record(kind: int, a: int, b: int, delta: int = 0) -> bytes:
    """A record of a capture, without what may follow it (docs/FORMAT-CAPTURE.md)."""
    return struct.pack("<IIII", kind, delta, a, b)


def read(offset: int, value: int, delta: int = 20) -> bytes:
    return record(1, offset, value, delta)


def write(offset: int, value: int, delta: int = 20) -> bytes:
    return record(2, offset, value, delta)


def interrupt(level: int, line: int = 0) -> bytes:
    return record(3, line, level)


def end(records: int, *, jobs: int, faults: int = 0, failed: bool = False) -> bytes:
    counters = [0, 0, 0, jobs, 0, 0, 0, 0, faults, 0]
    return record(13, int(failed), 0) + struct.pack("<12Q", records, *counters, 0)


def capture(
    rows: Sequence[bytes], *, gpu: str = "mali_g71-arch60", jobs: int | None = None, **flags: Any
) -> bytes:
    """A whole capture; `jobs`: how many are said to have been completed, as many as there are if left out."""
    window, lines = (0x4000, 3) if gpu.startswith("mali") else (0xC000, 1)
    done = jobs if jobs is not None else sum(row[:4] == struct.pack("<I", 5) for row in rows)
    head = struct.pack("<8sII16s", b"GRAMCAP1", window, lines, gpu.encode())
    return head + b"".join(rows) + end(len(rows), jobs=done, **flags)


MAP = record(7, PAGE, 1) + struct.pack("<QII", PA, 3, 0)
CONTENT = record(10, PAGE, 0) + bytes([9]) * 4096
TABLE_SET = [
    write(TABLE, LPAE_TABLE),
    write(TABLE + 4, 0),
    write(MEMORY_ATTRIBUTES, 0x888D88),
    write(MEMORY_ATTRIBUTES + 4, 0),
    write(AS_COMMAND, 1),
]
TABLE_OFF = [write(TABLE, 0), write(TABLE + 4, 0), write(AS_COMMAND, 1)]
PROBE = [read(GPU_ID, 0x60000002), write(GPU_COMMAND, 1), write(JOB_MASK, 0x70007, delta=5000), *TABLE_SET]
SERVICE = [
    read(JOB_STATUS, 2),
    write(JOB_MASK, 0),
    interrupt(0),
    write(JOB_CLEAR, 2),
    read(JOB_RAWSTAT, 0),
    write(JOB_MASK, 0x70007),
]
CLOSE = [*TABLE_OFF, write(JOB_MASK, 0), write(SHADER_PWROFF, 0xFF)]


def job(
    number: int = 1, memory: Sequence[bytes] = (MAP, CONTENT), *, flush: int = 0, config: int = FLUSHES
) -> list[bytes]:
    """A job that is submitted, and its interrupt."""
    return [
        write(HEAD_NEXT, HEAD),
        write(HEAD_NEXT + 4, 0),
        write(AFFINITY_NEXT, 0xF0),
        write(AFFINITY_NEXT + 4, 0),
        write(CONFIG_NEXT, config),
        write(FLUSH_NEXT, flush),
        write(COMMAND_NEXT, 1),
        *memory,
        record(4, 0, number),
        record(5, 0, number),
        interrupt(1),
    ]


def first_job(**options: Any) -> list[bytes]:
    return [*job(**options), *SERVICE]
