# SPDX-License-Identifier: BSD-2-Clause
"""Where the data of a trace goes: from slots through jobs to slots, byte by byte, on the virtual GPU.

`follow` replays a trace twice. In the first replay every input and parameter is given, and each has its own label.
In the second, inputs that may be left out are; what the inputs of the first have left in memory is "earlier".
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.observe import OTHER_SEED, random_inputs
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
    ranges,
)
from host_tools.model.frames import Mask
from trace_format.schema import SlotKind
from trace_format.trace import Trace

GIVEN = (SlotKind.INPUT, SlotKind.PARAMETER)


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
        reads_earlier: in the second replay it reads what the first one's inputs have left.
    """

    number: int
    action: int
    kind: str
    read: tuple[Range, ...]
    written: tuple[Range, ...]
    slots: tuple[str, ...]
    addresses: tuple[str, ...]
    control: tuple[str, ...]
    reads_earlier: bool


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
    """An output.

    Attributes:
        parts: all of its bytes, in ascending order.
        earlier: bytes that in the second replay depend on the inputs of the first.
        intermediate: bytes that a later job than the one that wrote them has read, if somebody uses its results.
        not_computed: bytes that no job has written in the replay.
    """

    name: str
    parts: tuple[Part, ...]
    earlier: tuple[Range, ...]
    intermediate: tuple[Range, ...]
    not_computed: tuple[Range, ...]


@dataclass(frozen=True)
class Flow:
    """What happens to data in a replay.

    Attributes:
        jobs, edges, outputs: of the first replay, where nothing else is said.
        left: bytes of the carve-out that after the second replay still depend on inputs of the first; not state.
        state: bytes of it that a replay keeps on purpose, and that depend on its inputs.
    """

    jobs: tuple[JobFlow, ...]
    edges: tuple[Edge, ...]
    outputs: tuple[OutputFlow, ...]
    left: tuple[Range, ...]
    state: tuple[Range, ...]

    def through(self, output: str) -> set[str]:
        """Jobs that have computed anything of an output, as in `Edge`."""
        found: set[str] = set()
        new = {f"slot:{output}"}
        while new:
            new = {edge.source for edge in self.edges if edge.target in new} - found
            found |= new
        return {source for source in found if source.startswith("job:")}

    def as_json(self) -> dict[str, Any]:
        """The same in lists and dictionaries."""
        return asdict(self)


def follow(trace: Trace) -> Flow:
    """Replay a trace twice and follow its data.

    Raises:
        DivergenceError: a replay does not come to its end.
        VgpuError: the virtual GPU of this kind does not follow data.
    """
    given = random_inputs(trace, OTHER_SEED, GIVEN)
    optional = {slot.name for slot in trace.slots if slot.kind == SlotKind.INPUT and slot.bound}
    with contextlib.closing(Follower(trace)) as run:
        run.run(given)
        jobs, edges, copied = run.jobs, run.edges, run.copied
        state = run.state()
        used = [job for job in jobs if any(source == f"job:{job.number}" for source, _ in edges)]
        run.next_replay()
        run.run({name: value for name, value in given.items() if name not in optional})
        return Flow(
            tuple(_job(run.names, job, again) for job, again in zip(jobs, run.jobs, strict=True)),
            tuple(Edge(source, target, count) for (source, target), count in edges.items()),
            tuple(_output(run.names, name, copied[name], run.copied[name], used) for name in copied),
            run.left(),
            state,
        )


def _job(names: Names, job: Job, again: Job) -> JobFlow:
    return JobFlow(
        job.number,
        job.action,
        job.kind,
        job.read,
        job.written,
        names.slots(job.labels),
        names.slots(job.decisions.addresses),
        names.slots(job.decisions.control),
        bool(again.decisions.read & EARLIER),
    )


def _output(names: Names, name: str, first: Copied, second: Copied, used: list[Job]) -> OutputFlow:
    """used: jobs whose results another one reads, or an output has."""
    intermediate = np.zeros(len(first.where), np.bool_)
    for job in used:
        written_before = (first.jobs >= 0) & (first.jobs < job.number)
        intermediate |= written_before & _inside(first.where, job.read)
    return OutputFlow(
        name,
        tuple(_parts(names, first.labels)),
        tuple(ranges(second.labels & EARLIER != 0)),
        tuple(ranges(intermediate)),
        tuple(ranges(first.jobs < 0)),
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
