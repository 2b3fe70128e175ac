# SPDX-License-Identifier: BSD-2-Clause
"""A small trace in which an operator copies words beside a job."""

from __future__ import annotations

from tests.support.small_jobs import INPUT, OUTPUT, SCRATCH, small
from trace_format.actions import FLAG_BESIDE, Op, action, actions_of, array_of
from trace_format.operators import Operator
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

JOBS = ("add", INPUT, INPUT, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT)
WORDS = 8


def copying(source: int, to: int, job: int = 0) -> Trace:
    """Beside the first of two jobs, from SCRATCH to OUTPUT, or beside the other, words are copied."""
    trace = small(*JOBS)
    names = ("to", to), ("from", source)
    inner = [Slot(name, SlotKind.INTERNAL, DType.INT32, (WORDS,), (4,), address) for name, address in names]
    rows = list(actions_of(trace.actions))
    at = [index for index, row in enumerate(rows) if row.op == Op.WAIT_IRQ][job]
    copy = action(Op.OPERATE, flags=FLAG_BESIDE, slot=len(trace.slots), operator=Operator.COPY, operands=2)
    return trace.with_(actions=array_of([*rows[:at], copy, *rows[at:]]), slots=[*trace.slots, *inner])
