# SPDX-License-Identifier: BSD-2-Clause
"""The operator table: what the CPU computes between a trace's jobs, and of which slots.

The operands of an `Operate` action are slots that follow one another: those of the row, then those that repeat, as
often as there are. What a device checks (features/operators/operate.c), docs/FORMAT.md and the C tables follow
from the rows; what an operator computes is tee_replayer/features/operators/ and host_tools/model/operators.py.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trace_format.actions import FLAG_BESIDE, Action, Actions, Columns, Op
from trace_format.errors import ActionError, ActionRangeError
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot

ROW_ALIGNMENT = 16  # of rows that are loaded by vectors: memory of the carve-out may be mapped as a device's
BOX = ("label", "score", "left", "top", "right", "bottom")  # columns of a box
F32, I32 = DType.FLOAT32, DType.INT32


class Operator(enum.IntEnum):
    """What the CPU computes between jobs; a number is never used again for something else."""

    COPY = 1
    DETECTION_OUTPUT = 2
    YOLO_DETECTION_OUTPUT = 3
    YOLOV3_DETECTION_OUTPUT = 4
    MATMUL = 5
    EMBED = 6
    ARGMAX = 7
    GLU = 8
    CUMULATIVE_SUM = 9
    FLIP = 10
    CONV1X1 = 11
    DENSE = 12


@dataclass(frozen=True)
class OperandType:
    """One operand.

    Attributes:
        name, what: name and meaning.
        shape: sizes, or names of sizes: those of one name are equal. None: any shape with as many elements as the
            first operand has.
        dtype: element type; None: that of the first operand.
        written: the operator writes it, every element; else it reads it.
        scratch: of a written one: working memory. It is no caller's, and the operator zeroes all of it at its end.
        rows: of candidates for boxes: as many as there are cells.
        cells: its first, third and fourth dimension are cells.
        whole: the operator has it at once, by vectors: its address and the steps between its rows are multiples
            of ROW_ALIGNMENT, its rows are dense, and its pages follow one another in the carve-out.
        packed: of a whole one: its rows begin at any element, as those of a picture of 7 by 7 without gaps.
    """

    name: str
    what: str
    shape: tuple[int | str, ...] | None
    dtype: DType | None = F32
    written: bool = False
    scratch: bool = False
    rows: bool = False
    cells: bool = False
    whole: bool = False
    packed: bool = False


@dataclass(frozen=True)
class OperatorType:
    """One row of the table.

    Attributes:
        operator: which.
        what: what it computes, in words.
        operands: those that are there once.
        repeated: those that follow them, together, from `least` to `most` times; names of their sizes that no
            operand before them has are of one repetition.
    """

    operator: Operator
    what: str
    operands: tuple[OperandType, ...]
    repeated: tuple[OperandType, ...] = ()
    least: int = 0
    most: int = 0

    @property
    def name(self) -> str:
        """Name in texts: detection_output."""
        return self.operator.name.lower()

    def takes(self, count: int) -> bool:
        """Whether it has so many operands."""
        more = count - len(self.operands)
        if not self.repeated or more < 0:
            return more == 0
        return more % len(self.repeated) == 0 and self.least <= more // len(self.repeated) <= self.most

    def types(self, count: int) -> list[OperandType]:
        """The operands, of so many."""
        return [*self.operands, *(self.repeated * count)][:count]


_BOXES = OperandType("boxes", "the best boxes, the best first: " + ", ".join(BOX), ("keep", 6), written=True)
_COUNT = OperandType("count", "how many there are; further rows are zero", (1,), I32, written=True)
_WORK = "candidates"
_YOLO = (
    _BOXES,
    _COUNT,
    OperandType("work", _WORK, ("rows", 7), written=True, scratch=True, rows=True),
    OperandType("parameters", "lowest score, overlap above which the lesser box goes", (2,)),
)
_HEAD = (
    OperandType(
        "head",
        "of each box and cell: x, y, width, height, objectness, then a number for each class",
        ("box", "attributes", "height", "width"),
        cells=True,
    ),
    OperandType("anchors", "width and height of each box, as parts of the picture's", ("box", 2)),
)

_CLAMP = OperandType("clamp", "lowest and highest value of a result", (2,), whole=True)
_CHANNELS = OperandType(
    "to", "the channels that it computes", ("out", "pixels"), written=True, whole=True, packed=True
)
_PICTURE = OperandType("from", "the channels of which it computes them", ("in", "pixels"), whole=True, packed=True)
_ALONG = ("outer", "length", "inner")  # a tensor, of which one dimension is the middle one

OPERATORS: dict[Operator, OperatorType] = {
    row.operator: row
    for row in (
        OperatorType(
            Operator.COPY,
            "the elements of one tensor in C order become those of another, of any shape and strides",
            (
                OperandType("to", "the copy", None, None, written=True),
                OperandType("from", "what is copied", None, None),
            ),
        ),
        OperatorType(
            Operator.DETECTION_OUTPUT,
            "boxes of an SSD, decoded with their priors, each class on its own; ncnn's DetectionOutput",
            (
                _BOXES,
                _COUNT,
                OperandType("work", _WORK, ("prior", 7), written=True, scratch=True),
                OperandType("parameters", "lowest score, greatest overlap, most candidates of a class", (3,)),
                OperandType("location", "offset of each box", ("prior", 4)),
                OperandType(
                    "confidence", "score of each class, of which the first is background", ("prior", "class")
                ),
                OperandType(
                    "priors", "left, top, right and bottom of each prior; their variances", (2, "prior", 4)
                ),
            ),
        ),
        OperatorType(
            Operator.YOLO_DETECTION_OUTPUT,
            "boxes of a YOLO version 2, classes by softmax; ncnn's YoloDetectionOutput",
            *(_YOLO, _HEAD, 1, 4),
        ),
        OperatorType(
            Operator.YOLOV3_DETECTION_OUTPUT,
            "boxes of a YOLO version 3 or 4, scores as ncnn's Yolov3DetectionOutput makes them",
            *(_YOLO, _HEAD, 1, 4),
        ),
        OperatorType(
            Operator.MATMUL,
            "a product of two matrices, and a bias on each row",
            (
                OperandType("to", "the product", ("rows", "columns"), written=True),
                OperandType("left", "a matrix", ("rows", "inner")),
                OperandType("right", "a matrix", ("inner", "columns")),
            ),
            (OperandType("bias", "what is added to each row", ("columns",)),),
            *(0, 1),
        ),
        OperatorType(
            Operator.EMBED,
            "rows of a table, by their numbers; a number outside it is the nearest one inside",
            (
                OperandType("to", "the rows", ("words", "width"), written=True),
                OperandType("indices", "their numbers", ("words",), I32),
                OperandType("table", "what is looked up", ("entries", "width")),
            ),
            (OperandType("bias", "what is added to each row", ("width",)),),
            *(0, 1),
        ),
        OperatorType(
            Operator.ARGMAX,
            "where the largest elements are, the largest first, of equal ones the last",
            (
                OperandType("to", "their numbers; -1 where there is none left", ("most",), I32, written=True),
                OperandType("from", "the elements", ("elements",)),
            ),
        ),
        OperatorType(
            Operator.GLU,
            "numbers, each times the sigmoid of another; ncnn's GLU, whose halves these are",
            (
                OperandType("to", "the products", _ALONG, written=True),
                OperandType("from", "the numbers", _ALONG),
                OperandType("gate", "what decides how much of each passes", _ALONG),
            ),
        ),
        OperatorType(
            Operator.CUMULATIVE_SUM,
            "of each number the sum of it and of those before it; ncnn's CumulativeSum",
            (
                OperandType("to", "the sums", _ALONG, written=True),
                OperandType("from", "the numbers", _ALONG),
            ),
        ),
        OperatorType(
            Operator.FLIP,
            "the last ones first; ncnn's Flip, of one dimension",
            (
                OperandType("to", "in the other order", _ALONG, written=True),
                OperandType("from", "the numbers", _ALONG),
            ),
        ),
        OperatorType(
            Operator.CONV1X1,
            "a pointwise convolution, clamped: a product of matrices, with a bias for each row",
            (
                _CHANNELS,
                OperandType("weights", "a row for each of them", ("out", "in"), whole=True),
                _PICTURE,
                OperandType("bias", "what each sum begins with", ("out",), whole=True),
                _CLAMP,
            ),
        ),
        OperatorType(
            Operator.DENSE,
            "a fully connected layer, clamped: a product of a matrix and a vector, and a bias",
            (
                OperandType("to", "the elements that it computes", ("out",), written=True, whole=True),
                OperandType("weights", "a row for each of them", ("out", "in"), whole=True),
                OperandType("from", "the elements of which it computes them", ("in",), whole=True),
                OperandType("bias", "what is added to each sum", ("out",), whole=True),
                _CLAMP,
            ),
        ),
    )
}
assert set(OPERATORS) == set(Operator)
MAX_OPERANDS = max(len(row.operands) + len(row.repeated) * row.most for row in OPERATORS.values())
# What callers give is theirs: no operator writes it. What it notes on the way is no caller's.
WRITABLE = {False: (SlotKind.OUTPUT, SlotKind.INTERNAL), True: (SlotKind.INTERNAL,)}  # by `scratch`


def operations(actions: Actions) -> Iterator[tuple[int, Action]]:
    """The `Operate` actions with their indices."""
    for index in np.flatnonzero(Columns(actions).is_op(Op.OPERATE)).tolist():
        yield index, Action.of(actions[index])


def used(actions: Actions) -> list[Operator]:
    """The operators that actions need, in the table's order."""
    found = {row.operator for _, row in operations(actions)}
    return [operator for operator in OPERATORS if operator in found]


def operands(row: Action, slots: Sequence[Slot]) -> list[tuple[OperandType, Slot]]:
    """What an `Operate` action that has been checked works on."""
    types = OPERATORS[Operator(row.operator)].types(row.operands)
    return list(zip(types, slots[row.slot : row.slot + row.operands], strict=True))


def written(actions: Actions, slots: Sequence[Slot]) -> list[Slot]:
    """Slots that operators write."""
    return [slot for _, row in operations(actions) for type, slot in operands(row, slots) if type.written]


def read(actions: Actions, slots: Sequence[Slot]) -> list[Slot]:
    """Slots that operators read."""
    return [slot for _, row in operations(actions) for type, slot in operands(row, slots) if not type.written]


def given(actions: Actions, slots: Sequence[Slot]) -> list[Slot]:
    """Slots that others than jobs may write: callers and operators."""
    by_operators = [slot for slot in written(actions, slots) if slot.kind is SlotKind.OUTPUT]
    return [*(slot for slot in slots if slot.kind is not SlotKind.OUTPUT), *by_operators]


def counted(actions: Actions, slots: Sequence[Slot]) -> dict[str, str]:
    """Slots of boxes, and for each the slot that says how many of its rows are boxes; in the operators' order."""
    found = {}
    for _, row in operations(actions):
        names = {type: slot.name for type, slot in operands(row, slots) if type in (_BOXES, _COUNT)}
        if names:
            found[names[_BOXES]] = names[_COUNT]
    return found


def check(actions: Actions, slots: Sequence[Slot], where: str = "") -> None:
    """Raise the error of the first `Operate` action that breaks a rule.

    Args:
        actions, slots: of a trace; the slots are checked.
        where: "FILE: " or "", put before "action N" in messages.

    Raises:
        ActionError: an unknown operator, or operands that it does not take.
        ActionRangeError: more slots than the trace has, or an operand that is written overlaps another.
    """
    for index, row in operations(actions):
        if row.operator not in OPERATORS:
            raise ActionError(
                f"{where}action {index}: no such operator",
                expected=", ".join(f"{int(o)} ({t.name})" for o, t in OPERATORS.items()),
                found=row.operator,
                action=index,
            )
        type = OPERATORS[Operator(row.operator)]
        here = f"{where}action {index}: {type.name}"
        if not type.takes(row.operands):
            raise ActionError(
                f"{here}: number of operands", expected=_numbers(type), found=row.operands, action=index
            )
        if row.slot + row.operands > len(slots):
            raise ActionRangeError(
                f"{here}: more slots than the trace has",
                expected=len(slots),
                found=row.slot + row.operands,
                action=index,
            )
        given = slots[row.slot : row.slot + row.operands]
        _check_operands(type, given, here, index)
        for wanted, slot in zip(type.types(row.operands), given, strict=True):
            if row.flags & FLAG_BESIDE and wanted.written and slot.kind is not SlotKind.INTERNAL:
                raise ActionError(
                    f"{here}: operand {wanted.name} (slot {slot.name}) is written beside a job",
                    expected="internal",
                    found=slot.kind.name.lower(),
                    action=index,
                )


def _numbers(type: OperatorType) -> str:
    first = len(type.operands)
    if not type.repeated:
        return str(first)
    return " or ".join(str(first + n * len(type.repeated)) for n in range(type.least, type.most + 1))


def _check_operands(type: OperatorType, given: Sequence[Slot], here: str, index: int) -> None:
    sizes: dict[str, int] = {}
    known: set[str] = set()
    rows = cells = 0
    for at, (wanted, slot) in enumerate(zip(type.types(len(given)), given, strict=True)):
        if at == len(type.operands):
            known = set(sizes)
        if at >= len(type.operands) and wanted is type.repeated[0]:
            sizes = {name: size for name, size in sizes.items() if name in known}
        what = f"{here}: operand {wanted.name} (slot {slot.name})"
        if wanted.written and slot.kind not in (may_be := WRITABLE[wanted.scratch]):
            expected_kinds = " or ".join(kind.name.lower() for kind in may_be)
            raise ActionError(
                f"{what} is written", expected=expected_kinds, found=slot.kind.name.lower(), action=index
            )
        dtype = given[0].dtype if wanted.dtype is None else wanted.dtype
        if slot.dtype is not dtype:
            raise ActionError(
                f"{what}: element type", expected=dtype.name.lower(), found=slot.dtype.name.lower(), action=index
            )
        if wanted.shape is None:
            if math.prod(slot.shape) != math.prod(given[0].shape):
                raise ActionError(
                    f"{what}: number of elements",
                    expected=math.prod(given[0].shape),
                    found=math.prod(slot.shape),
                    action=index,
                )
            continue
        expected = [size if isinstance(size, int) else sizes.get(size, size) for size in wanted.shape]
        fits = len(expected) == len(slot.shape) and all(
            isinstance(size, str) or size == found for size, found in zip(expected, slot.shape, strict=True)
        )
        if not fits:
            raise ActionError(f"{what}: shape", expected=tuple(expected), found=slot.shape, action=index)
        if wanted.whole:
            _check_rows(slot, what, index, is_packed=wanted.packed)
        sizes |= {name: n for name, n in zip(wanted.shape, slot.shape, strict=True) if isinstance(name, str)}
        rows += slot.shape[0] if wanted.rows else 0
        cells += slot.shape[0] * slot.shape[2] * slot.shape[3] if wanted.cells else 0
    if cells > rows:
        raise ActionError(f"{here}: rows for candidates", expected=f"at least {cells}", found=rows, action=index)
    _check_apart(type, given, here, index)


def _check_rows(slot: Slot, what: str, index: int, *, is_packed: bool) -> None:
    """Its rows are dense, and begin where vectors can be loaded; of a packed one only the first must."""
    if slot.strides[-1] != slot.numpy_dtype.itemsize:
        raise ActionError(f"{what}: rows with gaps", expected="none", found=slot.strides[-1], action=index)
    steps = () if is_packed else slot.strides[:-1]
    for name, value in (("address", slot.address), *(("stride", stride) for stride in steps)):
        if value % ROW_ALIGNMENT:
            raise ActionError(
                f"{what}: {name} of its rows",
                expected=f"a multiple of {ROW_ALIGNMENT}",
                found=f"{value:#x}",
                action=index,
            )


def _check_apart(type: OperatorType, given: Sequence[Slot], here: str, index: int) -> None:
    """What is written shares no bytes with another operand, by GPU addresses."""
    for at, (wanted, slot) in enumerate(zip(type.types(len(given)), given, strict=True)):
        for other in [*given[:at], *given[at + 1 :]] if wanted.written else []:
            if (
                slot.address_space == other.address_space
                and slot.address < other.address + other.span
                and other.address < slot.address + slot.span
            ):
                raise ActionRangeError(
                    f"{here}: operand {wanted.name} (slot {slot.name}) is written and overlaps slot {other.name}",
                    expected="memory of its own",
                    found=f"{other.address:#x}",
                    action=index,
                )
