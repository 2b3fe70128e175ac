# SPDX-License-Identifier: BSD-2-Clause
"""Where the data of a trace goes: from slots through jobs to slots, byte by byte, on the virtual GPU.

`follow` looks at four replays of a trace, with values of host_tools/audit/draws.py. In the first every input and
parameter is given, and each has its own label. In the second, inputs that may be left out are; what the inputs of
the first have left in memory is "earlier". In the others inputs have values that their types can hold and networks
hardly get, and may end early.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_tools.audit import draws
from host_tools.audit.follower import (
    EARLIER,
    IMAGE,
    NOBODY,
    REGISTERS,
    Copied,
    Follower,
    Job,
    Names,
    Range,
    joined,
    ranges,
)
from host_tools.families.page_tables import DivergenceError
from host_tools.model.frames import Mask
from trace_format.trace import Trace


@dataclass(frozen=True)
class JobFlow:
    """A job of the replay.

    Attributes:
        number: from 0, in the order in which they are started.
        action: index of the action that starts it.
        kind: "compute", or that of a list.
        read, written: bytes of the carve-out.
        slots: inputs and parameters that what it wrote depends on.
        addresses, control: inputs and parameters that decide where it reads or writes; which branches, or which of
            its lanes, access memory.
        commands: inputs and parameters that its code, its uniforms or its lists depend on.
        one_sided: GPU addresses of branches that these decide, and of which only one side has run.
        reads_earlier: in some replay it reads what the inputs of the one before have left.
        faulted: with some values it faults.
    """

    number: int
    action: int
    kind: str
    read: tuple[Range, ...]
    written: tuple[Range, ...]
    slots: tuple[str, ...]
    addresses: tuple[str, ...]
    control: tuple[str, ...]
    commands: tuple[str, ...]
    one_sided: tuple[int, ...]
    reads_earlier: bool
    faulted: bool


@dataclass(frozen=True)
class Edge:
    """Bytes that one writes and another reads.

    Attributes:
        source: "slot:NAME", "job:NUMBER", "trace" (the image, and what the trace uploads or clears), or "nobody":
            memory is zero from loading on.
        target: "job:NUMBER" or "slot:NAME".
        bytes: how many different ones.
    """

    source: str
    target: str
    bytes: int


@dataclass(frozen=True)
class Part:
    """Bytes of an output, as the caller gets them, that depend on the same.

    Attributes:
        first, bytes: of the dense tensor.
        slots: inputs and parameters.
        trace: also on the image, or on what the trace uploads or clears.
        nobody: also on memory that nobody has written since the trace was loaded, which is zero.
        registers: also on what a job found in registers, which another has left there.
    """

    first: int
    bytes: int
    slots: tuple[str, ...]
    trace: bool
    nobody: bool
    registers: bool


@dataclass(frozen=True)
class OutputFlow:
    """An output; what one of its copies has, counts.

    Attributes:
        parts: all of its bytes, in ascending order.
        earlier: bytes that in some replay depend on the inputs of the one before.
        intermediate: bytes that a later job than the one that wrote them has read, if somebody uses its results.
        not_computed: bytes that no job has written before the copy.
    """

    name: str
    parts: tuple[Part, ...]
    earlier: tuple[Range, ...]
    intermediate: tuple[Range, ...]
    not_computed: tuple[Range, ...]


@dataclass(frozen=True)
class Draw:
    """A replay.

    Attributes:
        values: what inputs were given: a name of host_tools/audit/draws.py.
        stopped: why it has not come to its end; "" if it has.
        action: index of the action at which it stopped; None: it did not.
    """

    values: str
    stopped: str
    action: int | None


@dataclass(frozen=True)
class Flow:
    """What happens to data in a replay.

    Attributes:
        jobs, outputs: labels are those of all replays; what is read and written, of the first.
        edges: of the first replay.
        left: bytes of the carve-out that after a replay still depend on inputs of the one before; not state.
        state: bytes of it that a replay keeps on purpose, and that depend on its inputs.
        draws: all replays.
    """

    jobs: tuple[JobFlow, ...]
    edges: tuple[Edge, ...]
    outputs: tuple[OutputFlow, ...]
    left: tuple[Range, ...]
    state: tuple[Range, ...]
    draws: tuple[Draw, ...]

    def through(self, output: str) -> set[str]:
        """Jobs that have computed anything of an output, as in `Edge`."""
        found: set[str] = set()
        new = {f"slot:{output}"}
        while new:
            new = {edge.source for edge in self.edges if edge.target in new} - found
            found |= new
        return {source for source in found if source.startswith("job:")}


@dataclass
class _Seen:
    """What replays have shown: of each, its jobs and what was copied; what they have left; edges and state of the
    first."""

    draws: list[Draw] = field(default_factory=list)
    jobs: list[list[Job]] = field(default_factory=list)
    copied: list[dict[str, list[Copied]]] = field(default_factory=list)
    left: set[Range] = field(default_factory=set)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    state: tuple[Range, ...] = ()

    def take(self, run: Follower, values: str, stopped: str) -> None:
        """The latest replay; `stopped`: why it has not come to its end."""
        if not self.draws:
            self.edges, self.state = run.edges, run.state()
        self.draws.append(Draw(values, stopped, run.index if stopped else None))
        self.jobs.append(run.jobs)
        self.copied.append(run.copied)
        if not stopped:  # it may have been about to clear the rest
            self.left.update(run.left())


def follow(trace: Trace) -> Flow:
    """Replay a trace and follow its data.

    Raises:
        DivergenceError: a replay with usual values does not come to its end.
        VgpuError: the virtual GPU of this kind does not follow data.
    """
    seen = _replayed(trace)
    names, edges = Names.of(trace.slots), seen.edges
    used = [job for job in seen.jobs[0] if any(source == f"job:{job.number}" for source, _ in edges)]
    return Flow(
        tuple(_job(names, [row[i] for row in seen.jobs if i < len(row)]) for i in range(len(seen.jobs[0]))),
        tuple(Edge(source, target, count) for (source, target), count in edges.items()),
        tuple(_output(names, name, seen.copied, used) for name in seen.copied[0]),
        joined(sorted(seen.left, key=lambda part: part.first)),
        seen.state,
        tuple(seen.draws),
    )


def _replayed(trace: Trace) -> _Seen:
    seen, usual = _Seen(), draws.usual(trace)
    run = Follower(trace)
    try:
        for kind in draws.KINDS:
            if seen.draws and seen.draws[-1].stopped:  # nobody knows in which state
                run.close()
                run = Follower(trace)
                run.run(usual)
            if seen.draws:
                run.next_replay()
            stopped = ""
            try:
                run.run(draws.drawn(trace, usual, kind))
            except DivergenceError as error:
                if kind not in draws.MAY_STOP:
                    raise
                stopped = str(error)
            seen.take(run, kind, stopped)
    finally:
        run.close()
    return seen


def _job(names: Names, runs: list[Job]) -> JobFlow:
    """runs: the job in each replay that came to it."""
    first, decisions = runs[0], [job.decisions for job in runs]
    branches = frozenset[tuple[int, bool]]().union(*(found.branches for found in decisions))
    return JobFlow(
        first.number,
        first.action,
        first.kind,
        first.read,
        first.written,
        names.slots(_union(job.labels for job in runs)),
        names.slots(_union(found.addresses for found in decisions)),
        names.slots(_union(found.control for found in decisions)),
        names.slots(_union(found.commands for found in decisions)),
        tuple(sorted(va for va, taken in branches if (va, not taken) not in branches)),
        any(found.read & EARLIER for found in decisions),
        any(job.faulted for job in runs),
    )


def _union(labels: Iterable[int]) -> int:
    return functools.reduce(operator.or_, labels, 0)


def _output(names: Names, name: str, replays: list[dict[str, list[Copied]]], used: list[Job]) -> OutputFlow:
    """used: jobs whose results another one reads, or an output has."""
    first = replays[0][name]
    copies = [copy for replay in replays for copy in replay.get(name, ())]
    labels = np.bitwise_or.reduce([copy.labels for copy in copies])
    intermediate = np.zeros(len(labels), np.bool_)
    for copy, job in itertools.product(first, used):
        written_before = (copy.jobs >= 0) & (copy.jobs < job.number)
        intermediate |= written_before & _inside(copy.where, job.read)
    return OutputFlow(
        name,
        tuple(_parts(names, labels & ~np.uint32(EARLIER))),
        tuple(ranges(labels & EARLIER != 0)),
        tuple(ranges(intermediate)),
        tuple(ranges(np.logical_or.reduce([copy.jobs < 0 for copy in first]))),
    )


def _inside(where: NDArray[np.int64], parts: tuple[Range, ...]) -> Mask:
    """Which places lie in one of the ranges, which are in ascending order."""
    if not parts:
        return np.zeros(len(where), np.bool_)
    firsts = np.array([part.first for part in parts])
    ends = np.array([part.first + part.bytes for part in parts])
    index = np.searchsorted(firsts, where, "right") - 1
    found: Mask = (index >= 0) & (where < ends[index])
    return found


def _parts(names: Names, labels: NDArray[np.uint32]) -> Iterable[Part]:
    borders = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    for first, end in itertools.pairwise(borders):
        label = int(labels[first])
        yield Part(
            first,
            end - first,
            names.slots(label),
            bool(label & IMAGE),
            bool(label & NOBODY),
            bool(label & REGISTERS),
        )
