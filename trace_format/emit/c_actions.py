# SPDX-License-Identifier: BSD-2-Clause
"""Emits what the C header says of actions: what each opcode uses, and what the core checks of its operands."""

from __future__ import annotations

from collections.abc import Iterator

from trace_format.actions import ACTIONS, Op, Type
from trace_format.emit.walk import op_rule
from trace_format.operands import FIELD_BITS, Operand

OPERANDS = tuple(FIELD_BITS)
RULE_FLAGS_SHIFT = 4
RULE_KNOWN = 0x80
KNOWN = 0x8000
# What core/check.c checks: its name, the types of operands that it is for, the field that the operand begins in,
# and what it means.
NEEDS = (
    ("READS", (Type.REGISTER_READ,), "arg", "a register that may be read"),
    ("WRITES", (Type.REGISTER_WRITTEN,), "arg", "a register that may be written"),
    ("KEEPS", (Type.KEEP,), "b", "a kept value"),
    ("HAS_VALUE", (Type.TIMEOUT, Type.PAGES, Type.BYTES), "value", "pages, bytes or a timeout: not zero"),
    ("HAS_TIMEOUT", (Type.TIMEOUT,), "b", "a timeout: not zero"),
    ("HAS_SPACE", (Type.ADDRESS_SPACE,), "arg", "an address space, in its lowest bits"),
    ("HAS_VA", (Type.VA_PAGE,), "a", "the first of `value` virtual pages, its lowest bits"),
    ("HAS_PAGES", (Type.FRAME,), "b", "the first of `value` pages of the carve-out"),
    ("FROM_IMAGE", (Type.SOURCE,), "b", "the first of `value` bytes of the image"),
    ("TO_MEMORY", (Type.TARGET,), "a", "the first of `value` bytes after the image"),
    ("HAS_SLOT", (Type.SLOT,), "arg", "a slot"),
    ("HAS_LINE", (Type.LINE,), "arg", "an interrupt line"),
    ("SETS_BITS", (Type.BITS,), "value", "bits of a register, those under the mask `a`"),
    ("OPERATES", (Type.OPERATOR,), "value", "an operator, whose operands are `a` slots"),
    (
        "CALLS",
        (Type.STREAM,),
        "a",
        "the address of a command stream, its lowest bits; the driver checks all operands",
    ),
)
# Any value will do; how many operands there are operate.c checks, how many instructions the driver.
UNCHECKED = {Type.EXPECTED, Type.MASK, Type.MICROSECONDS, Type.NUMBER, Type.OPERANDS, Type.INSTRUCTIONS}
# Operands that the core reads through an accessor: they need not be a whole field.
ACCESSORS = {Type.ADDRESS_SPACE, Type.VA_PAGE, Type.STREAM}
# Of replayers: to them the others are unknown.
KNOWN_ACTIONS = {op: row for op, row in ACTIONS.items() if row.macro is not None}

VALID = """\
/* True when the opcode is known and every field that it does not use is zero. */
static inline bool gr_action_valid(const struct gr_action *action)
{
    uint32_t rule = gr_op_rule(action->op);
    return rule != 0 && (action->flags & ~(rule >> GR_RULE_FLAGS_SHIFT & GR_RULE_FLAGS_MASK)) == 0 &&
           ((rule & GR_RULE_ARG) || action->arg == 0) && ((rule & GR_RULE_VALUE) || action->value == 0) &&
           ((rule & GR_RULE_A) || action->a == 0) && ((rule & GR_RULE_B) || action->b == 0);
}
"""


def flags() -> str:
    """Definitions of the flags of actions."""
    lines = ["/* Flags of actions. */"]
    for op, row in ACTIONS.items():
        for bit, flag in row.flags.items():
            lines.append(f"#define GR_{op.name}_{flag.name.upper()} {bit}u /* {flag.what} */")
    return "\n".join(lines)


def op_rules() -> str:
    """A function: which fields an opcode uses."""
    return "\n".join(_op_rules())


def _op_rules() -> Iterator[str]:
    for bit, name in enumerate(OPERANDS):
        yield f"#define GR_RULE_{name.upper()} {1 << bit}u /* the opcode uses `{name}`; else it must be zero */"
    yield f"#define GR_RULE_FLAGS_SHIFT {RULE_FLAGS_SHIFT} /* bits of `flags` that it uses */"
    yield "#define GR_RULE_FLAGS_MASK 7u"
    yield f"#define GR_RULE_KNOWN {RULE_KNOWN:#x}u /* there is such an opcode */"
    yield ""
    yield from _of_features()
    yield ""
    yield "/* GR_RULE_* bits of an opcode; 0 for an unknown one. */"
    yield "static inline uint8_t gr_op_rule(uint8_t op)"
    yield "{"
    yield f"    static const uint8_t rule[{max(ACTIONS) + 1}] = {{"
    for op in KNOWN_ACTIONS:
        yield f"        [GR_OP_{op.name}] = {_if_known(op, f'{_rule_bits(op):#04x}')},"
    yield "    };"
    yield "    return op < sizeof rule ? rule[op] : 0;"
    yield "}"


def _of_features() -> Iterator[str]:
    yield "/* Bits of an opcode that only replayers with a feature know; others have 0 instead. */"
    for macro in sorted({row.macro for row in KNOWN_ACTIONS.values() if row.macro}):
        yield f"#ifdef {macro}"
        yield f"#define {_condition(macro)}(bits) (bits)"
        yield "#else"
        yield f"#define {_condition(macro)}(bits) 0u"
        yield "#endif"


def _condition(macro: str) -> str:
    return macro.replace("GRAMOPHONE_", "GR_IF_")


def _if_known(op: Op, bits: str) -> str:
    macro = ACTIONS[op].macro
    return f"{_condition(macro)}({bits})" if macro else bits


def _rule_bits(op: Op) -> int:
    uses, bits = op_rule(op)
    if bits > (RULE_KNOWN >> RULE_FLAGS_SHIFT) - 1:
        raise TypeError(f"{op.name}: the C header's rule has room for flags 1, 2 and 4 only")
    return RULE_KNOWN | bits << RULE_FLAGS_SHIFT | sum(1 << OPERANDS.index(name) for name in uses)


def helpers() -> str:
    """Functions: whether an action is valid, and its operands that are no whole field."""
    return "\n".join([VALID, *_accessors()]).rstrip()


def _accessors() -> Iterator[str]:
    found: dict[str, Operand] = {}
    for operand in (o for row in KNOWN_ACTIONS.values() for o in row.operands if not o.field):
        if found.setdefault(operand.name, operand).places != operand.places:
            raise TypeError(f"{operand.name} lies in two places: the C header has one accessor for it")
    for operand in found.values():
        parts, at = [], 0
        type = f"uint{64 if sum(place.count for place in operand.places) > 32 else 32}_t"
        for place in operand.places:
            part = f"action->{place.field}"
            if place.low:
                part = f"({part} >> {place.low})"
            if place.low + place.count < FIELD_BITS[place.field]:
                part += f" & {(1 << place.count) - 1:#x}u"
                part = f"({part})" if at else part
            parts.append(f"({type}){part} << {at}" if at else part)
            at += place.count
        names = " and ".join(row.name for row in KNOWN_ACTIONS.values() if operand in row.operands)
        yield f"/* {operand.what[0].upper() + operand.what[1:]}, of {names}. */"
        yield f"static inline {type} gr_action_{operand.name}(const struct gr_action *action)"
        yield "{"
        yield f"    return {' | '.join(parts)};"
        yield "}"
        yield ""


def needs() -> str:
    """What the core checks of each opcode's operands."""
    return "\n".join(_needs())


def _needs() -> Iterator[str]:
    yield "/* What the operands of an opcode are: the core checks each. */"
    for bit, (name, _, field, what) in enumerate(NEEDS):
        yield f"#define GR_NEED_{name} {1 << bit:#x}u /* `{field}` is {what} */"
    yield f"#define GR_NEED_KNOWN {KNOWN:#x}u /* there is such an opcode */"
    yield ""
    yield "/* Opcodes come in groups, 16 apart, of at most so many. */"
    yield f"#define GR_OP_GROUP {max(op & 15 for op in ACTIONS) + 1}u"
    yield ""
    yield "/* X(opcode, GR_NEED_* bits) for every opcode. */"
    yield "#define GR_OP_NEEDS(X) \\"
    rows = []
    for op in KNOWN_ACTIONS:
        text = " | ".join(f"GR_NEED_{n}" for n in needs_of(op))
        rows.append(f"    X({_op(op)}, {_if_known(op, text)})")
    yield " \\\n".join(rows)


def _op(op: Op) -> str:
    return f"GR_OP_{op.name}"


def needs_of(op: Op) -> list[str]:
    """Names of what the core checks of an opcode's operands."""
    found = ["KNOWN"]
    for operand in ACTIONS[op].operands:
        names = [name for name, types, field, _ in NEEDS if operand.type in types and _fits(operand, field)]
        if not names and operand.type not in UNCHECKED:
            raise TypeError(f"{op.name}: core/check.c knows no check of {operand.name} in {operand.places}")
        found += names
    if "CALLS" in found:
        found = ["KNOWN", "CALLS"]
    mask = ACTIONS[op].find(Type.MASK)
    if "SETS_BITS" in found and (mask is None or mask.field != "a"):
        raise TypeError(f"{op.name}: core/check.c looks for the mask of the bits that are set in `a`")
    return found


def _fits(operand: Operand, field: str) -> bool:
    """Whether an operand lies where the core looks for it: in all of a field, or where its accessor finds it."""
    first = operand.places[0]
    return operand.field == field or (operand.type in ACCESSORS and (first.field, first.low) == (field, 0))
