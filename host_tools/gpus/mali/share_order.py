# SPDX-License-Identifier: BSD-2-Clause
"""In which order jobs start and are waited for that run at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from host_tools.families.shares import Order, Share
from host_tools.gpus.mali.job_manager import starts_chain
from host_tools.gpus.mali.share_side import Kind, Step
from trace_format.actions import Action, Op, actions_of
from trace_format.trace import Trace


def order(trace: Trace) -> Order:
    """In which order a replay starts jobs and waits for their ends (`Family.job_order`)."""
    gpu, found = trace.profile, list[tuple[int, bool]]()
    starts = {job.start.index: job.done_bits for job in gpu.jobs}
    clear, job, running = gpu.register("job.IRQ_CLEAR").index, -1, dict[int, int]()
    first = not any(trace.actions["op"] == Op.REPLAY_START)
    for row in actions_of(trace.actions):
        first |= row.op == Op.REPLAY_START
        job += row.op == Op.JOB
        if not first or row.op != Op.REG_WRITE:
            continue
        if row.register in starts and starts_chain(row.value, row.mask):
            bits = starts[row.register]
            if bits in running:  # it is queued, and begins when that one ends
                found.append((running.pop(bits), False))
            running[bits] = job
            found.append((job, True))
        elif row.register == clear:
            found += [(running.pop(bits), False) for bits in list(running) if row.value & row.mask & bits]
    return [*found, *((left, False) for left in running.values())]


class _Queue:
    """A network's steps, as they are taken.

    Attributes:
        head: what comes before its first job, as far as it is about memory, or needs an idle GPU.
        jobs: of each job what leads to it with its start and what follows at once, and the wait for its end.
        tail: what comes after its last job.
    """

    def __init__(self, steps: Sequence[Step], us: Sequence[float]) -> None:
        waits = [at for at, step in enumerate(steps) if step.kind is Kind.WAIT]
        begin = next(at for at, step in enumerate(steps) if step.kind is Kind.START)
        while begin and steps[begin - 1].describes:
            begin -= 1
        self.head, self.tail = steps[:begin], steps[waits[-1] + 1 :]
        ends = [begin - 1, *waits]
        self.jobs = [(steps[one + 1 : other], steps[other]) for one, other in pairwise(ends)]
        self.us = us
        self.next = 0
        self.end: float | None = None  # when the job that runs ends
        self.blocked = False

    @property
    def waits(self) -> bool:
        """Whether it has a job to start, and none that runs."""
        return self.end is None and self.next < len(self.jobs)

    @property
    def needs_idle(self) -> bool:
        """Whether what leads to its next job needs an idle GPU."""
        return any(step.kind is Kind.IDLE for step in self.jobs[self.next][0])

    def start(self, now: float) -> Sequence[Step]:
        """Its next job starts."""
        steps, wait = self.jobs[self.next]
        self.end, self.blocked = now + self.us[wait.job], False
        return steps

    def finish(self) -> Step:
        """Its job is waited for."""
        self.end = None
        self.next += 1
        return self.jobs[self.next - 1][1]


def interleaved(steps: Sequence[Sequence[Step]], shares: Sequence[Share]) -> tuple[list[Action], int]:
    """A replay of both: each starts its next job when its last one has ended, and what ends first, by their times,
    is waited for first. Also how often one had to wait for the other.
    """
    queues = [_Queue(own, share.us) for own, share in zip(steps, shares, strict=True)]
    found = [step for queue in queues for step in queue.head]
    now, rendezvous = 0.0, 0
    while any(queue.waits or queue.end is not None for queue in queues):
        # Who has waited for an idle GPU goes first: else the other's next job would be in its way again.
        for queue in sorted((one for one in queues if one.waits), key=lambda one: not one.blocked):
            if queue.needs_idle and any(other.end is not None for other in queues):
                rendezvous += not queue.blocked
                queue.blocked = True
            else:
                found += queue.start(now)
        first = min((one for one in queues if one.end is not None), key=lambda one: one.end or 0.0)
        now = first.end or now
        found.append(first.finish())
    found += [step for queue in queues for step in queue.tail]
    return [row for step in found for row in step.actions], rendezvous
