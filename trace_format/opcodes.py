# SPDX-License-Identifier: BSD-2-Clause
"""The action table: what a replay is made of.

The set follows GPUReplay's published one (arXiv 2105.05085, table 2); `keep`, `clear`, `job` and `replay_start`
are what real recordings and repeated replays need beyond it. Fields that an action does not name must be zero.

A row says what an opcode's operands are; checks, documents, the C core's table, the words of a dump and the
rewriting of addresses follow from that. What carries an action out is core/run.c and the interpreter.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from trace_format.operands import REGISTERS, Bits, Operand, Type, operand
from trace_format.schema import KEEP_SLOTS


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
    OPERATE = 0x24
    WAIT_IRQ = 0x30
    IRQ_ENTER = 0x31
    IRQ_EXIT = 0x32
    INTERVAL = 0x33
    RUN_STREAM = 0x34
    JOB = 0x40
    REPLAY_START = 0x41


FLAG_IGNORE = 1  # REG_READ_ONCE: the value is not compared
MAP_READ, MAP_WRITE, MAP_EXECUTE = 1, 2, 4  # MAP_GPU_MEM
FLAG_REPEAT = 1  # JOB
FLAG_RESUME = 1  # REPLAY_START
FLAG_BESIDE = 1  # OPERATE


@dataclass(frozen=True)
class Flag:
    """A bit of `flags`.

    Attributes:
        name, what: name and meaning.
        letter: for it in a dump, where the flags of an action are shown as letters.
        words: of a dump, instead of the row's, when it is set.
        without: name of an operand that must then be zero, ...
        refusal: ... and the error where it is not.
    """

    name: str
    what: str
    letter: str = ""
    words: str = ""
    without: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class ActionType:
    """One row of the action table.

    Attributes:
        op: the opcode.
        what: what it does, in one line.
        operands: what it needs to know; no two of one type.
        flags: bits of `flags` that it has.
        words: how a dump shows its operands, by their names in braces; "{flags}" are the letters of its flags.
        flagless: the error where no flag is set; "" where that is allowed.
        at_most_once: a stream may have one such action only.
        macro: of the feature whose replayers alone know it; "": all do; None: none does, the virtual GPUs alone.
    """

    op: Op
    what: str
    operands: tuple[Operand, ...] = ()
    flags: dict[int, Flag] = field(default_factory=dict)
    words: str = ""
    flagless: str = ""
    at_most_once: bool = False
    macro: str | None = ""

    @property
    def name(self) -> str:
        """Name as it is printed: RegReadOnce, MapGpuMem."""
        return "".join(part.capitalize() for part in self.op.name.split("_"))

    @property
    def fields(self) -> frozenset[str]:
        """Fields of `Action` that the operands lie in; the others must be zero."""
        return frozenset(place.field for operand in self.operands for place in operand.places)

    def find(self, *types: Type) -> Operand | None:
        """Its operand of one of these types."""
        return next((operand for operand in self.operands if operand.type in types), None)


_REGISTER = "byte offset in the register window / 4"
_READ = operand("register", Type.REGISTER_READ, _REGISTER, "arg")
_WRITTEN = operand("register", Type.REGISTER_WRITTEN, _REGISTER, "arg")
_COMPARED = operand("mask", Type.MASK, "bits that are compared", "a")
_KEEP = operand("keep", Type.KEEP, f"which of {KEEP_SLOTS} kept values", "b")
_LATEST = "divergence after this many microseconds"
_SPACE = operand("address_space", Type.ADDRESS_SPACE, "GPU address space", Bits("arg", 0, 4))
_VA_PAGE = operand("va_page", Type.VA_PAGE, "first virtual page (address / 4096)", "a", Bits("arg", 4))
_PAGES = operand("pages", Type.PAGES, "number of 4 KiB pages", "value")
_BYTES = operand("bytes", Type.BYTES, "number of bytes", "value")
_TARGET = operand("target", Type.TARGET, "offset in the carve-out, after the image's last page", "a")
_SLOT = operand("slot", Type.SLOT, "index in the slots section", "arg")
_LINE = operand("line", Type.LINE, "interrupt line, index in the profile's order", "arg")

ACTIONS: dict[Op, ActionType] = {
    row.op: row
    for row in (
        ActionType(
            Op.REG_READ_ONCE,
            "read a register; a value that differs under the mask is a divergence",
            (_READ, operand("expected", Type.EXPECTED, "value of the recording", "value"), _COMPARED),
            {
                FLAG_IGNORE: Flag(
                    "ignore",
                    "read for its effect only; mask must be zero",
                    words="{register} (any value)",
                    without="mask",
                    refusal="an ignored value has a mask",
                )
            },
            words="{register} == {expected}{mask}",
        ),
        ActionType(
            Op.REG_READ_WAIT,
            "read a register until it has the value under the mask",
            (
                _READ,
                operand("expected", Type.EXPECTED, "value waited for", "value"),
                _COMPARED,
                operand("timeout_us", Type.TIMEOUT, _LATEST, "b"),
            ),
            words="{register} == {expected}{mask} within {timeout_us}",
        ),
        ActionType(
            Op.REG_WRITE,
            "write a register; with a partial mask, read, replace the bits of the mask, write",
            (
                _WRITTEN,
                operand("value", Type.BITS, "bits to write", "value"),
                operand("mask", Type.MASK, "bits that are replaced; all ones: plain write", "a"),
            ),
            words="{register} = {value}{mask}",
        ),
        ActionType(Op.REG_READ_KEEP, "read a register and keep its live value", (_READ, _KEEP)),
        ActionType(Op.REG_WRITE_KEPT, "write a kept value to a register", (_WRITTEN, _KEEP)),
        ActionType(
            Op.SET_GPU_PGTABLE,
            "point the GPU's address space at the page table that the replayer built",
            (operand("address_space", Type.ADDRESS_SPACE, "GPU address space", "arg"),),
        ),
        ActionType(
            Op.MAP_GPU_MEM,
            "map carve-out pages into a GPU address space",
            (
                _SPACE,
                _VA_PAGE,
                _PAGES,
                operand("frame", Type.FRAME, "first page of the carve-out (offset / 4096)", "b"),
            ),
            {
                MAP_READ: Flag("read", "the GPU may read", "r"),
                MAP_WRITE: Flag("write", "the GPU may write", "w"),
                MAP_EXECUTE: Flag("execute", "the GPU may fetch instructions", "x"),
            },
            words="{address_space} {va_page} ({pages}) -> {frame} {flags}",
            flagless="a mapping without any permission",
        ),
        ActionType(
            Op.UNMAP_GPU_MEM,
            "remove pages from a GPU address space",
            (_SPACE, _VA_PAGE, _PAGES),
            words="{address_space} {va_page} ({pages})",
        ),
        ActionType(
            Op.UPLOAD,
            "copy bytes of the image to another place of the carve-out",
            (_BYTES, _TARGET, operand("source", Type.SOURCE, "offset in the image", "b")),
            words="{bytes} image {source} -> {target}",
        ),
        ActionType(Op.CLEAR, "fill carve-out memory with zero", (_BYTES, _TARGET), words="{bytes} at {target}"),
        ActionType(Op.COPY_TO_GPU, "copy the caller's data into a slot", (_SLOT,)),
        ActionType(Op.COPY_FROM_GPU, "copy a slot's data out to the caller", (_SLOT,)),
        ActionType(
            Op.OPERATE,
            "compute on the CPU: an operator on slots that follow one another",
            (
                operand("slot", Type.SLOT, "index of the first operand in the slots section", "arg"),
                operand("operator", Type.OPERATOR, "Operator", "value"),
                operand("operands", Type.OPERANDS, "number of operands", "a"),
            ),
            {
                FLAG_BESIDE: Flag(
                    "beside",
                    "while the job works that the actions before it have started; else no job works",
                    words="{operator} {operands} from {slot}, beside the job",
                )
            },
            words="{operator} {operands} from {slot}",
            macro="GRAMOPHONE_OPERATORS",
        ),
        ActionType(
            Op.WAIT_IRQ,
            "wait until an interrupt line is active",
            (_LINE, operand("timeout_us", Type.TIMEOUT, _LATEST, "value")),
            words="{line} within {timeout_us}",
        ),
        ActionType(Op.IRQ_ENTER, "the recorded driver entered its interrupt handler", (_LINE,)),
        ActionType(Op.IRQ_EXIT, "the recorded driver left its interrupt handler", (_LINE,)),
        ActionType(
            Op.INTERVAL,
            "at least this much time between the previous and the next action",
            (operand("us", Type.MICROSECONDS, "microseconds", "value"),),
        ),
        ActionType(
            Op.RUN_STREAM,
            "call a command stream and wait until it has ended",
            (
                _SPACE,
                operand("stream", Type.STREAM, "GPU address of its first instruction", "a", Bits("b", 0, 16)),
                operand("instructions", Type.INSTRUCTIONS, "how many", Bits("b", 16), Bits("arg", 4)),
                operand("timeout_us", Type.TIMEOUT, _LATEST, "value"),
            ),
            words="{address_space} {stream} {instructions} within {timeout_us}",
            macro="GRAMOPHONE_COMMAND_STREAMS",
        ),
        ActionType(
            Op.JOB,
            "the next actions submit a job; where a log, a replay checkpoint or a time budget looks",
            (operand("number", Type.NUMBER, "number of the job in the replay", "value"),),
            {
                FLAG_REPEAT: Flag(
                    "repeat",
                    "the step from the replay checkpoint before it to the next job can be retried after a fault",
                    words="{number}, can be repeated",
                )
            },
        ),
        ActionType(
            Op.REPLAY_START,
            "actions before this one run once after loading and after a reset, those after it in every replay",
            flags={
                FLAG_RESUME: Flag(
                    "resume",
                    "at replay checkpoints, if memory is kept, a reset and the register accesses before the first "
                    "job do",
                    words="jobs go on after a reset",
                )
            },
            at_most_once=True,
        ),
    )
}
assert set(ACTIONS) == set(Op)


def ops_with(*types: Type) -> list[Op]:
    """Opcodes with an operand of one of these types."""
    return [op for op, row in ACTIONS.items() if row.find(*types)]


REGISTER_OPS = ops_with(*REGISTERS)
