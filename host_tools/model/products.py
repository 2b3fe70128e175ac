# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs are products of matrices: what a recording's notes say of it, a claim that a pass checks.

A pointwise convolution is out[row, column] = clamp(weights[row, k] x[k, column] + bias[row]); a fully connected
layer is the same with one column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_format.actions import Columns, Op
from trace_format.operators import Operator
from trace_format.trace import Trace

NOTE = "products"  # in the notes: a list of claims
Array = NDArray[Any]
BLOCK = 4  # inputs of one output that lie side by side in the layout BLOCKS
ROWS, COLUMNS, BLOCKS = "rows", "columns", "blocks"
LAYOUTS = (ROWS, COLUMNS, BLOCKS)
MOST = 1 << 24  # of a size


@dataclass(frozen=True)
class Product:
    """A claim; addresses are the GPU's, sizes are in elements of 32 bits.

    Attributes:
        job: number of the job, from 0, in the order of their JOB actions.
        rows, inner, columns: output channels, input channels, pixels.
        out, given, weights: where the tensors lie; the first two are rows without gaps.
        layout: of the weights. "rows": a row for each output; "columns": one for each input; "blocks": four inputs
            of an output lie side by side, outputs behind one another, then the next four inputs.
        bias: where it lies; None: there is none.
        low, high: limits of results; None: there is none.
    """

    job: int
    rows: int
    inner: int
    columns: int
    out: int
    given: int
    weights: int
    layout: str
    bias: int | None
    low: float | None
    high: float | None

    @property
    def operator(self) -> Operator:
        """Which operator computes it."""
        return Operator.DENSE if self.columns == 1 else Operator.CONV1X1

    @property
    def clamp(self) -> tuple[float, float]:
        """Lowest and highest value of a result."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    @property
    def weights_size(self) -> int:
        """Elements of the weights as they lie in memory."""
        if self.layout == BLOCKS:
            return _up(self.rows) * _up(self.inner)
        return self.rows * self.inner

    def in_rows(self, weights: Array) -> Array:
        """The weights, a row for each output, of as many elements as lie in memory."""
        if self.layout == COLUMNS:
            return weights.reshape(self.inner, self.rows).T
        if self.layout == BLOCKS:
            blocks = weights.reshape(-1, _up(self.rows), BLOCK).transpose(1, 0, 2)
            return blocks.reshape(_up(self.rows), -1)[: self.rows, : self.inner]
        return weights.reshape(self.rows, self.inner)

    def computed(self, weights: Array, given: Array, bias: Array | None) -> Array:
        """What it should be, in double precision: `weights` in rows, `given` with a row for each input."""
        found = weights.astype(np.float64) @ given.astype(np.float64)
        return np.asarray(np.clip(found if bias is None else found + bias[:, None], *self.clamp))


def _up(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def laid_out(weights: Array, layout: str) -> Array:
    """Weights, a row for each output, as they lie in a layout."""
    if layout == COLUMNS:
        return np.ascontiguousarray(weights.T)
    if layout == BLOCKS:
        rows, inner = weights.shape
        whole = np.pad(weights, ((0, _up(rows) - rows), (0, _up(inner) - inner)))
        return np.ascontiguousarray(whole.reshape(_up(rows), -1, BLOCK).transpose(1, 0, 2))
    return np.ascontiguousarray(weights)


def noted(trace: Trace) -> list[Product]:
    """The claims of a trace's notes; what is no claim is left out, and so are all if they are of other jobs."""
    note = trace.notes.get(NOTE)
    jobs = int(Columns(trace.actions).is_op(Op.JOB).sum())
    if not isinstance(note, Mapping) or note.get("jobs") != jobs or not isinstance(note.get("of"), list):
        return []
    found = [claim for row in note["of"] if (claim := _claim(row, jobs)) is not None]
    return found if len({claim.job for claim in found}) == len(found) else []


def note_of(jobs: int, found: Sequence[Product]) -> dict[str, Any]:
    """The note: how many jobs there are, and which are products."""
    return {"jobs": jobs, "of": [asdict(claim) for claim in found]}


def _claim(row: Any, jobs: int) -> Product | None:
    names = {field.name for field in fields(Product)}
    if not isinstance(row, Mapping) or row.keys() != names:
        return None
    sizes, places = ("rows", "inner", "columns"), ("out", "given", "weights")
    whole = all(type(row[name]) is int for name in ("job", *sizes, *places))
    good = (
        whole
        and 0 <= row["job"] < jobs
        and all(0 < row[name] <= MOST for name in sizes)
        and all(0 <= row[name] < 1 << 48 for name in places)
        and row["layout"] in LAYOUTS
        and (row["bias"] is None or (type(row["bias"]) is int and 0 <= row["bias"] < 1 << 48))
        and all(row[name] is None or isinstance(row[name], int | float) for name in ("low", "high"))
    )
    return Product(**row) if good else None
