# SPDX-License-Identifier: BSD-2-Clause
"""Actions, slots and traces as text."""

from __future__ import annotations

from typing import Any, Required, TypedDict, cast

from host_tools.model.job_names import job_names
from host_tools.support.results import Count, Positive
from trace_format.actions import ACTIONS, ALL_BITS, Action, Op, Type, actions_of
from trace_format.errors import printable
from trace_format.operands import Operand
from trace_format.operators import OPERATORS, Operator
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot
from trace_format.trace import Trace


def describe_action(action: Action, gpu: Profile, slots: list[Slot]) -> str:
    """One action in one line, registers by name: `RegWrite core0.INT_CLR = 0x00000080`.

    What stands where is the action table's to say, how an operand of a type looks is said here.
    """
    row = ACTIONS[Op(action.op)]
    words = {o.name: _word(o, action, gpu, slots) for o in row.operands}
    if any(flag.letter for flag in row.flags.values()):
        letters = (flag.letter if action.flags & bit else "-" for bit, flag in row.flags.items())
        words["flags"] = "".join(letters)
    chosen = next((f.words for bit, f in row.flags.items() if f.words and action.flags & bit), row.words)
    text = (chosen or " ".join(f"{{{name}}}" for name in words)).format_map(words)
    return f"{row.name} {text}".rstrip()


def _word(operand: Operand, action: Action, gpu: Profile, slots: list[Slot]) -> str:
    if operand.type is Type.SLOT:
        return f"slot {printable(slots[getattr(action, operand.name)].name)}"
    return operand_words(operand, action, gpu)


def operand_words(operand: Operand, action: Action, gpu: Profile) -> str:
    """An operand as a dump shows it; a slot as its number, for its name is the trace's to say."""
    value: int = getattr(action, operand.name)
    match operand.type:
        case Type.REGISTER_READ | Type.REGISTER_WRITTEN:
            return gpu.describe(value * 4)
        case Type.EXPECTED | Type.BITS | Type.TARGET | Type.STREAM:
            return f"{value:#010x}"
        case Type.MASK:
            return "" if value == ALL_BITS else f" mask {value:#010x}"
        case Type.KEEP:
            return f"kept[{value}]"
        case Type.LINE:
            return gpu.interrupts[value]
        case Type.TIMEOUT | Type.MICROSECONDS:
            return f"{value} us"
        case Type.ADDRESS_SPACE:
            return f"as{value}"
        case Type.VA_PAGE:
            start, size = value * PAGE_BYTES, action.pages * PAGE_BYTES
            return f"{start:#010x}..{start + size - 1:#010x}"
        case Type.PAGES:
            return "1 page" if value == 1 else f"{value} pages"
        case Type.FRAME:
            return f"{value * PAGE_BYTES:#010x}"
        case Type.BYTES:
            return f"{value} bytes"
        case Type.SOURCE:
            return f"{value:#x}"
        case Type.INSTRUCTIONS:
            return f"{value} instructions"
        case Type.OPERATOR:
            return _operator_name(value)
        case Type.OPERANDS:
            return f"{value} operands"
        case Type.NUMBER | Type.SLOT:
            return str(value)


def _operator_name(value: int) -> str:
    return OPERATORS[Operator(value)].name if value in OPERATORS else str(value)


class ActionFields(TypedDict, total=False):
    """An action: operands by the names and in the units of docs/FORMAT.md.

    Attributes:
        op: Name of the opcode, as in docs/FORMAT.md.
        register: BLOCK.NAME, null where the profile has no name.
        offset: Of the register in the GPU's register window, in bytes.
        line: Interrupt line.
        slot: Name of the slot; of an operator's first operand.
        operator: Name of the operator, as in docs/FORMAT.md.
        operands: How many slots the operator takes.
        flags: Names of those that are set.
        fields: Fields of the register's value that have a name and are not zero.
    """

    op: Required[str]
    register: str | None
    offset: Count
    line: str
    slot: str
    operator: str
    operands: Count
    flags: list[str]
    expected: Count
    value: Count
    mask: Count
    timeout_us: Count
    keep: Count
    address_space: Count
    va_page: Count
    pages: Count
    frame: Count
    bytes: Count
    target: Count
    source: Count
    us: Count
    number: Count
    stream: Count
    instructions: Count
    fields: dict[str, Positive]


def action_fields(action: Action, gpu: Profile, slots: list[Slot]) -> ActionFields:
    """One action for programs: its opcode's name, and its operands by the names that docs/FORMAT.md has.

    Registers, interrupt lines and slots are given by name, a register also by its byte offset in the window; all
    other operands are the numbers of the format. A register's value is given by its fields too: those that have a
    name and are not zero.
    """
    row = ACTIONS[Op(action.op)]
    fields: dict[str, Any] = {"op": row.name}
    for operand in row.operands:
        value: int = getattr(action, operand.name)
        match operand.type:
            case Type.REGISTER_READ | Type.REGISTER_WRITTEN:
                register = gpu.by_offset.get(value * 4)
                fields |= {"register": register.name if register else None, "offset": value * 4}
            case Type.EXPECTED | Type.BITS:
                fields[operand.name] = value
                names = gpu.bits_of(fields["offset"]) if "offset" in fields else {}
                found = {name: (value & mask) // (mask & -mask) for name, mask in names.items() if value & mask}
                fields |= {"fields": found} if found else {}
            case Type.LINE:
                fields[operand.name] = gpu.interrupts[value]
            case Type.SLOT:
                fields[operand.name] = slots[value].name
            case Type.OPERATOR:
                fields[operand.name] = _operator_name(value)
            case _:
                fields[operand.name] = value
    if row.flags:
        fields["flags"] = [flag.name for bit, flag in row.flags.items() if action.flags & bit]
    return cast(ActionFields, fields)


def describe_slot(slot: Slot) -> str:
    """A slot in one line: `input data float32[1, 28, 28] at 0x00260000`."""
    shape = ", ".join(map(str, slot.tensor_shape))
    bound = ", bound" if slot.bound else ""
    name = printable(slot.name)
    return f"{slot.kind.name.lower()} {name} {slot.dtype.name.lower()}[{shape}] at {slot.address:#010x}{bound}"


def describe_actions(trace: Trace) -> list[str]:
    """All actions of a trace, a line each, without numbers; jobs with the names that the trace has for them."""
    gpu, names = trace.profile, iter(job_names(trace))
    return [
        describe_action(action, gpu, trace.slots) + (_named(next(names, "")) if action.op == Op.JOB else "")
        for action in actions_of(trace.actions)
    ]


def _named(name: str) -> str:
    return f" ({name})" if name else ""
