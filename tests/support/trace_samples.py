# SPDX-License-Identifier: BSD-2-Clause
"""Random structures and random valid traces, and ways to damage a trace's bytes."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trace_format import packing, profile
from trace_format.actions import ACTION_DTYPE, ACTIONS, FLAG_IGNORE, MAP_WRITE, Action, Op, Type, action
from trace_format.operators import Operator
from trace_format.schema import (
    DTYPE_BYTES,
    KEEP_SLOTS,
    MAX_TIME_BUDGET_US,
    PAGE_BYTES,
    Blob,
    DType,
    Header,
    List,
    Nested,
    Reserved,
    Section,
    SectionType,
    SlotKind,
    Text,
)
from trace_format.slots import Slot
from trace_format.trace import Trace

CARVEOUT = 16 * PAGE_BYTES
VA_BYTES = 64 * PAGE_BYTES
WINDOW = profile.load("v3d42").window_bytes


def texts(size: int) -> st.SearchStrategy[str]:
    """Texts of at most `size` bytes of UTF-8, without NUL."""
    letters = st.characters(codec="utf-8", exclude_characters="\0")
    return st.text(letters, max_size=size).filter(lambda text: len(text.encode()) <= size)


def structures(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Values of the fields of a structure, as `packing.pack` takes them."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for item in packing.shape_of(name).subcons:
        kind = packing.kind_of(item)
        if isinstance(kind, Nested):
            fields[item.name] = structures(kind.structure)
        elif isinstance(kind, Text):
            fields[item.name] = texts(kind.size)
        elif isinstance(kind, Blob):
            fields[item.name] = st.binary(min_size=kind.size, max_size=kind.size)
        elif isinstance(kind, List):
            limit = (1 << 8 * kind.item.sizeof()) - 1
            fields[item.name] = st.tuples(*[st.integers(0, limit)] * kind.count)
        elif not isinstance(kind, Reserved) and item.name != "magic":
            fields[item.name] = st.integers(0, (1 << 8 * kind.sizeof()) - 1)
    return st.fixed_dictionaries(fields)


@st.composite
def slots(draw: st.DrawFn, name: str) -> Slot:
    """A valid slot."""
    dtype = draw(st.sampled_from(DType))
    size = DTYPE_BYTES[dtype]
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    strides = [size * draw(st.integers(1, 4)) for _ in shape]
    return Slot(
        name,
        draw(st.sampled_from(SlotKind)),
        dtype,
        tuple(shape),
        tuple(strides),
        size * draw(st.integers(0, PAGE_BYTES // size)),
        bound=draw(st.booleans()),
    )


@st.composite
def actions(draw: st.DrawFn, op: Op, image_bytes: int, slot_count: int, spaces: int = 1) -> Action:
    """A valid action; `Job` and `ReplayStart` are left to `traces`."""
    row = ACTIONS[op]
    values = {operand.name: draw(st.integers(0, (1 << operand.bits) - 1)) for operand in row.operands}
    flags = draw(st.sampled_from([0, *row.flags]))
    most = {
        Type.REGISTER_READ: WINDOW // 4,
        Type.REGISTER_WRITTEN: WINDOW // 4,
        Type.KEEP: KEEP_SLOTS,
        Type.LINE: 1,
        Type.SLOT: slot_count,
        Type.ADDRESS_SPACE: spaces,
    }
    for operand in row.operands:
        if operand.type in most:
            values[operand.name] = draw(st.integers(0, most[operand.type] - 1))
        if operand.type is Type.TIMEOUT:
            values[operand.name] = draw(st.integers(1, 0xFFFFFFFF))
    if flags == FLAG_IGNORE and op == Op.REG_READ_ONCE:
        values["mask"] = 0
    if op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM):
        page = values["va_page"] = draw(st.integers(0, VA_BYTES // PAGE_BYTES - 1))
        values["pages"] = draw(st.integers(1, min(VA_BYTES // PAGE_BYTES - page, CARVEOUT // PAGE_BYTES)))
    if op == Op.RUN_STREAM:
        values["stream"] = 8 * draw(st.integers(0, VA_BYTES // 8 - 1))
        values["instructions"] = draw(st.integers(1, VA_BYTES // 8 - values["stream"] // 8))
    image_end = -(-image_bytes // PAGE_BYTES) * PAGE_BYTES
    if op == Op.MAP_GPU_MEM:
        flags = draw(st.integers(1, 7))
        first = image_end // PAGE_BYTES if flags & MAP_WRITE else 0
        values["pages"] = min(values["pages"], CARVEOUT // PAGE_BYTES - first)
        values["frame"] = draw(st.integers(first, CARVEOUT // PAGE_BYTES - values["pages"]))
    if op in (Op.UPLOAD, Op.CLEAR):
        room = CARVEOUT - image_end if op == Op.CLEAR else min(CARVEOUT - image_end, image_bytes)
        values["bytes"] = draw(st.integers(1, room))
        values["target"] = draw(st.integers(image_end, CARVEOUT - values["bytes"]))
    if op == Op.UPLOAD:
        values["source"] = draw(st.integers(0, image_bytes - values["bytes"]))
    return action(op, flags=flags, **values)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A valid trace for the V3D 4.2."""
    image = draw(st.binary(max_size=3 * PAGE_BYTES))
    names = draw(st.lists(texts(32).filter(bool), max_size=4, unique=True))
    found = [draw(slots(name)) for name in names]
    possible = set(Op) - {Op.REPLAY_START}
    copy = [
        Slot(f"copied {what}", SlotKind.INTERNAL, DType.UINT8, (9,), (2,), page * PAGE_BYTES, bound=what == "from")
        for page, what in ((8, "to"), (9, "from"))
    ]
    if draw(st.booleans()) and not {slot.name for slot in copy} & set(names):
        found += copy
    else:
        possible -= {Op.OPERATE}
    if not found:
        possible -= {Op.COPY_TO_GPU, Op.COPY_FROM_GPU}
    if not image:
        possible -= {Op.UPLOAD}
    stream, jobs = [], 0
    for op in draw(st.lists(st.sampled_from(sorted(possible)), max_size=30)):
        if op == Op.JOB:
            stream.append(action(op, value=jobs))
            jobs += 1
        elif op == Op.OPERATE:
            stream.append(action(op, slot=len(found) - 2, operator=Operator.COPY, operands=2))
        else:
            stream.append(draw(actions(op, len(image), len(found))))
    if draw(st.booleans()):
        stream.insert(draw(st.integers(0, len(stream))), action(Op.REPLAY_START))
    manifest = draw(structures("manifest"))
    manifest["time_budget_us"] %= MAX_TIME_BUDGET_US + 1
    return Trace(
        gpu="v3d42",
        actions=np.array(stream, dtype=ACTION_DTYPE),
        image=image,
        carveout_bytes=CARVEOUT,
        va_bytes=VA_BYTES,
        slots=found,
        meta={key: manifest[key] for key in Trace.META_DEFAULTS},
        notes=draw(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=3)),
        raw=draw(st.booleans()),
    )


def sample() -> Trace:
    """A small trace with every kind of action, two slots, an image that packs well and notes."""
    return Trace(
        gpu="v3d42",
        actions=np.array(
            [
                action(Op.SET_GPU_PGTABLE, address_space=0),
                action(Op.MAP_GPU_MEM, flags=7, pages=8, a=16, frame=8),
                action(Op.CLEAR, bytes=64, target=3 * PAGE_BYTES),
                action(Op.REPLAY_START),
                action(Op.REG_READ_ONCE, register=3, expected=0x24, mask=0xFF),
                action(Op.COPY_TO_GPU, slot=0),
                action(Op.UPLOAD, bytes=32, target=4 * PAGE_BYTES, source=16),
                action(Op.JOB),
                action(Op.REG_WRITE, register=0x1241, value=7, mask=0xFFFFFFFF),
                action(Op.INTERVAL, us=10),
                action(Op.WAIT_IRQ, line=0, timeout_us=1000),
                action(Op.IRQ_ENTER),
                action(Op.REG_READ_KEEP, register=0x14, keep=1),
                action(Op.REG_WRITE_KEPT, register=0x16, keep=1),
                action(Op.REG_READ_WAIT, register=0x14, mask=1, timeout_us=500),
                action(Op.IRQ_EXIT),
                action(Op.COPY_FROM_GPU, slot=1),
                action(Op.UNMAP_GPU_MEM, pages=8, a=16),
            ],
            dtype=ACTION_DTYPE,
        ),
        image=bytes(range(64)) * 128 + b"end",
        carveout_bytes=CARVEOUT,
        va_bytes=VA_BYTES,
        slots=[
            Slot("input", SlotKind.INPUT, DType.FLOAT32, (2, 3), (12, 4), 0x10000, bound=True),
            Slot("output", SlotKind.OUTPUT, DType.FLOAT16, (5,), (2,), 0x10100),
        ],
        meta={"name": "sample", "recorder": "by hand", "security_version": 3},
        notes={"passes": ["none"]},
    )


def offset_of(structure: str, field: str) -> int:
    """Offset of a field in a structure of the schema."""
    offset = 0
    for item in packing.shape_of(structure).subcons:
        if item.name == field:
            return offset
        offset += item.sizeof()
    raise KeyError(field)


def size_of(structure: str, field: str) -> int:
    """Bytes of a field in a structure of the schema."""
    return int(next(item.sizeof() for item in packing.shape_of(structure).subcons if item.name == field))


class Damage:
    """The bytes of a trace, to be changed field by field.

    Args:
        data: a valid trace.
    """

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.types = [self.entry(i, "type") for i in range(self.header("section_count"))]

    def header(self, field: str, value: int | None = None) -> int:
        """A field of the header, set to `value` if there is one."""
        return self._number(0, "header", field, value)

    def entry(self, index: int, field: str, value: int | None = None) -> int:
        """A field of entry `index` of the section table, set to `value` if there is one."""
        return self._number(Header.sizeof() + index * Section.sizeof(), "section", field, value)

    def manifest(self, field: str, value: int | None = None) -> int:
        """A field of the manifest, set to `value` if there is one."""
        return self._number(self.start(SectionType.MANIFEST), "manifest", field, value)

    def slot(self, index: int, field: str, value: int | None = None) -> int:
        """A field of slot `index`, set to `value` if there is one."""
        return self._number(self.start(SectionType.SLOTS) + 128 * index, "slot", field, value)

    def start(self, type: SectionType) -> int:
        """Offset of the first section of a type."""
        return self.entry(self.types.index(type), "offset")

    def put(self, offset: int, data: bytes) -> None:
        """Overwrite bytes."""
        self.data[offset : offset + len(data)] = data

    def rehash(self) -> None:
        """Make the chunk hashes fit the body."""
        head, chunk = self.header("head_bytes"), self.header("chunk_bytes")
        for index in range(self.header("chunk_count")):
            body = self.data[head + index * chunk : head + (index + 1) * chunk]
            self.put(self.start(SectionType.CHUNKS) + 32 * index, hashlib.sha256(body).digest())

    def _number(self, base: int, structure: str, field: str, value: int | None) -> int:
        at, size = base + offset_of(structure, field), size_of(structure, field)
        if value is not None:
            self.put(at, value.to_bytes(size, "little"))
        return int.from_bytes(self.data[at : at + size], "little")


def list_item(offset: int, index: int, value: int) -> tuple[int, bytes]:
    """Where and what to write to make item `index` of a list of u32 at `offset` be `value`."""
    return offset + 4 * index, struct.pack("<I", value)
