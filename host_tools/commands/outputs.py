# SPDX-License-Identifier: BSD-2-Clause
"""What `replay` says of outputs: values, or the largest of them, and how far from what is expected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from host_tools.record.differences import relative_difference
from host_tools.support.results import Count, Result
from host_tools.support.tensors import load, slot_of
from trace_format import limits
from trace_format.errors import GramophoneError, printable
from trace_format.files import read_file
from trace_format.operators import BOX, counted
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Tensor = NDArray[Any]
SMALL = 16  # elements of an output that is printed whole, or boxes


class Top(Result):
    """One of the largest values."""

    index: Count
    value: float | None
    label: str | None


class OutputFacts(Result):
    """An output.

    Attributes:
        values: Of a small output, or of boxes: row by row.
    """

    file: str | None
    shape: tuple[Count, ...]
    dtype: str
    values: list[float | None] | UnsetType = UNSET
    top: list[Top] | UnsetType = UNSET


class ExpectedFacts(Result):
    """An output against what it must be."""

    file: str
    difference: float | None
    ok: bool


@dataclass(frozen=True)
class Shown:
    """What to show of outputs.

    Attributes:
        top: how many of the largest values.
        labels: names of an output's elements.
        boxes: outputs whose rows are boxes.
    """

    top: int | None = None
    labels: list[str] | None = None
    boxes: frozenset[str] = frozenset()

    def largest(self, array: Tensor) -> list[tuple[int, float, str | None]]:
        """Index in C order, value and label of the largest elements; of equal ones the first comes first."""
        flat = array.reshape(-1)
        order = np.argsort(-flat.astype(np.float64), kind="stable")[: self.top]
        names = self.labels if self.labels is not None and len(self.labels) == len(flat) else None
        return [(int(i), float(flat[i]), names[i] if names else None) for i in order]

    def data(self, name: str, array: Tensor, file: str | None) -> OutputFacts:
        """For JSON: values of a small output or of boxes, and the largest values; what is not finite is null."""
        found = OutputFacts(file, array.shape, array.dtype.name)
        if array.size <= SMALL or name in self.boxes:
            found.values = [_finite(float(value)) for value in array.reshape(-1)]
        if self.top is not None:
            found.top = [Top(index, _finite(value), label) for index, value, label in self.largest(array)]
        return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def show(name: str, array: Tensor, shown: Shown) -> list[str]:
    """Lines on an output."""
    if name in shown.boxes:
        rows = [
            f"  {int(label):5} " + " ".join(f"{x:8.4f}" for x in row) for label, *row in array[:SMALL].tolist()
        ]
        title = f"  {BOX[0]:>5} " + " ".join(f"{column:>8}" for column in BOX[1:])
        return [title, *rows, *(["  ..."] if len(array) > SMALL else [])] if rows else ["  no boxes"]
    if shown.top is not None:
        return [
            f"  {index:6} {value:12.6g}{'  ' + printable(label) if label is not None else ''}"
            for index, value, label in shown.largest(array)
        ]
    if array.size <= SMALL:
        return ["  " + " ".join(f"{float(value):.4g}" for value in array.reshape(-1))]
    return []


def read_labels(path: Path, trace: Trace) -> list[str]:
    """Names of the elements of an output, one a line.

    Raises:
        GramophoneError: not text, or no output has as many elements.
    """
    try:
        labels = read_file(path, limits.SMALL_BYTES).decode().splitlines()
    except UnicodeDecodeError as error:
        raise GramophoneError(
            f"{path} at offset {error.start:#x}: expected UTF-8 text, found another byte"
        ) from None
    sizes = [math.prod(slot.shape) for slot in trace.slots if slot.kind == SlotKind.OUTPUT]
    if len(labels) not in sizes:
        wanted = " or ".join(map(str, sorted(set(sizes)))) or "no"
        raise GramophoneError(
            f"{path}: expected {wanted} lines, one for each element of an output, found {len(labels)}"
        )
    return labels


@dataclass(frozen=True)
class Expected:
    """An output against what it must be.

    Attributes:
        name: of the slot.
        file: what is expected, as the user named it.
        difference: largest difference over the largest expected value; nan where one of the two is not a number.
        tolerance: what it may be.
    """

    name: str
    file: Path
    difference: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the output is what it must be."""
        return self.difference <= self.tolerance

    def data(self) -> ExpectedFacts:
        """For JSON."""
        return ExpectedFacts(str(self.file), _finite(self.difference), self.ok)

    def __str__(self) -> str:
        verdict = "as expected" if self.ok else "NOT as expected"
        return (
            f"{printable(self.name)}: {verdict}: differs from {self.file} by {self.difference:.2g} of its largest "
            f"value, tolerance {self.tolerance:.2g}"
        )


def read_expected(trace: Trace, files: Mapping[str, Path]) -> dict[str, tuple[Path, Tensor]]:
    """What outputs must be, by slot; SlotError, GramophoneError and OSError as in support.tensors."""
    boxes = counted(trace.actions, trace.slots)
    return {
        name: (path, load(path, slot_of(trace, name, SlotKind.OUTPUT), fewer=name in boxes))
        for name, path in files.items()
    }


def compare(
    outputs: Mapping[str, Tensor], expected: Mapping[str, tuple[Path, Tensor]], tolerance: float
) -> list[Expected]:
    """Each output that something is expected of."""
    return [
        Expected(name, path, relative_difference(outputs[name], wanted), tolerance)
        for name, (path, wanted) in expected.items()
    ]
