# SPDX-License-Identifier: BSD-2-Clause
"""Every way in which a recording's register accesses can be malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.extras.importers.gpureplay import HistoryError
from host_tools.gpus.mali.kbase import AccessError
from tests.support import mali_samples as m
from tests.support.gpureplay_edits import JOB_REGION, Malformed, assert_refused, cut, line, patch, put, swap
from tests.support.mali_samples import CONTENTS, HISTORY, JOBS

LINE_1 = len(m.history()[0])


# name, damage, error, file, offset, message
MALFORMED: list[Malformed] = [
    ("history: empty", put(HISTORY, b""), HistoryError, HISTORY, 0, "empty"),
    ("history: cut off", cut(HISTORY, -1), HistoryError, HISTORY, None, "is cut off"),
    ("history: empty line", line(b""), HistoryError, HISTORY, LINE_1, "line 2 is no register access"),
    ("history: three fields", line(b"1,R,0x00000000"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: five fields", line(b"1,R,0x0,0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: delay in hex", line(b"0x1,R,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: negative delay", line(b"-1,R,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: huge delay", line(b"9223372036854775808,R,0x0,0"), HistoryError, HISTORY, LINE_1, "the delay"),
    ("history: neither R nor W", line(b"1,X,0x0,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: offset without 0x", line(b"1,R,00000000,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: offset not hex", line(b"1,R,0x0000000g,0"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: value not hex", line(b"1,R,0x0,xyz"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: value of 33 bits", line(b"1,R,0x0,1ffffffff"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: CR at line end", line(b"1,R,0x0,0\r"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: not ASCII", line(b"1,R,0x0,\xff\xfe"), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: NUL bytes", line(bytes(40)), HistoryError, HISTORY, LINE_1, "no register access"),
    ("history: unaligned offset", line(b"1,R,0x00000002,0"), HistoryError, HISTORY, LINE_1, "no register of the"),
    (
        "history: outside the window",
        line(b"1,R,0x00004000,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "no register of the",
    ),
    (
        "history: unknown register",
        line(b"1,R,0x00000d00,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "unknown register 0x0d00",
    ),
    (
        "history: write to read-only",
        line(b"1,W,0x00000000,0"),
        HistoryError,
        HISTORY,
        LINE_1,
        "GPU_ID is read-only",
    ),
    ("history: read of write-only", line(b"1,R,0x00000030,0"), HistoryError, HISTORY, LINE_1, "is write-only"),
    ("history: another GPU", line(b"0,R,0x00000000,72120000", 0), HistoryError, HISTORY, 0, "another GPU"),
    ("history: no identity", line(b"0,R,0x00000014,2830", 0), HistoryError, HISTORY, 0, "never read"),
    ("history: no job", put(HISTORY, m.history()[0]), HistoryError, HISTORY, 0, "no job"),
    (
        "history: flush id never read",
        swap(HISTORY, b"18f0,00ffffe0", b"18f0,00000007"),
        AccessError,
        HISTORY,
        None,
        "flush id that was never read",
    ),
    (
        "history: flush id before any read",
        swap(HISTORY, b"R,0x00000038", b"R,0x00000034"),
        AccessError,
        HISTORY,
        None,
        "flush id that was never read",
    ),
    (
        "history: another table",
        swap(HISTORY, b"2400,0d874000", b"2400,0d875000"),
        AccessError,
        HISTORY,
        None,
        "page table that was not saved",
    ),
    (
        "history: older table format",
        swap(HISTORY, b"2430,42000006", b"2430,00000000"),
        AccessError,
        HISTORY,
        None,
        "another page table format",
    ),
    (
        "history: physical addresses",
        swap(HISTORY, b"2430,42000006", b"2430,00000002"),
        AccessError,
        HISTORY,
        None,
        "another page table format",
    ),
    (
        "history: job without address space",
        swap(HISTORY, b"18d8,00087b00", b"18d8,00087b03"),
        AccessError,
        HISTORY,
        None,
        "address space that has no page table",
    ),
    (
        "history: job header not aligned",
        swap(HISTORY, b"18c0,ac010000", b"18c0,ac010004"),
        AccessError,
        HISTORY,
        None,
        "not aligned",
    ),
    (
        "history: job header not saved",
        swap(HISTORY, b"18c0,ac010000", b"18c0,ac020000"),
        AccessError,
        HISTORY,
        None,
        "was not saved",
    ),
    (
        "history: job chain in a circle",
        patch(CONTENTS, JOB_REGION + 29 + 16 + 0x40 + 24, "Q", JOBS),
        AccessError,
        HISTORY,
        None,
        "comes back to",
    ),
    (
        "history: chain leads nowhere",
        patch(CONTENTS, JOB_REGION + 29 + 16 + 0x40 + 24, "Q", 1 << 63),
        AccessError,
        HISTORY,
        None,
        "was not saved",
    ),
]


@pytest.mark.parametrize("row", MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_recordings(row: Malformed, tmp_path: Path) -> None:
    assert_refused(row, tmp_path)


def test_there_are_enough_malformed_recordings() -> None:
    assert len({row[0] for row in MALFORMED}) == len(MALFORMED) >= 30
