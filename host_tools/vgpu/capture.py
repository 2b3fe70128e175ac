# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures: what the recorder in the device wrote (docs/FORMAT-CAPTURE.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trace_format.errors import TraceError
from trace_format.files import open_regular
from trace_format.packing import Row
from trace_format.schema.capture import (
    CAPTURE_ALIGNMENT,
    CAPTURE_JOB_KINDS,
    CAPTURE_MAGIC,
    CAPTURE_MAPPING_EXECUTABLE,
    CAPTURE_MAPPING_READABLE,
    CAPTURE_MAPPING_WRITABLE,
    CAPTURE_PAGE_BYTES,
    CAPTURE_PAGES,
    CAPTURE_REGISTERS,
    RecordKind,
)

_HEADER, _RECORD = Row("capture_header"), Row("capture_record")
_MAPPING, _CALL, _END = Row("capture_mapping"), Row("capture_call"), Row("capture_end")
_COUNTERS = Row("vgpu_counters")


class CaptureError(TraceError):
    """A file that is not a capture, or a capture that is damaged or was cut off."""


@dataclass(frozen=True)
class Header:
    """What a capture begins with."""

    gpu: str
    window_bytes: int
    interrupt_lines: int


@dataclass(frozen=True)
class Event:
    """Base of all events. delta_ns: virtual time since the event before, in nanoseconds."""

    delta_ns: int


@dataclass(frozen=True)
class Read(Event):
    """A register read; offset in the register window, in bytes."""

    offset: int
    value: int


@dataclass(frozen=True)
class Write(Event):
    """A register write; offset in the register window, in bytes."""

    offset: int
    value: int


@dataclass(frozen=True)
class Interrupt(Event):
    """An interrupt line changed its level."""

    line: int
    level: bool


@dataclass(frozen=True)
class JobStart(Event):
    """A job (kind 0 compute, 1 bin list, 2 render list) is about to run; ordinals count from 1."""

    kind: int
    ordinal: int


@dataclass(frozen=True)
class JobEnd(Event):
    """A job has stopped touching memory."""

    kind: int
    ordinal: int


@dataclass(frozen=True)
class Map(Event):
    """GPU pages [page, page + pages) are now at physical address pa and up."""

    page: int
    pages: int
    pa: int
    writable: bool
    executable: bool


@dataclass(frozen=True)
class Unmap(Event):
    """GPU pages that are no longer mapped."""

    page: int
    pages: int


@dataclass(frozen=True)
class ZeroPages(Event):
    """GPU pages whose content is all zero."""

    page: int
    pages: int


@dataclass(frozen=True)
class NewPage(Event):
    """Content of a GPU page, seen for the first time."""

    page: int
    content: int
    data: bytes


@dataclass(frozen=True)
class KnownPage(Event):
    """Content of a GPU page: that of an earlier NewPage."""

    page: int
    content: int


@dataclass(frozen=True)
class Bytes(Event):
    """What the CPU changed inside one mapped page, by GPU address."""

    va: int
    data: bytes


@dataclass(frozen=True)
class Call(Event):
    """The job that starts next is a call of a command stream, or the rest of one that has waited.

    Attributes:
        va, bytes: GPU address of the stream, or of where it goes on; how much there is from there.
        queue: that calls it.
        is_rest: the queue's call before ended at a wait, and goes on here.
        registers: as it finds them.
    """

    va: int
    bytes: int
    queue: int
    is_rest: bool
    registers: tuple[int, ...]


@dataclass(frozen=True)
class End(Event):
    """The last event. failed: the GPU had stopped with an error; counters by name as in `vgpu_counters`."""

    failed: bool
    counters: dict[str, int]


def read_header(path: Path) -> Header:
    """Reads the header of a capture.

    Raises:
        CaptureError: not a capture, or cut off.
    """
    with _open(path) as file:
        return _Reader(path, file).header


def read_capture(path: Path) -> Iterator[Event]:
    """Reads the events of a capture in order; the last one is End.

    Raises:
        CaptureError: anything that a recorder cannot have written, named by its offset in the file.
    """
    for _, event in read_records(path):
        yield event


def read_records(path: Path) -> Iterator[tuple[int, Event]]:
    """As `read_capture`; with each event the offset in the file, in bytes, at which its record begins."""
    with _open(path) as file:
        reader = _Reader(path, file)
        for event in reader.events():
            yield reader.offset, event


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise CaptureError(error.strerror or "cannot be opened", file=str(path)) from error


class _Reader:
    """State of one pass over a capture."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.offset = 0  # of the record being read
        self.position = 0
        self.records = 0
        self.contents = 0
        self.ordinal = 0
        self.called = False  # a call came whose job has not started
        self.running: int | None = None  # kind of the job that started last, until it ends
        self.mapped = np.zeros(CAPTURE_PAGES, bool)
        self.header = self._header()
        self.levels = [False] * self.header.interrupt_lines

    def fail(self, what: str, expected: object = None, found: object = None) -> CaptureError:
        return CaptureError(what, file=str(self.path), offset=self.offset, expected=expected, found=found)

    def require(self, good: bool, what: str, expected: object, found: object) -> None:
        if not good:
            raise self.fail(what, expected, found)

    def take(self, count: int, what: str) -> bytes:
        data = self.file.read(count)
        self.position += len(data)
        if len(data) != count:
            raise self.fail(f"the capture was cut off in {what}", f"{count} bytes", len(data))
        return data

    def _row(self, row: Row, what: str) -> Any:
        return row.unpack(self.take(row.size, what))

    def _header(self) -> Header:
        found = self._row(_HEADER, "its header")
        window, lines, name = found.window_bytes, found.interrupt_lines, found.gpu
        self.require(found.magic == CAPTURE_MAGIC, "not a capture: magic", CAPTURE_MAGIC, found.magic)
        text = name.rstrip(b"\0")
        good_name = text.isascii() and text.decode("ascii", "replace").isprintable() and text != b""
        self.require(good_name, "name of the GPU", "printable ASCII", name)
        self.require(window % 4 == 0 and 0 < window <= 1 << 24, "size of the register window", "words", window)
        self.require(0 < lines <= 32, "number of interrupt lines", "1 to 32", lines)
        return Header(text.decode(), window, lines)

    def events(self) -> Iterator[Event]:
        while True:
            event = self._next()
            yield event
            if isinstance(event, End):
                return

    def _next(self) -> Event:
        self.offset = self.position
        record = self._row(_RECORD, "a record (no end record)")
        delta = record.delta
        if record.kind == RecordKind.IDLE:
            idle = record.a | record.b << 32
            good = delta == 0 and record.b != 0
            self.require(good, "idle record", "delta 0 and more than 32 bits", (delta, idle))
            self.records += 1
            self.offset = self.position
            record = self._row(_RECORD, "a record (no end record)")
            good = record.delta == 0 and record.kind not in (RecordKind.IDLE, RecordKind.END)
            self.require(good, "record after idle", "an event with delta 0", (record.kind, record.delta))
            delta = idle
        parse = _PARSERS.get(record.kind)
        if parse is None:
            raise self.fail("kind of record", f"1 to {max(RecordKind)}", record.kind)
        event = parse(self, delta, record.a, record.b)
        self.records += 1
        return event

    def _register(self, offset: int) -> None:
        good = offset % 4 == 0 and offset < self.header.window_bytes
        self.require(good, "register offset", f"a word below {self.header.window_bytes:#x}", f"{offset:#x}")

    def _read(self, delta: int, a: int, b: int) -> Read:
        self._register(a)
        return Read(delta, a, b)

    def _write(self, delta: int, a: int, b: int) -> Write:
        self._register(a)
        return Write(delta, a, b)

    def _interrupt(self, delta: int, a: int, b: int) -> Interrupt:
        self.require(a < len(self.levels), "interrupt line", f"below {len(self.levels)}", a)
        self.require(b == (not self.levels[a]), "interrupt level", int(not self.levels[a]), b)
        self.levels[a] = bool(b)
        return Interrupt(delta, a, bool(b))

    def _job_start(self, delta: int, a: int, b: int) -> JobStart:
        self.require(a < CAPTURE_JOB_KINDS, "job kind", f"below {CAPTURE_JOB_KINDS}", a)
        self.require(b == self.ordinal + 1, "job ordinal", self.ordinal + 1, b)
        found = f"job {self.ordinal} still running"
        self.require(self.running is None, "start of a job", "the end of the one before", found)
        self.ordinal, self.running, self.called = b, a, False
        return JobStart(delta, a, b)

    def _call(self, delta: int, a: int, b: int) -> Call:
        found = self._row(_CALL, "a call")
        va, size = a | b << 32, found.bytes
        good = not self.called and not any(found.reserved) and found.is_rest <= 1
        self.require(good, "a call", "one for each job, then zeros", (self.called, found.reserved.hex()))
        self.require(va % 8 == size % 8 == 0 and size > 0, "a command stream", "whole instructions", (va, size))
        self.called = True
        registers = struct.unpack(f"<{CAPTURE_REGISTERS}I", found.registers)
        return Call(delta, va, size, found.queue, bool(found.is_rest), registers)

    def _job_end(self, delta: int, a: int, b: int) -> JobEnd:
        self.require((a, b) == (self.running, self.ordinal), "end of job", (self.running, self.ordinal), (a, b))
        self.running = None
        return JobEnd(delta, a, b)

    def _pages(self, page: int, pages: int) -> slice:
        good = pages > 0 and page + pages <= CAPTURE_PAGES
        self.require(good, "run of pages", f"1 or more, below {CAPTURE_PAGES:#x}", (page, pages))
        return slice(page, page + pages)

    def _mapped(self, page: int, pages: int) -> None:
        good = bool(self.mapped[self._pages(page, pages)].all())
        self.require(good, "run of pages", "mapped ones", (page, pages))

    def _map(self, delta: int, a: int, b: int) -> Map:
        run = self._pages(a, b)
        found = self._row(_MAPPING, "a mapping")
        pa, flags = found.address, found.flags
        self.require(pa % CAPTURE_PAGE_BYTES == 0, "physical address", "a multiple of 4096", pa)
        optional = CAPTURE_MAPPING_WRITABLE | CAPTURE_MAPPING_EXECUTABLE
        good = flags & ~optional == CAPTURE_MAPPING_READABLE and not any(found.reserved)
        self.require(good, "flags of a mapping", "1 and of 2 and 16 any, then 0", (flags, found.reserved.hex()))
        self.mapped[run] = True
        writable, executable = flags & CAPTURE_MAPPING_WRITABLE, flags & CAPTURE_MAPPING_EXECUTABLE
        return Map(delta, a, b, pa, bool(writable), bool(executable))

    def _unmap(self, delta: int, a: int, b: int) -> Unmap:
        self._mapped(a, b)
        self.mapped[a : a + b] = False
        return Unmap(delta, a, b)

    def _zero_pages(self, delta: int, a: int, b: int) -> ZeroPages:
        self._mapped(a, b)
        return ZeroPages(delta, a, b)

    def _new_page(self, delta: int, a: int, b: int) -> NewPage:
        self._mapped(a, 1)
        self.require(b == self.contents, "content id", self.contents, b)
        self.contents += 1
        return NewPage(delta, a, b, self.take(CAPTURE_PAGE_BYTES, "the content of a page"))

    def _known_page(self, delta: int, a: int, b: int) -> KnownPage:
        self._mapped(a, 1)
        self.require(b < self.contents, "content id", f"below {self.contents}", b)
        return KnownPage(delta, a, b)

    def _bytes(self, delta: int, a: int, b: int) -> Bytes:
        good = b > 0 and a % CAPTURE_PAGE_BYTES + b <= CAPTURE_PAGE_BYTES
        self.require(good, "changed bytes", "a range inside one page", (a, b))
        self._mapped(a // CAPTURE_PAGE_BYTES, 1)
        data = self.take(b, "changed bytes")
        padding = self.take(-b % CAPTURE_ALIGNMENT, "changed bytes")
        self.require(not any(padding), "padding", "zeros", padding)
        return Bytes(delta, a, data)

    def _end(self, delta: int, a: int, b: int) -> End:
        found = self._row(_END, "the end record")
        good = a <= 1 and (delta, b) == (0, 0) and not any(found.reserved)
        self.require(good, "end record", "flags 0 or 1, zeros", (delta, a, b, found.reserved.hex()))
        self.require(found.records == self.records, "number of records", self.records, found.records)
        self.require(not self.file.read(1), "end of file", "nothing after the end record", "more bytes")
        return End(delta, bool(a), _COUNTERS.unpack(found.counters)._asdict())


_PARSERS: dict[int, Callable[[_Reader, int, int, int], Event]] = {
    RecordKind.READ: _Reader._read,
    RecordKind.WRITE: _Reader._write,
    RecordKind.INTERRUPT: _Reader._interrupt,
    RecordKind.JOB_START: _Reader._job_start,
    RecordKind.JOB_END: _Reader._job_end,
    RecordKind.MAP: _Reader._map,
    RecordKind.UNMAP: _Reader._unmap,
    RecordKind.ZERO_PAGES: _Reader._zero_pages,
    RecordKind.NEW_PAGE: _Reader._new_page,
    RecordKind.KNOWN_PAGE: _Reader._known_page,
    RecordKind.BYTES: _Reader._bytes,
    RecordKind.CALL: _Reader._call,
    RecordKind.END: _Reader._end,
}
