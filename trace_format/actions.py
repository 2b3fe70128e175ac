"""The action table: what a replay is made of.

The set follows GPUReplay's published one (arXiv 2105.05085, table 2); `keep`, `clear`, `job` and `replay_start`
are what real recordings and repeated replays need beyond it. Every action is one `Action` structure of 16 bytes
(two 64-bit words), so that a stream of them is a NumPy array. Fields that an action does not name must be zero.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from trace_format.schema import Action

ACTION_DTYPE = np.dtype(
    {
        "names": [s.name for s in Action.subcons],
        "formats": [f"<u{s.sizeof()}" for s in Action.subcons],
    }
)
assert ACTION_DTYPE.itemsize == Action.sizeof() == 16

ALL_BITS = 0xFFFFFFFF


class Op(enum.IntEnum):
    """Opcodes."""

    REG_READ_ONCE = 0x01
    REG_READ_WAIT = 0x02
    REG_WRITE = 0x03
    REG_READ_KEEP = 0x04
    REG_WRITE_KEPT = 0x05
    SET_GPU_PGTABLE = 0x10
    MAP_GPU_MEM = 0x11
    UNMAP_GPU_MEM = 0x12
    UPLOAD = 0x20
    CLEAR = 0x21
    COPY_TO_GPU = 0x22
    COPY_FROM_GPU = 0x23
    WAIT_IRQ = 0x30
    IRQ_ENTER = 0x31
    IRQ_EXIT = 0x32
    INTERVAL = 0x33
    JOB = 0x40
    REPLAY_START = 0x41


FLAG_IGNORE = 1  # REG_READ_ONCE: the value is not compared
MAP_READ, MAP_WRITE, MAP_EXECUTE = 1, 2, 4  # MAP_GPU_MEM


@dataclass(frozen=True)
class ActionType:
    """One row of the action table.

    fields maps a field of `Action` to (name, meaning); flags maps a flag bit to (name, meaning).
    """

    op: Op
    what: str
    fields: dict[str, tuple[str, str]] = field(default_factory=dict)
    flags: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name as it is printed: RegReadOnce, MapGpuMem."""
        return "".join(part.capitalize() for part in self.op.name.split("_"))


_REG = {"arg": ("register", "byte offset in the register window / 4")}
_VA = {
    "arg": ("address_space", "bits 3:0 GPU address space; bits 15:4 bits 43:32 of the virtual page number"),
    "value": ("pages", "number of 4 KiB pages"),
    "a": ("va_page", "bits 31:0 of the virtual page number"),
}
_LINE = {"arg": ("line", "interrupt line, index in the profile's order")}
_SLOT = {"arg": ("slot", "index in the slots section")}

ACTIONS: dict[Op, ActionType] = {
    row.op: row
    for row in (
        ActionType(
            Op.REG_READ_ONCE,
            "read a register; a value that differs under the mask is a divergence",
            {
                **_REG,
                "value": ("expected", "value of the recording"),
                "a": ("mask", "bits that are compared"),
            },
            {FLAG_IGNORE: ("ignore", "read for its effect only; mask must be zero")},
        ),
        ActionType(
            Op.REG_READ_WAIT,
            "read a register until it has the value under the mask",
            {
                **_REG,
                "value": ("expected", "value waited for"),
                "a": ("mask", "bits that are compared"),
                "b": ("timeout_us", "divergence after this many microseconds; not zero"),
            },
        ),
        ActionType(
            Op.REG_WRITE,
            "write a register; with a partial mask, read, replace the bits of the mask, write",
            {
                **_REG,
                "value": ("value", "bits to write"),
                "a": ("mask", "bits that are replaced; all ones: plain write"),
            },
        ),
        ActionType(
            Op.REG_READ_KEEP,
            "read a register and keep its live value",
            {**_REG, "b": ("keep", "which of 8 kept values")},
        ),
        ActionType(
            Op.REG_WRITE_KEPT,
            "write a kept value to a register",
            {**_REG, "b": ("keep", "which of 8 kept values")},
        ),
        ActionType(
            Op.SET_GPU_PGTABLE,
            "point the GPU's address space at the page table that the replayer built",
            {"arg": ("address_space", "GPU address space")},
        ),
        ActionType(
            Op.MAP_GPU_MEM,
            "map carve-out pages into a GPU address space",
            {**_VA, "b": ("page", "first page of the carve-out (offset / 4096)")},
            {
                MAP_READ: ("read", "the GPU may read"),
                MAP_WRITE: ("write", "the GPU may write"),
                MAP_EXECUTE: ("execute", "the GPU may fetch instructions"),
            },
        ),
        ActionType(Op.UNMAP_GPU_MEM, "remove pages from a GPU address space", _VA),
        ActionType(
            Op.UPLOAD,
            "copy bytes of the image to another place of the carve-out",
            {
                "value": ("bytes", "number of bytes, not zero"),
                "a": ("to", "offset in the carve-out, behind the image"),
                "b": ("from", "offset in the image"),
            },
        ),
        ActionType(
            Op.CLEAR,
            "fill carve-out memory with zero",
            {
                "value": ("bytes", "number of bytes, not zero"),
                "a": ("to", "offset in the carve-out, behind the image"),
            },
        ),
        ActionType(Op.COPY_TO_GPU, "copy the caller's data into a slot", _SLOT),
        ActionType(Op.COPY_FROM_GPU, "copy a slot's data out to the caller", _SLOT),
        ActionType(
            Op.WAIT_IRQ,
            "wait until an interrupt line is active",
            {**_LINE, "value": ("timeout_us", "divergence after this many microseconds; not zero")},
        ),
        ActionType(Op.IRQ_ENTER, "the recorded driver entered its interrupt handler", _LINE),
        ActionType(Op.IRQ_EXIT, "the recorded driver left its interrupt handler", _LINE),
        ActionType(
            Op.INTERVAL,
            "at least this much time between the previous and the next action",
            {"value": ("us", "microseconds")},
        ),
        ActionType(
            Op.JOB,
            "the next actions submit a job; where a log, a checkpoint or a time budget looks",
            {"value": ("index", "number of the job in the replay, from 0")},
        ),
        ActionType(
            Op.REPLAY_START,
            "actions before this one run once after loading and after a reset, those behind it in every replay",
        ),
    )
}
assert set(ACTIONS) == set(Op)


def ops_on(what: str) -> list[Op]:
    """Opcodes whose `arg` names one of these: "register", "line" or "slot"."""
    return [op for op, row in ACTIONS.items() if row.fields.get("arg", ("",))[0] == what]


def action(op: Op, *, flags: int = 0, arg: int = 0, value: int = 0, a: int = 0, b: int = 0) -> np.void:
    """One action as a record of `ACTION_DTYPE`."""
    record: np.void = np.array([(op, flags, arg, value, a, b)], dtype=ACTION_DTYPE)[0]
    return record


def va_page(record: np.void) -> int:
    """Virtual page number of a map or unmap action."""
    return int(record["a"]) | (int(record["arg"]) >> 4) << 32


def space_of(record: np.void) -> int:
    """Address space of a map or unmap action, or of one that sets a page table."""
    return int(record["arg"]) & 15


def va_operands(space: int, page: int) -> dict[str, int]:
    """Fields `arg` and `a` of a map or unmap action; the inverse of `space_of` and `va_page`."""
    if not 0 <= space < 16 or not 0 <= page < 1 << 44:
        raise ValueError(f"address space {space}, virtual page {page:#x} cannot be encoded")
    return {"arg": space | (page >> 32) << 4, "a": page & ALL_BITS}
