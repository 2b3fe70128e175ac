# SPDX-License-Identifier: BSD-2-Clause
"""How two networks run at the same time on parts of a GPU's cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_format.errors import GramophoneError
from trace_format.trace import Trace

Order = Sequence[
    tuple[int, bool]
]  # jobs, counted by their JOB actions: each once where it starts, once where it ends


class NotSharedError(GramophoneError):
    """Networks cannot run at the same time; says why."""


@dataclass(frozen=True)
class Share:
    """A network's part of the GPU.

    Attributes:
        name: of the network.
        cores: a bit for each of its cores.
        us: of each job, by its JOB action, those before ReplayStart among them: what it takes on these cores.
    """

    name: str
    cores: int
    us: Sequence[float]


@dataclass(frozen=True)
class Together:
    """Two networks as one trace.

    Attributes:
        trace: it.
        rendezvous: in a replay, how often one waits for the other's job because something needs an idle GPU.
    """

    trace: Trace
    rendezvous: int


def overlap(order: Order) -> bool:
    """Whether two jobs run at the same time."""
    running = 0
    for _, starts in order:
        running += 1 if starts else -1
        if running > 1:
            return True
    return False


def elapsed(order: Order, us: Sequence[float]) -> float:
    """How long jobs take together that are started and waited for in this order, one after another where they say
    nothing else.

    Args:
        order: of a replay.
        us: of each job; by the same numbers.
    """
    now, ends = 0.0, dict[int, float]()
    for job, starts in order:
        if starts:
            ends[job] = now + us[job]
        else:
            now = max(now, ends.pop(job, now))
    return max([now, *ends.values()])
