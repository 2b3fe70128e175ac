# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for the core with a nano driver: scenes of records (c/core.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from trace_format import profile
from trace_format.actions import Op
from trace_format.operators import Operator
from trace_format.schema import DType, SlotKind


class Kind(IntEnum):
    """Kinds of records of c/core.h; a profile has one of the last two."""

    NUMBER, SLOT, ACTION, EDIT, REGISTER, STEP, NETWORK = range(7)
    PIECE = NETWORK


class Number(IntEnum):
    """Numbers of c/core.h."""

    (
        CARVEOUT_PAGES,
        VA_PAGES,
        IMAGE_BYTES,
        TIME_BUDGET,
        RETRIES,
        CHUNK_BITS,
        CODECS,
        IMAGE_PARTS,
        OPTIONAL_PARTS,
        SECURITY_VERSION,
        MIN_SECURITY_VERSION,
        CORE_MASK,
        DEVICE_PAGES,
        CLOCK_START,
        CLOCK_STEP,
        READ_FAILS_AT,
        HASH_FAILS_AT,
        VERDICT_BAD_AT,
        IRQ_PATTERN,
        EXTRA_BYTES,
        ENCRYPTED,
        CHANGES_AT,
    ) = range(22)


def record(kind: Kind, what: int, data: bytes, how: int = 0, more: int = 0) -> bytes:
    """A record of c/core.h."""
    return struct.pack("<4B16s", kind, how, what, more, data)


def number(which: Number, value: int) -> bytes:
    """Set a number."""
    return record(Kind.NUMBER, which, struct.pack("<Q", value))


def slot(kind: int, address: int, flags: int = 0) -> bytes:
    """A slot of 3 x 5 floats."""
    return record(Kind.SLOT, kind - 1, struct.pack("<BBI6B", 1, 0, address, 3, 5, 0, 0, 0, 0), flags)


def raw(op: Op, flags: int = 0, arg: int = 0, value: int = 0, a: int = 0, b: int = 0) -> bytes:
    """An action as it is."""
    return record(Kind.ACTION, 0, struct.pack("<BBHIII", op, flags, arg, value, a, b), how=1)


JOB, REPEATED = record(Kind.ACTION, 0xF0, b""), record(Kind.ACTION, 0xF1, b"")
START = raw(Op.REPLAY_START)


def step(what: int, which: int = 0xFFFF, claimed: int = 0, how: int = 0) -> bytes:
    """The caller: 0 binds all, 1 some, 2 runs."""
    return record(Kind.STEP, what, struct.pack("<Q", which) + struct.pack("<Q", claimed), how)


def reads_as(offset: int, value: int, mode: int = 0) -> bytes:
    """A register reads as a value (0), with bits flipped (1), so now and then (2), or later (3)."""
    return record(Kind.REGISTER, mode, struct.pack("<IIH", offset, value, 40), how=1)


def edit(place: int, at: int, value: int, width: int = 2, how: int = 0, more: int = 0) -> bytes:
    """Overwrite a number of 1 << width bytes: of the header (0), table (1), envelope (2), section n (3 + n)."""
    return record(Kind.EDIT, place, struct.pack("<QQ", at, value), how, more | width)


def encrypted_scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """The same with an encrypted body, and what tampers with the message that says who can read it."""
    on = number(Number.ENCRYPTED, 1)
    every = dict(scenes(gpu))
    for name in (
        "valid",
        "packed",
        "notes",
        "retries",
        "chunk",
        "old",
        "stranger",
        "no-hash",
        "late",
        "section-size",
    ):
        yield name, every[name] + on
    for at in (0, 8, 28, 60, 100):
        yield f"message-{at}", every["valid"] + on + edit(6, at, 0x55, 0)
    yield "no-flag", every["valid"] + on + edit(0, 38, 0)


def piece(
    page: int,
    pages: int,
    first: int,
    last: int,
    early: int = 0,
    flags: int = 0,
    field: int = 0,
    value: int | None = None,
) -> bytes:
    """A piece from a page behind the image on.

    Args:
        page, pages: where, and how many less one.
        first: jobs after the first one of the piece before; last: jobs more; early: jobs before.
        flags: 1 resident, 2 packed.
        field, value: a word of its row, and what that says instead.
    """
    data = struct.pack("<H6BI", page, pages, early, first, last, flags, 0x5A, value or 0)
    return record(Kind.PIECE, field, data, how=value is not None)


def streamed_scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """Four jobs with a resident piece and three others, two of which share a page; and what tampers with them."""
    # Working memory one page later: the page behind the image is the resident piece's.
    data, later = (raw(Op.MAP_GPU_MEM, 3, 0, 4, 8, page) for page in (2, 3))
    on = dict(scenes(gpu))["valid"].replace(data, later)
    found = profile.load(gpu)
    start = "js0.COMMAND_NEXT" if gpu.startswith("mali") else "core0.CSD_QUEUED_CFG0"
    go = raw(Op.REG_WRITE, 0, found.register(start).index, 1, 0xFFFFFFFF)
    more = (JOB + go + raw(Op.WAIT_IRQ, 0, 0, 1000)) * 3
    room = number(Number.CARVEOUT_PAGES, 16)
    stays, first, again = piece(0, 0, 0, 0, flags=3), piece(10, 0, 0, 1), piece(10, 0, 1, 1, flags=2)
    wide = piece(11, 1, 1, 1, early=1, flags=2)
    valid = room + on + more + stays + first + wide + again
    late = number(Number.IRQ_PATTERN, 0xAAAAAAAAAAAAAAAA)
    yield "valid", valid
    yield "one-piece", room + on + first
    yield "again", valid + step(0) + step(2) * 3
    yield "read-ahead", valid + late
    yield "retries", valid + number(Number.RETRIES, 3) + number(Number.IRQ_PATTERN, 0x1000)
    yield "large-chunks", valid + number(Number.CHUNK_BITS, 3)
    yield "no-image", valid + number(Number.IMAGE_PARTS, 0)
    yield "optional", valid + number(Number.OPTIONAL_PARTS, 2)
    for nth in (1, 2, 4, 6):
        yield f"changes-{nth}", valid + step(0) + step(2) * 3 + number(Number.CHANGES_AT, nth)
        yield f"no-read-{nth}", valid + number(Number.READ_FAILS_AT, 8 + nth)
    yield "slow", valid + number(Number.TIME_BUDGET, 200) + number(Number.CLOCK_STEP, 9)
    yield "overlap", room + on + more + stays + piece(10, 0, 0, 3) + again
    yield "resident-written", valid + raw(Op.MAP_GPU_MEM, 3, 0, 1, 20, 2)
    yield "resident-cleared", valid + raw(Op.CLEAR, 0, 0, 64, 2 * 4096)
    # Words of a row: offset, its upper half, stored bytes, bytes, page, from, first, last job, codec and flags.
    for field, value in (
        (0, 4096),
        (1, 1),
        (2, 8),
        (2, 1 << 31),
        (3, 0),
        (3, 100),
        (3, 1 << 30),
        (4, 0),
        (4, 16),
        (4, 1 << 31),
    ):
        yield f"word-{field}-{value:x}", room + on + more + stays + piece(10, 0, 0, 1, field=field, value=value)
    for field, value in ((5, 9), (6, 9), (7, 9), (7, 0xFFFFFFFF), (8, 2), (8, 0x300), (8, 1 << 16), (9, 1)):
        yield f"word-{field}-{value:x}", room + on + more + stays + piece(10, 0, 0, 1, field=field, value=value)


def computing_scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """Operators that copy from the image to working memory, and to where they must not."""
    mali = gpu.startswith("mali")
    pages = raw(Op.MAP_GPU_MEM, 5 if mali else 1, 0, 2, 0, 0) + raw(Op.MAP_GPU_MEM, 3, 0, 4, 8, 2)

    def whole(kind: SlotKind, address: int, name: int, flags: int = 1) -> bytes:
        """A slot of eight words, as it is."""
        data = struct.pack("<BBI6B3xB", 1, 0, address, 8, 1, 1, 0, 0, 0, name)
        return record(Kind.SLOT, kind, data, flags, DType.UINT32)

    def copies(to: int, source: int, operator: int = Operator.COPY, operands: int = 2, first: int = 0) -> bytes:
        """To an output, from the image as an internal slot with a recorded value."""
        slots = whole(SlotKind.OUTPUT, to, 0) + whole(SlotKind.INTERNAL, source, 1, 3)
        operate = raw(Op.OPERATE, 0, first, operator, operands)
        return slots + pages + raw(Op.SET_GPU_PGTABLE) + START + operate + raw(Op.COPY_FROM_GPU)

    valid = copies(8 * 4096, 64)
    yield "valid", valid
    yield "again", valid + step(0) + step(2) * 3
    yield "into-the-image", copies(1024, 64)
    yield "not-mapped", copies(64 * 4096, 64)
    yield "over-the-end", copies(12 * 4096 - 8, 64)
    yield "overlap", copies(8 * 4096, 8 * 4096 + 16)
    yield "one-operand", copies(8 * 4096, 64, operands=1)
    yield "no-slot", copies(8 * 4096, 64, first=1)
    for operator in (0, Operator.DENSE, 99):
        yield f"operator-{int(operator)}", copies(8 * 4096, 64, operator)


def scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """For the core with a nano driver. The image has two pages; after it, to page 7, is working memory."""
    found = profile.load(gpu)

    def index(name: str) -> int:
        return found.register(name).index

    mali = gpu.startswith("mali")
    first, start, status = (
        ("gpu.IRQ_MASK", "js0.COMMAND_NEXT", "mmu.IRQ_RAWSTAT")
        if mali
        else ("core0.INT_CLR", "core0.CSD_QUEUED_CFG0", "hub.MMU_CTL")
    )
    code = raw(Op.MAP_GPU_MEM, 5 if mali else 1, 0, 2, 0, 0)
    data = raw(Op.MAP_GPU_MEM, 3, 0, 4, 8, 2)
    harmless = raw(Op.REG_WRITE, 0, index(first), 1, 0xFFFFFFFF)
    go = raw(Op.REG_WRITE, 0, index(start), 1, 0xFFFFFFFF)
    wait = raw(Op.WAIT_IRQ, 0, 0, 1000)
    slots = slot(1, 8 * 4096) + slot(2, 8 * 4096 + 256) + slot(3, 9 * 4096)
    valid = slots + code + data + raw(Op.SET_GPU_PGTABLE) + raw(Op.UPLOAD, 0, 0, 64, 4 * 4096, 8)
    valid += raw(Op.COPY_TO_GPU, 0, 2) + START + raw(Op.COPY_TO_GPU) + JOB + harmless + go + wait
    valid += raw(Op.REG_READ_KEEP, 0, found.identity.index, 0, 0, 3) + raw(Op.INTERVAL, 0, 0, 9)
    valid += raw(Op.COPY_FROM_GPU, 0, 1)
    yield "valid", valid
    yield "packed", valid + number(Number.CODECS, 0xFF) + number(Number.IMAGE_PARTS, 2)
    yield "notes", valid + number(Number.OPTIONAL_PARTS, 1) + number(Number.IMAGE_BYTES, 19999)
    yield "retries", valid + number(Number.RETRIES, 3) + number(Number.IRQ_PATTERN, 0x10)
    yield "no-retries", valid + number(Number.IRQ_PATTERN, 0)
    yield "steps", valid + step(2) + step(1, 1, 60, 2) + step(0) + step(2) + step(1) + step(2)
    yield "fault", valid + number(Number.RETRIES, 2) + reads_as(found.register(status).offset, 0x08101000, 3)
    yield "kept", data + raw(Op.REG_WRITE_KEPT, 0, index(first), 0, 0, 3)
    yield "partial", data + raw(Op.REG_WRITE, 0, index(first), 1, 0xFF)
    yield "unmap", data + raw(Op.UNMAP_GPU_MEM, 0, 0, 2, 9) + raw(Op.CLEAR, 0, 0, 400, 3 * 4096)
    # hostile, and signed
    yield "image-writable", raw(Op.MAP_GPU_MEM, 3, 0, 1, 0, 1)
    yield "image-end-writable", raw(Op.MAP_GPU_MEM, 3, 0, 3, 0, 1)
    yield "outside", raw(Op.MAP_GPU_MEM, 1, 0, 4, 0, 7)
    yield "just-outside", raw(Op.MAP_GPU_MEM, 1, 0, 1, 0, 8)
    yield "far-outside", raw(Op.MAP_GPU_MEM, 1, 0, 0xFFFFFFFF, 0, 0xFFFFFFFF)
    yield "execute-data", raw(Op.MAP_GPU_MEM, 5, 0, 3, 0, 1)
    yield "above", raw(Op.MAP_GPU_MEM, 1, 0, 8, 60 if not mali else 0xFFFFC, 2)
    yield "upload-image", raw(Op.UPLOAD, 0, 0, 64, 5000, 8)
    yield "upload-beyond", raw(Op.UPLOAD, 0, 0, 64, 4 * 4096, 4980)
    yield "clear-tables", raw(Op.CLEAR, 0, 0, 4096, 8 * 4096 - 8)
    yield "slot-in-image", slot(1, 0) + slot(2, 0) + code + raw(Op.COPY_TO_GPU) + raw(Op.COPY_FROM_GPU, 0, 1)
    yield (
        "kept-bits",
        data
        + reads_as(found.identity.offset, found.identity_value)
        + raw(Op.REG_READ_KEEP, 0, index(status), 0, 0, 1)
        + reads_as(found.register(status).offset, 0xFFFFFFFF)
        + raw(Op.REG_WRITE_KEPT, 0, index(first), 0, 0, 1),
    )
    yield "line", raw(Op.WAIT_IRQ, 0, len(found.interrupts), 1)
    yield "keep", raw(Op.REG_READ_KEEP, 0, found.identity.index, 0, 0, 8)
    driven = sorted(r.index for r in found.registers.values() if r.driver)
    yield "driver-register", raw(Op.REG_WRITE, 0, driven[0], 0x123, 0xFFFFFFFF)
    yield "no-register", raw(Op.REG_WRITE, 0, 0xFFFF, 0x123, 0xFFFFFFFF)
    if mali:
        yield (
            "block",
            number(Number.CARVEOUT_PAGES, 1030)
            + number(Number.DEVICE_PAGES, 1150)
            + raw(Op.MAP_GPU_MEM, 3, 1, 512, 512, 512)
            + raw(Op.UNMAP_GPU_MEM, 0, 1, 3, 700)
            + raw(Op.MAP_GPU_MEM, 3, 15, 1, 0, 2),
        )
        idle = raw(Op.REG_WRITE, 0, index("as0.COMMAND"), 1, 0xFFFFFFFF)
        yield "idle", data + idle
        yield "busy", data + reads_as(found.register("js0.STATUS").offset, 8, 3) + idle
    else:
        ctl = index("hub.MMU_CTL")
        yield "mmu-off", data + raw(Op.REG_WRITE, 0, ctl, 0, 0xFFFFFFFF)
        yield "mmu-off-partly", data + raw(Op.REG_WRITE, 0, ctl, 0, 1)
        cfg5 = index("core0.CSD_QUEUED_CFG5")
        yield "code-in-data", data + raw(Op.REG_WRITE, 0, cfg5, 8 * 4096, 0xFFFFFFFF) + go
        yield "code-in-image", code + raw(Op.REG_WRITE, 0, cfg5, 0, 0xFFFFFFFF) + go
    for name, which, value in (
        ("old", Number.MIN_SECURITY_VERSION, 1),
        ("stranger", Number.VERDICT_BAD_AT, 1),
        ("accepts-all", Number.VERDICT_BAD_AT, 2),
        ("stranger-again", Number.VERDICT_BAD_AT, 3),
        ("no-hash", Number.HASH_FAILS_AT, 3),
        ("no-read", Number.READ_FAILS_AT, 3),
        ("little-memory", Number.DEVICE_PAGES, 9),
        ("cores", Number.CORE_MASK, 1 << 40),
        ("longer", Number.EXTRA_BYTES, 8),
        ("late", Number.TIME_BUDGET, 5),
    ):
        yield name, valid + number(which, value)
    yield "chunk", valid + edit(7, 4, 0x55, 0, how=2)
    yield "section-size", valid + edit(1, 3 * 32 + 24, 16, 3, more=4)
    yield "manifest", valid + edit(3, 152, 0xFFFFFFFFFFFFF000, 3)
    yield "slot-reserved", valid + edit(4, 100, 1, 0)
