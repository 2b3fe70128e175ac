# SPDX-License-Identifier: BSD-2-Clause
"""Jobs in a trace's actions, and pieces in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from host_tools.accesses.job_starts import JobStarts
from host_tools.families.cutting import Cutting, Words
from host_tools.families.family import family_of
from host_tools.model.job_names import NOTE
from host_tools.passes.list_passes import service
from trace_format.actions import ALL_BITS, Action, Actions, Op, action, actions_of, array_of
from trace_format.profile import Job, Profile
from trace_format.trace import Trace


@dataclass(frozen=True)
class Found:
    """A job in the actions of a trace.

    Attributes:
        marker, start, end: indices of its JOB action, of the one that starts it, and after its service.
        described: of the writes that say what it is.
        registers: what had been written to each when it is started.
    """

    marker: int
    start: int
    end: int
    described: tuple[int, ...]
    registers: Mapping[int, int]


def jobs_in(trace: Trace) -> list[Found | str]:
    """Each announced job where it stands in the actions, or why it cannot be taken out of them."""
    gpu = trace.profile
    pattern, starts = family_of(gpu).describes_job, JobStarts(gpu)
    describing = {register.index for name, register in gpu.registers.items() if pattern.fullmatch(name)}
    rows = list(actions_of(trace.actions))
    markers = [index for index, row in enumerate(rows) if row.op == Op.JOB]
    number = {index: at for at, index in enumerate(markers)}
    found: list[Found | str] = ["it is announced, and nothing starts it"] * len(markers)
    written: dict[int, int] = {}
    fresh: dict[int, list[int]] = {}  # register -> writes since the job before
    current, before = -1, -1
    for index, row in enumerate(rows):
        current = number.get(index, current)
        if row.op != Op.REG_WRITE or row.register not in describing:
            continue
        written[row.register] = written.get(row.register, 0) & ~row.mask | row.value & row.mask
        if row.mask == ALL_BITS:
            fresh.setdefault(row.register, []).append(index)
        job = starts.of(row)
        if job is None:
            continue
        if fresh.keys() != describing:
            if 0 <= before < len(found):
                found[before] = "the job after it relies on registers that a GPU need not keep"
            why = "it relies on registers that a GPU need not keep"
        elif current < 0 or current == before:
            why = "it is not announced by itself"
        elif not (end := _served(trace.actions, index, job)):
            why = "its end is not a wait for its interrupt, whose status is then read and cleared"
        else:
            described = tuple(at for places in fresh.values() for at in places)
            found[current] = Found(markers[current], index, end, described, dict(written))
            why = ""
        if why and current >= 0:
            found[current] = why
        before, fresh = current, {}
    return found


def _served(rows: Actions, start: int, job: Job) -> int:
    """Where the service of a job ends, that is waited for right after its start; 0: it is not."""
    return service(rows, start, job) if (rows["op"][start + 1 : start + 2] == Op.WAIT_IRQ).all() else 0


def named(trace: Trace, job: Found) -> Callable[[str], int]:
    """What had been written to a register, by its name, when a job is started."""
    registers = trace.profile.registers
    return lambda name: job.registers.get(registers[name].index, 0)


def with_pieces(
    trace: Trace, cutting: Cutting, found: Sequence[Found | str], parts: Mapping[int, Sequence[Words]]
) -> Trace:
    """The trace with jobs cut: each piece has its own marker, wait and service; markers count again."""
    gpu = trace.profile
    rows = list(actions_of(trace.actions))
    noted = trace.notes.get(NOTE)
    names = noted if isinstance(noted, list) and len(noted) == len(found) else []
    calls: list[Any] = []
    instead: dict[int, list[Action]] = {}
    gone: set[int] = set()
    for number, job in enumerate(found):
        pieces = parts.get(number)
        if names:
            calls += [names[number]] * len(pieces or [()])
        if pieces is None or isinstance(job, str):
            continue
        gone.update((*job.described, *range(job.marker, job.end)))
        instead[job.marker] = list(_rows(gpu, cutting, rows, job, pieces))
    made: list[Action] = []
    for index, row in enumerate(rows):
        made += instead.get(index, [])
        if index not in gone:
            made.append(row)
    numbered, jobs = [], 0
    for row in made:
        if row.op == Op.JOB:
            row = row.with_(number=jobs)
            jobs += 1
        numbered.append(row)
    notes = {**trace.notes, NOTE: calls} if names else trace.notes
    return trace.with_(actions=array_of(numbered), notes=notes)


def _rows(
    gpu: Profile, cutting: Cutting, rows: Sequence[Action], job: Found, pieces: Sequence[Words]
) -> Iterator[Action]:
    """The actions of all pieces of a job."""
    others = [rows[at] for at in range(job.marker + 1, job.start) if at not in job.described]
    for number, words in enumerate(pieces):
        *describe, start = (
            action(Op.REG_WRITE, register=gpu.register(name).index, value=value, mask=ALL_BITS)
            for name, value in words
        )
        if number:
            yield from cutting.between(gpu)
        yield from describe
        yield rows[job.marker]
        yield from others if number == 0 else ()
        yield start
        yield from rows[job.start + 1 : job.end]
