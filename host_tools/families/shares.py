# SPDX-License-Identifier: BSD-2-Clause
"""How two networks run at the same time on parts of a GPU's cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from host_tools.families.family import part_of
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


@dataclass(frozen=True)
class Sharing:
    """What the module `sharing` of a family's folder has as SHARING.

    Attributes:
        shares: two networks of a joint trace, with the cores of each, as one that runs both at the same time.
            Raises NotSharedError. Text: why none can.
        job_order: in which order a replay starts its jobs and waits for their ends; None: one after another.
    """

    shares: Callable[[Trace, Sequence[Share]], Together] | str = "nothing is known of parts of its GPU"
    job_order: Callable[[Trace], Order] | None = None


def order_of(trace: Trace) -> Order | None:
    """In which order a replay starts its jobs and waits for their ends; None: one after another."""
    job_order = sharing_of(trace.gpu).job_order
    return job_order(trace) if job_order else None


def sharing_of(gpu: str) -> Sharing:
    """What the family of a GPU says; that nothing is known, if it says nothing."""
    return part_of(gpu, Sharing) or Sharing()


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
