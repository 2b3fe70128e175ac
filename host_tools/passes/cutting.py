# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that take longer than somebody wants to wait become several, which do the same to the bit.

A GPU that runs a job does nothing else, and the core that waits for it is kept: the longest job bounds both. How
long jobs take is estimated (host_tools/model/timing.py); how one is cut, the GPU's family knows
(host_tools/families/cutting.py); whether pieces do what the whole did, their accesses say
(host_tools/accesses/pieces.py), which are seen in a replay. Where code shows that other data lead to the same
accesses (host_tools/accesses/proof.py), that is a proof; of other jobs, mostly those that spill registers, two
replays with other inputs must show the same, if all inputs are floats, as for the passes that drop memory
(docs/adr/0030-one-replay.md). What is not shown stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import FIRST_SEED, OTHER_SEED, Watched, random_inputs, watched
from host_tools.accesses.pieces import alike, why_not
from host_tools.families.cutting import Cutting, NotCutError, Words
from host_tools.families.page_tables import DivergenceError
from host_tools.families.speed import speed_of
from host_tools.model.job_names import job_names
from host_tools.model.timing import JobTime, TimingError, chip_of, estimate
from host_tools.passes.cut_actions import Found, jobs_in, named, with_pieces
from host_tools.passes.cut_report import Cut, CutFacts, Kept
from host_tools.passes.program import Program
from host_tools.passes.registry import Option, Pass
from host_tools.vgpu.binding import VgpuError
from trace_format.schema import SlotKind
from trace_format.trace import Trace

ROUNDS = 4  # in which pieces that are still too long become more
Times = list[tuple[bool, JobTime]]  # of each job, whether it runs before ReplayStart, and how long
Parts = dict[int, Sequence[Words]]  # of each job that is cut, its pieces


def cut_jobs(program: Program) -> str:
    """Cut jobs that are estimated to take longer than wanted into several (`--longest`)."""
    trace = program.finish(sheet=program.on_sheet)
    try:
        cutter = _Cutter(trace, program.asked[PASS.name])
        after = cutter.run()
    except TimingError as error:
        return str(error)
    except (DivergenceError, VgpuError) as error:
        return f"its jobs cannot be counted: {error}"
    program.reports[PASS.name] = cutter.report
    if after is not trace:
        program.cut(cutter.pieces)
        program.actions = after.actions
        program.replace(notes=after.notes)
    return ""


class _Cutter:
    """Attributes:
    why: job -> why it stays whole, or is not divided further.
    pieces: of each job, how many it becomes.
    report: what was done.
    """

    report: Cut

    def __init__(self, trace: Trace, longest_us: float) -> None:
        self.trace, self.longest_us = trace, longest_us
        self.chip = chip_of(trace.gpu)
        self.found: Sequence[Found | str] = ()
        self.pieces: Sequence[int] = ()
        self.why: dict[int, str] = {}
        self._timed: tuple[bytes, Times] = b"", []  # actions of the latest

    def run(self) -> Trace:
        """The trace with jobs cut; the same where none is."""
        before = self._times(self.trace)
        cutting = speed_of(self.trace.profile).cutting
        long = {number: time for number, (_, time) in enumerate(before) if time.us > self.longest_us}
        parts: Parts = {}
        after, seen = self.trace, list[int]()
        if isinstance(cutting, str):
            self.why = dict.fromkeys(long, cutting)
        elif long:
            self.found = jobs_in(self.trace)
            parts = self._cut(cutting, long)
            seen = shown(self.trace, cutting, self.found, parts, self.why)
            after = self._with(cutting, parts)
            self.pieces = [place.stop - place.start for place in job_places(parts, len(self.found))]
        self._report(before, self._times(after) if parts else before, parts, seen)
        return after

    def _with(self, cutting: Cutting, parts: Parts) -> Trace:
        return with_pieces(self.trace, cutting, self.found, parts) if parts else self.trace

    def _cut(self, cutting: Cutting, long: Mapping[int, JobTime]) -> Parts:
        """The pieces of jobs that can be cut, as many as bring them below what is wanted."""
        wanted: dict[int, int] = {}
        for number, time in long.items():
            start = time.parts["start"]
            if start >= self.longest_us:
                self.why[number] = f"to start a job alone takes {start:.1f} us"
            else:
                wanted[number] = max(2, math.ceil((time.us - start) / (self.longest_us - start)))
        parts: Parts = {}
        for _ in range(ROUNDS):
            for number in list(wanted):
                if not self._divide(cutting, parts, number, wanted[number]):
                    del wanted[number]
            if not wanted:
                break
            times = [time.us for _, time in self._times(self._with(cutting, parts))]
            places = job_places(parts, len(self.found))
            for number in list(wanted):
                worst, count = max(times[places[number]]), len(parts[number])
                wanted[number] = max(count + 1, math.ceil(count * worst / self.longest_us))
                if worst <= self.longest_us:
                    del wanted[number]
        return parts

    def _divide(self, cutting: Cutting, parts: Parts, number: int, wanted: int) -> bool:
        """Cut a job into so many pieces, or as many as there can be; whether there are so many."""
        why = divide(self.trace, cutting, self.found[number], parts, number, wanted)
        if why:
            self.why[number] = why
        return not why

    def _times(self, trace: Trace) -> Times:
        key = trace.actions.tobytes()
        if key != self._timed[0]:
            work = job_work(trace, _inputs(trace, FIRST_SEED))
            self._timed = key, [(job.prepares, estimate(job.dispatches, self.chip, job.cores)) for job in work]
        return self._timed[1]

    def _report(self, before: Times, after: Times, parts: Parts, seen: Sequence[int]) -> None:
        names = job_names(self.trace) or [""] * len(before)
        kept = []
        for number, place in enumerate(job_places(parts, len(before))):
            us = max(time.us for _, time in after[place])
            if us > self.longest_us:
                kept.append(Kept(number + 1, names[number], us, self.why.get(number, "its pieces differ much")))
        self.report = Cut(
            self.chip.title,
            self.longest_us,
            jobs=(len(before), len(after)),
            job_us=(_longest(before), _longest(after)),
            replay_us=(_replay(before), _replay(after)),
            cut={number + 1: len(pieces) for number, pieces in sorted(parts.items())},
            seen=[number + 1 for number in sorted(seen)],
            kept=kept,
        )


def job_places(parts: Parts, jobs: int) -> list[slice]:
    """Where the pieces of each job are among all jobs."""
    ends = list(accumulate(len(parts.get(number, ((),))) for number in range(jobs)))
    return [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]


def divide(trace: Trace, cutting: Cutting, job: Found | str, parts: Parts, number: int, wanted: int) -> str:
    """Cut a job into so many pieces, or as many as there can be; why there are not so many."""
    if isinstance(job, str):
        return job
    try:
        parts[number] = cutting.pieces(trace.profile, named(trace, job), wanted)
    except NotCutError as error:
        return str(error)
    return "its workgroups cannot be divided further" if len(parts[number]) < wanted else ""


def shown(
    trace: Trace, cutting: Cutting, found: Sequence[Found | str], parts: Parts, whys: dict[int, str]
) -> list[int]:
    """Leave in `parts` the jobs whose pieces are shown to do the same; `whys`: why others are not.

    Returns:
        Those of which two replays show it, and no proof.
    """
    if not parts:
        return []
    trace = with_pieces(trace, cutting, found, parts)
    places = job_places(parts, len(found))
    first = watched(trace, _inputs(trace, FIRST_SEED))
    if len(first.jobs) != places[-1].stop:
        whys |= dict.fromkeys(parts, "not all jobs are announced, each by itself")
        parts.clear()
        return []
    open_jobs = [number for number in parts if _open(first, places[number])]
    floats = all(slot.numpy_dtype.kind == "f" for slot in trace.slots if slot.kind == SlotKind.INPUT)
    second = watched(trace, _inputs(trace, OTHER_SEED)) if open_jobs and floats else None
    for number in list(parts):
        place = places[number]
        why = why_not(trace, first.jobs, place)
        if number in open_jobs and second is None:
            why = "what it accesses may depend on data, and not all inputs are floats"
        elif number in open_jobs and second and not alike(first.jobs[place], second.jobs[place]):
            why = "what it accesses depends on data"
        if why:
            whys[number] = why
            del parts[number]
    return [number for number in open_jobs if number in parts]


def _open(seen: Watched, place: slice) -> bool:
    """Whether a job's code does not show that its pieces access the same with other data."""
    return seen.changes_commands or any(job.varies for job in seen.jobs[place])


def _longest(times: Times) -> float:
    return max((time.us for _, time in times), default=0.0)


def _replay(times: Times) -> float:
    return sum(time.us for prepares, time in times if not prepares)


def _inputs(trace: Trace, seed: int) -> dict[str, NDArray[Any]]:
    return random_inputs(trace, seed, (SlotKind.INPUT, SlotKind.PARAMETER))


PASS = Pass(
    "cut-jobs",
    (cut_jobs.__doc__ or "").splitlines()[0],
    cut_jobs,
    Option(
        "--longest",
        "US",
        "Cut jobs with a longer estimate, in microseconds, into several equivalent jobs.",
        "cut",
        CutFacts,
    ),
)
