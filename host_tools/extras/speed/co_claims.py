# SPDX-License-Identifier: BSD-2-Clause
"""Whether jobs are the products that a recording's notes say they are.

Each is computed here, in double precision, from what lies in memory when its job has ended, in replays with
different inputs, and compared with what the job has written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.by_job import ByJob
from host_tools.accesses.proof import AccessMap
from host_tools.families.page_tables import DivergenceError
from host_tools.model.products import Product
from trace_format.actions import Columns, Op
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Array = NDArray[Any]
CLAIM = 1e-5  # of a job's result to the product, relative to the largest value


def floats(name: str, address: int, *shape: int) -> Slot:
    """A tensor of floats without gaps, as a slot."""
    strides = tuple(4 * int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))
    return Slot(name, SlotKind.INTERNAL, DType.FLOAT32, shape, strides, address)


class _Judge(ByJob):
    """Looks at the claimed jobs of a replay.

    Attributes:
        why: job -> why it is not what was claimed.
        weights, bias: job -> constants, weights in rows.
    """

    def __init__(self, trace: Trace, claims: Sequence[Product]) -> None:
        super().__init__(trace)
        self._claims = {claim.job: claim for claim in claims}
        self.why: dict[int, str] = {}
        self.weights: dict[int, Array] = {}
        self.bias: dict[int, Array | None] = {}

    def take(self, seen: AccessMap) -> None:
        """What the latest job did."""
        claim = self._claims.get(self.job)
        if claim is None:
            return
        try:
            if why := self._judged(claim):
                self.why[self.job] = why
        except DivergenceError:
            self.why[self.job] = "its tensors do not lie where the recording says"

    def _judged(self, claim: Product) -> str:
        def at(address: int, *shape: int) -> Array:
            if address + 4 * math.prod(shape) > self.trace.va_bytes:
                raise DivergenceError("no such addresses")
            return self.read_slot(floats("tensor", address, *shape))

        weights = claim.in_rows(at(claim.weights, claim.weights_size))
        bias = None if claim.bias is None else at(claim.bias, claim.rows)
        given, made = at(claim.given, claim.inner, claim.columns), at(claim.out, claim.rows, claim.columns)
        self.weights[claim.job], self.bias[claim.job] = weights, bias
        with np.errstate(all="ignore"):
            expected = claim.computed(weights, given, bias)
            difference, largest = np.abs(expected - made).max(), np.abs(expected).max()
        if not difference <= CLAIM * largest:
            part = difference / max(largest, 1e-30)
            return f"its result differs from the product by {part:.1e} of the largest value"
        return ""


def judged(
    trace: Trace, claims: Sequence[Product], inputs: Sequence[Mapping[str, Array]]
) -> tuple[dict[int, str], dict[int, tuple[Array, Array | None]]]:
    """Of each claimed job that is none, why; of the others weights in rows and bias, which are the same each time.

    Args:
        trace: of one network.
        inputs: of each replay.

    Raises:
        DivergenceError, VgpuError: it does not replay on the virtual GPU.
    """
    announced = int(Columns(trace.actions).is_op(Op.JOB).sum())
    why: dict[int, str] = {}
    constants: dict[int, tuple[Array, Array | None]] = {}
    for given in inputs:
        judge = _Judge(trace, claims)
        judge.replay(given)
        if judge.job + 1 != announced:
            raise DivergenceError("not all jobs are announced, each by itself")
        why = {**judge.why, **why}
        for job, weights in judge.weights.items():
            found = weights.copy(), judge.bias[job]
            if job in constants and not _same(constants[job], found):
                why.setdefault(job, "its weights are not the same with other inputs")
            constants[job] = found
    for claim in claims:
        if claim.job not in constants:
            why.setdefault(claim.job, "it does not run")
    return why, constants


def _same(one: tuple[Array, Array | None], other: tuple[Array, Array | None]) -> bool:
    return all(
        np.array_equal(a, b) if a is not None and b is not None else a is b
        for a, b in zip(one, other, strict=True)
    )
