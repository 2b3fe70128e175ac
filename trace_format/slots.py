# SPDX-License-Identifier: BSD-2-Clause
"""Slots: the tensors of a trace, their bytes in its file, and their rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format import packing
from trace_format.errors import DuplicateSlotError, ReservedError, SectionError, SlotError
from trace_format.schema import (
    DTYPE_BYTES,
    MAX_RANK,
    MAX_SLOT_BYTES,
    MAX_SLOTS,
    SLOT_FLAG_BOUND,
    DType,
    SlotKind,
)

SPLITS = "split_axes"  # in the notes: slot -> axis, as Slot.split


@dataclass(frozen=True)
class Slot:
    """A typed input, output or parameter in GPU memory, or an operator's operand there.

    Attributes:
        name: unique within the trace.
        kind: direction.
        dtype: element type.
        shape: dimensions, outermost first, 1 to 6 of them.
        strides: bytes from an element to the next along each dimension.
        address: GPU virtual address of the first element.
        address_space: GPU address space.
        bound: the image holds a value, so a caller may leave the slot out.
        split: number of the axis that is one with the next one for whoever uses the tensor, whose elements lie in
            memory in groups; kept in the trace's notes, since it is nothing to a device.
    """

    name: str
    kind: SlotKind
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    address_space: int = 0
    bound: bool = False
    split: int | None = None

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of the tensor as its users know it, which has the same elements in the same order."""
        if self.split is None:
            return self.shape
        one, two, *others = self.shape[self.split :]
        return (*self.shape[: self.split], one * two, *others)

    @property
    def span(self) -> int:
        """Bytes from the first element's first to the last element's last."""
        steps = zip(self.shape, self.strides, strict=True)
        return sum((n - 1) * s for n, s in steps) + DTYPE_BYTES[self.dtype]

    def element_addresses(self) -> NDArray[np.int64]:
        """GPU address of each element, in the slot's shape."""
        return offsets(self.shape, self.strides) + self.address

    @property
    def dense_bytes(self) -> int:
        """Size of its tensor as callers hold it: the elements in C order with nothing between them."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The element type for NumPy."""
        return np.dtype(self.dtype.name.lower()).newbyteorder("<")


def offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    """Bytes from a tensor's first element to each, in its shape."""
    found = np.zeros(shape, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * stride).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return found


def packed(slot: Slot) -> bytes:
    """A row of the slots' section."""
    pad = (0,) * (MAX_RANK - len(slot.shape))
    return packing.pack(
        "slot",
        {
            "name": slot.name,
            "kind": int(slot.kind),
            "dtype": int(slot.dtype),
            "rank": len(slot.shape),
            "flags": SLOT_FLAG_BOUND if slot.bound else 0,
            "address_space": slot.address_space,
            "address": slot.address,
            "dims": slot.shape + pad,
            "strides": slot.strides + pad,
        },
    )


def parsed(data: bytes, offset: int) -> Slot:
    """A slot of its row, which lies at `offset` in the file; ReservedError, SlotError."""
    row = packing.unpack("slot", data, offset)
    rank = row["rank"]
    if not 1 <= rank <= MAX_RANK:
        raise SlotError("rank of a slot", offset=offset, expected=f"1 to {MAX_RANK}", found=rank)
    if any(row["dims"][rank:]) or any(row["strides"][rank:]):
        raise ReservedError("unused dimensions of a slot are not zero", offset=offset)
    if row["flags"] & ~SLOT_FLAG_BOUND:
        raise ReservedError("reserved slot flags", offset=offset, expected=0, found=hex(row["flags"]))
    if row["kind"] not in list(SlotKind) or row["dtype"] not in list(DType):
        raise SlotError(
            "kind or element type of a slot",
            offset=offset,
            found=(row["kind"], row["dtype"]),
            expected="known ones",
        )
    return Slot(
        row["name"],
        SlotKind(row["kind"]),
        DType(row["dtype"]),
        tuple(row["dims"][:rank]),
        tuple(row["strides"][:rank]),
        row["address"],
        row["address_space"],
        bool(row["flags"] & SLOT_FLAG_BOUND),
    )


def check_count(count: int, where: str = "") -> None:
    """SlotError: a trace cannot have so many slots."""
    if count > MAX_SLOTS:
        raise SlotError(f"{where}too many slots", expected=f"at most {MAX_SLOTS}", found=count)


def check_slots(slots: list[Slot], va_bytes: int, address_spaces: int, where: str = "") -> None:
    """Raise the error of the first slot that breaks a rule: SlotError, DuplicateSlotError."""
    check_count(len(slots), where)
    seen = set()
    for slot in slots:
        if not slot.name or slot.name in seen:
            raise DuplicateSlotError(f"{where}slot name {slot.name!r} is empty or used twice")
        seen.add(slot.name)
        if len(slot.shape) != len(slot.strides) or not 1 <= len(slot.shape) <= MAX_RANK:
            raise SlotError(f"{where}slot {slot.name}: rank", expected=f"1 to {MAX_RANK}", found=len(slot.shape))
        if not 0 <= slot.address_space < address_spaces:
            raise SlotError(
                f"{where}slot {slot.name}: no such address space",
                expected=f"less than {address_spaces}",
                found=slot.address_space,
            )
        size = DTYPE_BYTES[slot.dtype]
        for dim, stride in zip(slot.shape, slot.strides, strict=True):
            if not 0 < dim <= 0xFFFFFFFF or not size <= stride <= 0xFFFFFFFF:
                raise SlotError(
                    f"{where}slot {slot.name}: dimension {dim} with stride {stride}",
                    expected=f"at least 1 with at least {size}",
                    found=(dim, stride),
                )
        if slot.address % size or any(stride % size for stride in slot.strides):
            raise SlotError(f"{where}slot {slot.name}: address or stride is not a multiple of the element size")
        if slot.address + slot.span > va_bytes:
            raise SlotError(
                f"{where}slot {slot.name} reaches beyond va_bytes",
                expected=va_bytes,
                found=slot.address + slot.span,
            )
        if slot.dense_bytes > MAX_SLOT_BYTES:
            raise SlotError(
                f"{where}slot {slot.name}: size of its tensor",
                expected=f"at most {MAX_SLOT_BYTES}",
                found=slot.dense_bytes,
            )


def notes_with_splits(notes: dict[str, Any], slots: list[Slot]) -> dict[str, Any]:
    """Notes that say what of the slots is nothing to a device."""
    splits = {slot.name: slot.split for slot in slots if slot.split is not None}
    return {**notes, SPLITS: splits} if splits else notes


def with_splits(slots: list[Slot], splits: Any) -> list[Slot]:
    """The slots with what the notes say of their axes.

    Raises:
        SectionError: that is not an object of names and axes that have a next one.
    """
    found = {slot.name: slot for slot in slots}
    for name, axis in splits.items() if isinstance(splits, dict) else [("", splits)]:
        slot = found.get(name)
        if slot is None or type(axis) is not int or not 0 <= axis < len(slot.shape) - 1:
            raise SectionError(
                f"notes: {SPLITS} of slot {name!r}", expected="an axis that has a next one", found=repr(axis)
            )
        found[name] = replace(slot, split=axis)
    return [found[slot.name] for slot in slots]
