# SPDX-License-Identifier: BSD-2-Clause
"""Emits the operator table in C: what operands each takes, for features/operators/operate.c."""

from __future__ import annotations

from collections.abc import Iterator

from trace_format.operators import MAX_OPERANDS, OPERATORS, ROW_ALIGNMENT, OperandType, OperatorType
from trace_format.schema import DType

NAMED, LOCAL = 0x80, 4  # a size with a name: its number; from LOCAL on, of one repetition
SIZES = 8
FLAGS = tuple((name.upper(), name) for name in ("written", "rows", "cells", "whole", "packed", "scratch"))

TYPES = f"""\
#define GR_MAX_OPERANDS {MAX_OPERANDS}u
#define GR_MAX_OPERAND_TYPES {max(len(row.operands) + len(row.repeated) for row in OPERATORS.values())}u
#define GR_SIZE_NAMED {NAMED:#x}u /* a size with a name, by its number */
#define GR_SIZE_LOCAL {LOCAL}u /* names from this number on are of one repetition */
#define GR_SIZES {SIZES}u
#define GR_ROW_ALIGNMENT {ROW_ALIGNMENT}u /* of operands that an operator has as a whole */
{{flags}}

/* An operand of an operator: flags, element type (0: as the first operand's), and shape (no rank: of any, with as
 * many elements as the first operand). */
struct gr_operand_type {{{{
    uint8_t flags, dtype, rank, dims[4];
}}}};

/* An operator: `fixed` operands, then the other `repeated` ones from `least` to `most` times. */
struct gr_operator_type {{{{
    uint8_t op, fixed, repeated, least, most;
    struct gr_operand_type operands[GR_MAX_OPERAND_TYPES];
}}}};
"""


def emit() -> str:
    """Structures, and a row for each operator."""
    flags = "\n".join(f"#define GR_OPERAND_{name} {1 << bit}u" for bit, (name, _) in enumerate(FLAGS))
    values = "\n".join(f"    GR_OPERATOR_{row.operator.name} = {int(row.operator)}," for row in OPERATORS.values())
    names = f"/* Operators. */\nenum gr_operator {{\n{values}\n}};\n"
    return "\n".join([names, TYPES.format(flags=flags), *_rows()])


def _rows() -> Iterator[str]:
    for row in OPERATORS.values():
        numbers = _numbers(row)
        types = ", ".join(_operand(operand, numbers) for operand in (*row.operands, *row.repeated))
        head = f"{len(row.operands)}, {len(row.repeated)}, {row.least}, {row.most}"
        yield f"#define GR_OPERANDS_{row.operator.name} \\"
        yield f"    {{GR_OPERATOR_{row.operator.name}, {head}, {{{types}}}}}"
        packed = any(operand.packed for operand in (*row.operands, *row.repeated))
        yield f"#define GR_HAS_PACKED_{row.operator.name} {int(packed)}"


def _numbers(row: OperatorType) -> dict[str, int]:
    """A number for each size that has a name."""
    found: dict[str, int] = {}
    for operands, first, end in ((row.operands, 0, LOCAL), (row.repeated, LOCAL, SIZES)):
        names = dict.fromkeys(n for o in operands for n in o.shape or () if isinstance(n, str) and n not in found)
        if len(names) > end - first:
            raise TypeError(f"{row.name}: the C table has no room for so many sizes: {', '.join(names)}")
        found |= {name: NAMED | first + number for number, name in enumerate(names)}
    return found


def _operand(operand: OperandType, numbers: dict[str, int]) -> str:
    flags = sum(1 << bit for bit, (_, attribute) in enumerate(FLAGS) if getattr(operand, attribute))
    shape = operand.shape or ()
    dims = ", ".join(f"{numbers[n]:#x}" if isinstance(n, str) else str(n) for n in shape) or "0"
    dtype = f"GR_DTYPE_{DType(operand.dtype).name}" if operand.dtype else "0"
    return f"{{{flags}, {dtype}, {len(shape)}, {{{dims}}}}}"
