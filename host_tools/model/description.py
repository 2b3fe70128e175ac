"""Actions, slots and traces as text."""

from __future__ import annotations

import numpy as np

from trace_format.actions import ACTIONS, ALL_BITS, FLAG_IGNORE, Op, space_of, va_page
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Slot, Trace


def describe_action(row: np.void, gpu: Profile, slots: list[Slot]) -> str:
    """One action in one line, registers by name: `RegWrite core0.INT_CLR = 0x00000080`."""
    op = Op(int(row["op"]))
    arg, value, a, b = (int(row[n]) for n in ("arg", "value", "a", "b"))
    name, register = ACTIONS[op].name, gpu.describe(arg * 4)
    masked = "" if a == ALL_BITS else f" mask {a:#010x}"
    if op == Op.REG_READ_ONCE:
        return f"{name} {register} " + (
            "(any value)" if int(row["flags"]) & FLAG_IGNORE else f"== {value:#010x}{masked}"
        )
    if op == Op.REG_READ_WAIT:
        return f"{name} {register} == {value:#010x}{masked} within {b} us"
    if op == Op.REG_WRITE:
        return f"{name} {register} = {value:#010x}{masked}"
    if op in (Op.REG_READ_KEEP, Op.REG_WRITE_KEPT):
        return f"{name} {register} kept[{b}]"
    if op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM):
        start = va_page(row) * PAGE_BYTES
        text = f"{name} as{space_of(row)} {start:#010x}..{start + value * PAGE_BYTES - 1:#010x} ({_pages(value)})"
        return (
            text
            if op == Op.UNMAP_GPU_MEM
            else f"{text} -> {b * PAGE_BYTES:#010x} {_permissions(int(row['flags']))}"
        )
    if op == Op.UPLOAD:
        return f"{name} {value} bytes image {b:#x} -> {a:#010x}"
    if op == Op.CLEAR:
        return f"{name} {value} bytes at {a:#010x}"
    if op in (Op.COPY_TO_GPU, Op.COPY_FROM_GPU):
        return f"{name} slot {slots[arg].name}"
    if op == Op.WAIT_IRQ:
        return f"{name} {gpu.interrupts[arg]} within {value} us"
    if op in (Op.IRQ_ENTER, Op.IRQ_EXIT):
        return f"{name} {gpu.interrupts[arg]}"
    if op == Op.SET_GPU_PGTABLE:
        return f"{name} as{arg}"
    if op == Op.INTERVAL:
        return f"{name} {value} us"
    return f"{name} {value}" if op == Op.JOB else name


def describe_slot(slot: Slot) -> str:
    """A slot in one line: `input data float32[1, 28, 28] at 0x00260000`."""
    shape = ", ".join(map(str, slot.shape))
    bound = ", bound" if slot.bound else ""
    return (
        f"{slot.kind.name.lower()} {slot.name} {slot.dtype.name.lower()}[{shape}] at {slot.address:#010x}{bound}"
    )


def describe_actions(trace: Trace) -> list[str]:
    """All actions of a trace, a line each, without numbers."""
    gpu = trace.profile
    return [describe_action(row, gpu, trace.slots) for row in trace.actions]


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"


def _permissions(flags: int) -> str:
    return "".join(letter if flags & 1 << bit else "-" for bit, letter in enumerate("rwx"))
