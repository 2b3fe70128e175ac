# SPDX-License-Identifier: BSD-2-Clause
"""Which layer of a network each job of its recording computes.

No compiler says which dispatch is whose. So the jobs are run once more, and what each of them writes is compared
with what another program makes of each layer on the CPU: not by place, for a GPU packs channels and leaves gaps,
but by sums over all values, which packing, padding by zeros and the order of channels leave as they are. What
computes no layer's result (padding, packing, a part of a softmax) is named after the layer that it leads to. Where
several layers lie between two results that are known, the jobs there have the names of all of them, and which job
computes which is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.proof import Flags
from host_tools.families.page_tables import DivergenceError
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import Interpreter
from host_tools.model.job_names import NOTE
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.vgpu.binding import ACCESS_WRITTEN, VgpuError
from trace_format.actions import Action, Op
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

KINDS = (np.dtype("<f4"), np.dtype("<f2"))
NEAR = (2e-3, 2e-2)  # of sums, for each of KINDS: a GPU's arithmetic is not the CPU's, and it writes into gaps
MOST_PARTS = 64  # jobs that together write one result, such as the parts of a Concat
Sums = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """What a layer computes.

    Attributes:
        layer, kind: its name and type.
        takes: tensors that it reads, by name.
        tensor: the one that it makes.
        sums: of its values, as `sums`.
    """

    layer: str
    kind: str
    takes: Sequence[str]
    tensor: str
    sums: Sums


def name_jobs(trace: Trace, layers: Callable[[], Sequence[Result]], inputs: Mapping[str, NDArray[Any]]) -> None:
    """Put a name for each job, such as "conv1 (Conv)", into a recording's notes: for people only.

    Args:
        trace: a raw recording with its slots; its notes stay as they are where no result is found.
        layers: computes their results, in the order of the network's file, for these inputs.
        inputs: values of the input slots.
    """
    with phase("naming the jobs after the network's layers"):
        try:
            results, jobs = layers(), _written(trace, inputs)
        except (RecordError, DivergenceError, VgpuError) as error:
            LOG.info("jobs are not named after layers: %s", error)
            return
        found = matched(jobs, [result.sums for result in results])
    if any(at is not None for at in found):
        trace.notes[NOTE] = [
            "" if not names else names[0] if len(names) == 1 else names for names in _names(found, results)
        ]


def _names(found: Sequence[int | None], results: Sequence[Result]) -> Iterator[list[str]]:
    """For each job the layers that it may compute, in the order of the network's file."""
    known = {at for at in found if at is not None}
    makers = {result.tensor: number for number, result in enumerate(results)}
    groups = {at: _until(at, known, results, makers) for at in known}
    left = set(range(len(results))) - set().union(*groups.values()) or groups[max(known)]
    for at in found:
        group = groups[at] if at is not None else left
        yield list(dict.fromkeys(f"{results[number].layer} ({results[number].kind})" for number in sorted(group)))


def _until(at: int, known: set[int], results: Sequence[Result], makers: Mapping[str, int]) -> set[int]:
    """A layer, and those whose results are only in registers until this one's is written."""
    near, seen = [at], {at}
    while near:
        takes = results[near.pop()].takes
        before = {makers[tensor] for tensor in takes if tensor in makers} - known - seen
        near += before
        seen |= before
    return seen


def sums(values: NDArray[Any]) -> Sums:
    """Of values in any order: the sum of all, of their magnitudes, and of their squares."""
    with np.errstate(all="ignore"):  # what is no float has any bits
        wide = values.astype(np.float64)
        return np.array([wide.sum(), np.abs(wide).sum(), (wide * wide).sum()])


def matched(jobs: Sequence[Sequence[Sums]], results: Sequence[Sums]) -> list[int | None]:
    """For each job the number of the result that it computes, a part of, or leads to; None: of none that is known.

    Args:
        jobs: what each wrote, as each of KINDS.
        results: of the layers, in the order of the network's file.
    """
    left = np.array(results).reshape(-1, 3)  # those that no job has computed; others are 0
    ends = {}  # job that completes a result, and the result
    since = 0
    for number in range(len(jobs)):
        whole = [np.zeros(3) for _ in KINDS]
        for first in range(number, max(since, number - MOST_PARTS + 1) - 1, -1):
            whole = [so_far + part for so_far, part in zip(whole, jobs[first], strict=True)]
            at = _result(whole, left)
            if at is not None:
                ends[number] = at
                left[at] = 0
                since = number + 1
                break
    found: list[int | None] = []
    for before, end in pairwise([-1, *ends]):
        found += [ends[end]] * (end - before)
    last = found[-1] if len(results) - 1 in ends.values() else None
    return found + [last] * (len(jobs) - len(found))  # what carries the output out, if all is computed


def _result(whole: Sequence[Sums], results: Sums) -> int | None:
    """The first result that is what jobs wrote, as one of KINDS."""
    scales = results[:, [1, 1, 2]]
    for seen, tolerance in zip(whole, NEAR, strict=True):
        if np.isfinite(seen).all():
            alike = (np.abs(results - seen) <= tolerance * scales).all(axis=1) & (scales[:, 0] > 0)
            if alike.any():
                return int(alike.argmax())
    return None


class _Watch(Interpreter):
    """Keeps the sums of what each job writes, as each of KINDS."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace, track=True)
        self.jobs: list[list[Sums]] = []
        self._begun = False

    def cut(self) -> None:
        """The latest job is over."""
        if self._begun:
            self.jobs.append(self._written(self.gpu.access_map()))
        self.gpu.clear_access()

    def _step(self, row: Action) -> None:
        if row.op == Op.JOB:
            self.cut()
            self._begun = True
        super()._step(row)

    def _written(self, seen: Mapping[int, Flags]) -> list[Sums]:
        parts = [self.memory[at:][:PAGE_BYTES][(flags & ACCESS_WRITTEN) != 0] for at, flags in seen.items()]
        data = np.concatenate([*parts, np.zeros(0, np.uint8)])
        whole = data[: data.size // 4 * 4]
        return [sums(whole.view(kind)) for kind in KINDS]


def _written(trace: Trace, inputs: Mapping[str, NDArray[Any]]) -> list[list[Sums]]:
    """What each job of a recording writes."""
    run = _Watch(trace)
    try:
        run.run({name: tensor.reshape(trace.slot(name).shape) for name, tensor in inputs.items()})
        run.cut()
    finally:
        run.close()
    return run.jobs
