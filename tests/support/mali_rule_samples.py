# SPDX-License-Identifier: BSD-2-Clause
"""A small GPUReplay recording as a Mali G72 would give it, made by hand: there is no public one.

It has every value that the rules of mali_rules.py are about, where they apply and where they do not.
"""

from __future__ import annotations

import struct

from tests.support import mali_samples as m
from tests.support.mali_samples import BUFFERS, CODE, CONTENTS, DATA, HISTORY, JOBS, PAGE, SCRATCH, TABLES

GPU_ID = 0x62210000
SPLIT_8, SPLIT_7 = 0x20000000, 0x1C000000
NUMBER = 0xAF0060020C1765B9  # of no meaning
STATE_1, STATE_2 = JOBS + 0x400, JOBS + 0x440
UNIFORM_TABLE, UNIFORMS, PUSH = JOBS + 0x600, JOBS + 0x640, JOBS + 0x680
DECOY = JOBS + 0x800  # no job leads to it


def compute_job(*, split: int, state: int, index: int = 1, next_va: int = 0, status: int = 1) -> bytes:
    """A descriptor of 192 bytes: header 32, invocation 8, parameters 24, draw 128 (genxml v7)."""
    header = m.job_header(status=status, index=index, next_va=next_va)[:32]
    draw = struct.pack("<I20xQ16xQQ", 2, UNIFORM_TABLE, PUSH, state)
    return header + struct.pack("<8I", 10, 0x41041040, split, *[0] * 5) + draw.ljust(128, b"\0")


def renderer_state(properties: int, preload: int) -> bytes:
    """A renderer state of 64 bytes: shader's address, properties in word 4, preload in word 12."""
    words = [0] * 16
    words[0], words[1] = CODE & 0xFFFFFFFF, CODE >> 32
    words[4], words[12] = properties, preload
    return struct.pack("<16I", *words)


def jobs_page(*, g71: bool = False) -> bytes:
    """A chain of two jobs at JOBS, one job at JOBS + 0x180, what they share, and what looks the same at DECOY.

    The second job is split another way; the third has a state that is right as it is except for its preload.
    """
    split, registers, preload = (SPLIT_7, 0, 0x800000) if g71 else (SPLIT_8, 0x2000, 0)
    parts = {
        0x000: compute_job(split=split, state=STATE_1, next_va=JOBS + 0xC0),
        0x0C0: compute_job(split=0x14000000, state=STATE_1, index=2),
        0x180: compute_job(split=split, state=STATE_2),
        0x400: renderer_state(0x08000001 | registers, 0x029000 | preload),
        0x440: renderer_state(0x08000801, 0x097080 | preload),
        0x600: struct.pack("<Q", UNIFORMS << 8),  # one buffer of 16 bytes: address / 16 at bit 12, size - 1
        0x680: struct.pack("<3Q", DATA, DATA + 0x100, DATA + 2 * PAGE),
        0x800: compute_job(split=SPLIT_8, state=STATE_1) + renderer_state(0x08002001, 0x029000),
    }
    page = bytearray(PAGE)
    for at, part in parts.items():
        page[at : at + len(part)] = part
    return bytes(page)


def data_page() -> bytes:
    """A number that looks like a split, where no job leads."""
    return struct.pack("<4Q", 0, NUMBER, SPLIT_8, NUMBER)


def history() -> list[bytes]:
    """Identity, settings, reset, power-on of two cores, page table, two submissions, off."""
    rows = [
        (0, False, 0x0, GPU_ID),
        (521, False, 0x4, 0x7110206),
        (521, False, 0x14, 0x2823),
        (521, False, 0xC4, 0x1FE),
        (521, False, 0x100, 0x3),
        (1000, True, 0x30, 1),
        (521, True, 0x28, 0x100),
        (40_000, False, 0x2C, 0x100),
        (521, True, 0x24, 0x100),
        (521, True, 0x28, 0x10581),
        (521, False, 0xF04, 0),
        (521, True, 0xF04, 0x10000),
        (521, True, 0xF08, 0),
        (521, True, 0xF0C, 0x5000000),
        (521, True, 0xF00, 0x3F0000),
        (521, True, 0x304, 0),
        (521, True, 0x1008, 0xFFFFFFFF),
        (521, True, 0x1A0, 1),
        (521, True, 0x180, 3),
        (521, False, 0x200, 3),
        (30_000, False, 0x140, 3),
        (8_000_000, False, 0x38, 0xFFFFE0),
        (521, True, 0x2430, m.CONFIG),
        (0, True, 0x2434, 0),
        (0, True, 0x2400, m.ROOT & 0xFFFFFFFF),
        (0, True, 0x2404, m.ROOT >> 32),
        (0, True, 0x2408, m.ATTRIBUTES & 0xFFFFFFFF),
        (0, True, 0x240C, m.ATTRIBUTES >> 32),
        (521, False, 0x2428, 0),
        (0, True, 0x2418, 1),
    ]
    return [
        *[m.access(*row) for row in rows],
        *m.submission(JOBS, 0xFFFFE0, cores=3),
        m.access(521, False, 0x38, 0xFFFFE2),
        *m.submission(JOBS + 0x180, 0xFFFFE2, cores=3),
        *[m.access(521, True, *row) for row in [(0x2430, 0x42000001), (0x2400, 0), (0x2404, 0), (0x2418, 1)]],
    ]


def recording() -> dict[str, bytes]:
    """The four files."""
    return {
        HISTORY: b"".join(history()),
        TABLES: b"".join(m.page_tables(m.mapped())),
        CONTENTS: b"".join(
            [
                m.region(CODE, m.FLAGS_CODE, [m.END_THREAD], end=CODE + 16 * PAGE),
                m.region(JOBS, m.FLAGS_JOBS, [jobs_page()]),
                m.region(DATA, m.FLAGS_DATA, pages=3),
                m.region(SCRATCH, m.FLAGS_DATA, [data_page()]),
            ]
        ),
        BUFFERS: m.buffers((DATA + 0x100, PAGE), (DATA, 64), (DATA + 2 * PAGE, 40)),
    }
