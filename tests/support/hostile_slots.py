# SPDX-License-Identifier: BSD-2-Clause
"""Hostile slots."""

from __future__ import annotations

from tests.support import replayer_samples as s
from tests.support.hostile_rows import HUGE, Edit, OfDevice, OfHost, Unseen, good, resectioned, rows
from tests.support.replayer_samples import PAGE, Parts
from trace_format import errors
from trace_format.schema import DType, SectionType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

BAD, RESERVED = errors.SlotError, errors.ReservedError


def slot(name: str, host: OfHost, *fields: tuple[str, int], index: int = 0) -> tuple[str, Edit, OfDevice, OfHost]:
    """A row with other fields of a slot."""

    def edit(parts: Parts) -> Parts:
        for field, value in fields:
            parts.slot(index, field, value)
        return parts

    return name, edit, "SLOTS", host


def many(parts: Parts) -> Parts:
    """257 slots."""
    at = parts.section(SectionType.SLOTS)[1]
    one = bytes(parts.data[at : at + 128])
    raw = b"".join(f"s{i}".encode().ljust(32, b"\0") + one[32:] for i in range(257))
    found = resectioned(good(), lambda body: None, slots=raw)
    return found.manifest("slot_count", 257)


def overlapping() -> Trace:
    """A trace whose input is a tensor of 4 GiB, the most there can be; its elements lie over each other."""
    large = Slot("in", SlotKind.INPUT, DType.FLOAT32, (1 << 15, 1 << 15), (4, 4), 0, bound=True)
    return good(va_bytes=1 << 20, slots=[large, s.slots()[1]])


ROWS = rows(
    [
        slot("a slot with too many dimensions", BAD, ("rank", 7)),
        slot("a slot of no dimension", BAD, ("rank", 0)),
        slot("a slot of 255 dimensions", BAD, ("rank", 255)),
        slot("a slot of unknown type", BAD, ("dtype", 9)),
        slot("a slot of type zero", BAD, ("dtype", 0)),
        slot("a slot of unknown kind", BAD, ("kind", 5)),
        slot("a slot of kind zero", BAD, ("kind", 0)),
        slot("a slot with unknown flags", RESERVED, ("flags", 3)),
        slot("a slot with the last flag", RESERVED, ("flags", 0x80)),
        slot("a slot in another address space", BAD, ("address_space", 1)),
        slot("a slot in an address space far away", BAD, ("address_space", 0x100)),
        slot("a slot beyond the virtual pages", BAD, ("address", 1 << 40)),
        slot("a slot that ends beyond the virtual pages", BAD, ("address", 32 * PAGE - 64)),
        slot("a slot at the end of all addresses", BAD, ("address", (1 << 64) - 4)),
        slot("a slot at half an element", BAD, ("address", (s.VA + 1) * PAGE + 2)),
        slot("a slot with a row beyond the virtual pages", BAD, ("strides", 4 << 32 | 0x7FFFFFFC)),
        slot(
            "a slot with strides that wrap around",
            BAD,
            ("strides", HUGE - 3 << 32 | HUGE - 3),
            ("dims", 3 << 32 | 1 << 29),
        ),
        slot("a slot with strides of zero", BAD, ("strides", 0)),
        slot("a slot with a row that overlaps itself", BAD, ("strides", 4 << 32)),
        slot("a slot with strides of half an element", BAD, ("strides", 4 << 32 | 66)),
        slot("a slot with reserved bytes", RESERVED, ("reserved2", 1)),
        slot("a slot with the other reserved bytes", RESERVED, ("reserved", 1)),
        slot("a slot with a dimension that it does not use", RESERVED, ("rank", 1)),
        slot("a slot without a name", errors.DuplicateSlotError, ("name", 0)),
        slot("a slot of another one's name", errors.DuplicateSlotError, ("name", 0x6E69), index=1),
        slot("a slot with bytes after its name", RESERVED, ("name", 0x69006E69)),
        slot("a slot of no elements", BAD, ("dims", 0), index=1),
        slot("a slot of very many elements", BAD, ("dims", HUGE << 32 | HUGE), index=1),
        ("257 slots", many, "SLOTS", BAD),
        (
            "a slot whose name is no text",
            lambda p: p.slot(0, "name", 0xFFFE),
            Unseen("it only names something"),
            RESERVED,
        ),
    ]
)

ROWS += rows(
    [
        (
            "a slot of more than 4 GiB in little memory",
            lambda p: p.slot(0, "dims", 1 << 15 | (1 << 15) + 1 << 32),
            "SLOTS",
            BAD,
        ),
    ],
    overlapping,
)
