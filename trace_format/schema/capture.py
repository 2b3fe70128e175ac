# SPDX-License-Identifier: BSD-2-Clause
"""The capture: what the recorder in the device writes of all that passes between a GPU and its driver."""

from __future__ import annotations

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Described, Format, Nested, Reserved, Text, numbers, u32, u64

CAPTURE_MAGIC = b"GRAMCAP1"
CAPTURE_ALIGNMENT = 16  # of records
CAPTURE_PAGE_BYTES = 4096
CAPTURE_PAGES = 1 << 20  # a GPU address has 32 bits
CAPTURE_JOB_KINDS = 3
CAPTURE_REGISTERS = 96  # of a queue of command streams
CAPTURE_MAPPING_READABLE = 1
CAPTURE_MAPPING_WRITABLE = 2
CAPTURE_MAPPING_EXECUTABLE = 16


class RecordKind(Described):
    """What a record says."""

    READ = 1, "a register was read"
    WRITE = 2, "a register was written"
    INTERRUPT = 3, "an interrupt line changed its level, to 0 or 1"
    JOB_START = 4, "a job is about to run; kind 0 compute, 1 bin list, 2 render list; ordinals count from 1"
    JOB_END = 5, "the job has stopped touching memory (it may have failed)"
    IDLE = 6, "time that does not fit the delta of the record that follows, which is 0; so is this one's"
    MAP = 7, "GPU pages are now at this physical address and up"
    UNMAP = 8, "GPU pages are no longer mapped"
    ZERO_PAGES = 9, "content of GPU pages: all zero"
    NEW_PAGE = 10, "content of a GPU page, seen for the first time; ids count up from 0"
    KNOWN_PAGE = 11, "content of a GPU page: that of an earlier NEW_PAGE"
    BYTES = 12, "what the CPU changed inside one mapped page"
    END = 13, "the last record; flags bit 0: the GPU had stopped with an error"
    CALL = (
        14,
        "the job that starts next is a call of a command stream, or the rest of one; it finds these registers",
    )


# kind -> (what `a` is, what `b` is, data that follows the record)
RECORD_FIELDS: dict[RecordKind, tuple[str, str, str]] = {
    RecordKind.READ: ("window offset", "value", ""),
    RecordKind.WRITE: ("window offset", "value", ""),
    RecordKind.INTERRUPT: ("line", "level", ""),
    RecordKind.JOB_START: ("job kind", "ordinal", ""),
    RecordKind.JOB_END: ("job kind", "ordinal", ""),
    RecordKind.IDLE: ("nanoseconds, low", "nanoseconds, high", ""),
    RecordKind.MAP: ("GPU page", "pages", "`capture_mapping`"),
    RecordKind.UNMAP: ("GPU page", "pages", ""),
    RecordKind.ZERO_PAGES: ("GPU page", "pages", ""),
    RecordKind.NEW_PAGE: ("GPU page", "content id", "4096 bytes"),
    RecordKind.KNOWN_PAGE: ("GPU page", "content id", ""),
    RecordKind.BYTES: ("GPU address", "length", "`length` bytes, then zeros up to a multiple of 16"),
    RecordKind.CALL: ("GPU address, low", "GPU address, high", "`capture_call`"),
    RecordKind.END: ("flags", "0", "`capture_end`"),
}

Counters = Struct(
    "reads" / u64 * "register reads",
    "writes" / u64 * "register writes",
    "interrupts" / u64 * "rising edges on any line",
    "jobs" / u64 * "compute jobs completed",
    "list_jobs" / u64 * "bin and render lists completed",
    "instructions" / u64 * "shader instructions executed (one = one instruction word of one thread)",
    "bytes_read" / u64 * "by shaders, through the MMU",
    "bytes_written" / u64 * "by shaders, through the MMU",
    "faults" / u64 * "MMU faults raised",
    "resets" / u64 * "resets",
)

Header = Struct(
    "magic" / Const(CAPTURE_MAGIC) * "file magic",
    "window_bytes" / u32 * "size of the GPU's register window",
    "interrupt_lines" / u32 * "number of interrupt lines",
    "gpu" / Text(16) * "name of the GPU: its profile's, with a variant after a dash; printable ASCII",
)

Record = Struct(
    "kind" / u32 * "RecordKind",
    "delta" / u32 * "virtual nanoseconds since the record before",
    "a" / u32 * "by kind",
    "b" / u32 * "by kind",
)

Mapping = Struct(
    "address" / u64 * "physical address, a multiple of 4096",
    "flags" / u32 * "1: readable, always set; 2: writable; 16: executable",
    "reserved" / Reserved(4) * "zero",
)

Call = Struct(
    "bytes" / u32 * "length of the stream",
    "queue" / u32 * "that calls it",
    "is_rest" / u32 * "1: the queue's call before ended at a wait, and goes on here; else 0",
    "registers" / Blob(4 * CAPTURE_REGISTERS) * "of the queue: a u32 each",
    "reserved" / Reserved(4) * "zero",
)

End = Struct(
    "records" / u64 * "records before this one",
    "counters" / Nested("vgpu_counters", Counters) * "of the virtual GPU",
    "reserved" / Reserved(8) * "zero",
)

COUNTERS = Format(
    "counters",
    "the virtual GPU's counters",
    {"vgpu_counters": (Counters, "what a virtual GPU has done since its creation")},
    prefix="",
    listed=("vgpu_counters",),
)
CAPTURE = Format(
    "capture",
    "the capture file",
    {
        "capture_header": (Header, "start of a capture"),
        "capture_record": (Record, "a record; data follows some"),
        "capture_mapping": (Mapping, "data of a MAP record"),
        "capture_call": (Call, "data of a CALL record"),
        "capture_end": (End, "data of the END record"),
    },
    (RecordKind,),
    numbers(vars()),
    includes=("gramophone_counters.h",),
)
