# SPDX-License-Identifier: BSD-2-Clause
"""Damaged captures: each is refused with the file, the offset and what was expected."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.vgpu.capture import CaptureError, End, read_capture, read_header
from tests.support.sampling import few

HEADER = struct.pack("<8sII16s", b"GRAMCAP1", 0xC000, 1, b"v3d42")


def record(kind: int, a: int, b: int, delta: int = 0) -> bytes:
    return struct.pack("<IIII", kind, delta, a, b)


def end(records: int) -> bytes:
    return record(13, 0, 0) + struct.pack("<12Q", records, *range(10), 0)


MAP = record(7, 0x10, 2) + struct.pack("<QII", 0x41000000, 3, 0)
PAGE = record(10, 0x10, 0) + b"\1" * 4096
GOOD = [
    record(2, 0x1000, 3, 5),
    record(6, 1, 1),
    record(1, 0x4050, 0x80),
    MAP,
    PAGE,
    record(11, 0x11, 0),
    record(9, 0x10, 1),
    record(12, 0x10004, 3) + b"abc" + bytes(13),
    record(4, 0, 1),
    record(5, 0, 1),
    record(3, 0, 1),
    record(8, 0x10, 2),
]
GOOD_FILE = HEADER + b"".join(GOOD) + end(len(GOOD))


def read(path: Path, data: bytes) -> list[Any]:
    path.write_bytes(data)
    return list(read_capture(path))


def test_good(tmp_path: Path) -> None:
    *events, last = read(tmp_path / "a.cap", GOOD_FILE)
    assert len(events) == len(GOOD) - 1  # an idle record is part of the event after it
    assert events[1].delta_ns == 1 + (1 << 32)
    assert isinstance(last, End)
    assert list(last.counters.values()) == list(range(10))


def after(*records: bytes) -> tuple[bytes, int]:
    """A file whose last record is bad, and the offset of that one."""
    good = HEADER + b"".join(records[:-1])
    return good + records[-1] + end(len(records)), len(good)


BAD = {
    "only the header": (HEADER, 32, "cut off in a record"),
    "no end record": (HEADER + GOOD[0], 48, "cut off in a record"),
    "bytes after the end": (GOOD_FILE + b"\0", len(GOOD_FILE) - 112, "nothing after the end record"),
    "wrong count of records": (HEADER + GOOD[0] + end(2), 48, "number of records: expected 1, found 2"),
    "end record cut": (GOOD_FILE[:-8], len(GOOD_FILE) - 112, "cut off in the end record"),
    "kind 0": (*after(record(0, 0, 0)), "kind of record"),
    "kind 15": (*after(record(15, 0, 0)), "kind of record"),
    "a call that ends": (*after(record(14, 0, 0)), "cut off in a call"),
    "register off the window": (*after(record(1, 0xC000, 0)), "register offset: expected a word below 0xc000"),
    "register not a word": (*after(record(2, 0x1002, 0)), "register offset"),
    "interrupt line": (*after(record(3, 1, 1)), "interrupt line: expected below 1, found 1"),
    "interrupt level again": (*after(record(3, 0, 0)), "interrupt level: expected 1, found 0"),
    "job kind": (*after(record(4, 3, 1)), "job kind"),
    "job ordinal": (*after(record(4, 0, 2)), "job ordinal: expected 1, found 2"),
    "a job in a job": (*after(record(4, 0, 1), record(4, 0, 2)), "start of a job: expected the end of the one"),
    "end of no job": (*after(record(5, 0, 1)), "end of job"),
    "end of another kind": (*after(record(4, 0, 1), record(5, 1, 1)), "end of job"),
    "short idle": (*after(record(6, 5, 0)), "idle record"),
    "no pages": (*after(record(7, 0x10, 0) + bytes(16)), "run of pages"),
    "pages above the top": (*after(record(7, 0xFFFFF, 2) + bytes(16)), "run of pages"),
    "odd physical address": (*after(record(7, 0, 1) + struct.pack("<QII", 1, 3, 0)), "physical address"),
    "mapping flags": (*after(record(7, 0, 1) + struct.pack("<QII", 0, 2, 0)), "flags of a mapping"),
    "unmap what is not mapped": (*after(MAP, record(8, 0x11, 2)), "mapped ones"),
    "zero what is not mapped": (*after(record(9, 0x10, 1)), "mapped ones"),
    "content where nothing is mapped": (*after(record(10, 0x10, 0) + bytes(4096)), "mapped ones"),
    "content id skipped": (*after(MAP, record(10, 0x10, 1) + bytes(4096)), "content id: expected 0, found 1"),
    "content not known": (*after(MAP, record(11, 0x10, 0)), "content id: expected below 0"),
    "no changed bytes": (*after(MAP, record(12, 0x10000, 0)), "changed bytes"),
    "changed bytes over two pages": (*after(MAP, record(12, 0x10FFF, 2) + bytes(16)), "range inside one page"),
    "padding": (*after(MAP, record(12, 0x10000, 1) + b"a" + b"b" * 15), "padding"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_record(tmp_path: Path, name: str) -> None:
    data, offset, message = BAD[name]
    with pytest.raises(CaptureError, match=message) as caught:
        read(tmp_path / "a.cap", data)
    assert caught.value.offset == offset
    assert caught.value.file == str(tmp_path / "a.cap")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off in its header"),
        (HEADER[:31], "cut off in its header"),
        (b"GRAMCAP2" + HEADER[8:], "not a capture"),
        (struct.pack("<8sII16s", b"GRAMCAP1", 3, 1, b"v3d42"), "size of the register window"),
        (struct.pack("<8sII16s", b"GRAMCAP1", 4, 0, b"v3d42"), "number of interrupt lines"),
        (struct.pack("<8sII16s", b"GRAMCAP1", 4, 1, b"\xff"), "name of the GPU"),
        (struct.pack("<8sII16s", b"GRAMCAP1", 4, 1, b""), "name of the GPU"),
    ],
)
def test_bad_header(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.cap").write_bytes(data)
    with pytest.raises(CaptureError, match=message):
        read_header(tmp_path / "a.cap")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"none\.cap: No such file"):
        read_header(tmp_path / "none.cap")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    for size in range(0, len(GOOD_FILE), 7):
        with pytest.raises(CaptureError, match="cut off"):
            read(tmp_path / "a.cap", GOOD_FILE[:size])


@few(40, 300, deadline=None)
@given(st.integers(0, len(GOOD_FILE) * 8 - 1))
def test_flipped_bits_never_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    data = bytearray(GOOD_FILE)
    data[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("capture") / "a.cap"
    with contextlib.suppress(CaptureError):
        assert isinstance(read(path, bytes(data))[-1], End)
