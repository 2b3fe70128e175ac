# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs run once: replays of random programs, split, leave the memory that the recorded order leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.accesses.by_job import joined
from host_tools.accesses.proof import AccessMap
from host_tools.gpus.mali.splitting import Split
from host_tools.model.memory import Conflict
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support.sampling import few
from trace_format.schema import PAGE_BYTES

FRAME, CELLS = 7, 10
Memory = list[object]


@dataclass(frozen=True)
class Job:
    """Reads cells, then writes to others what follows from what it read."""

    reads: frozenset[int]
    writes: frozenset[int]

    def run(self, number: int, memory: Memory) -> None:
        found = tuple(memory[cell] for cell in sorted(self.reads))
        for cell in self.writes:
            memory[cell] = (number, cell, found)

    @property
    def accesses(self) -> AccessMap:
        flags = np.zeros(PAGE_BYTES, np.uint8)
        flags[list(self.reads)] |= ACCESS_READ | ACCESS_READ_FIRST
        flags[list(self.writes)] |= ACCESS_WRITTEN
        return {FRAME: flags}


@dataclass(frozen=True)
class Program:
    """Jobs, and cells of inputs and parameters; other cells hold constants."""

    jobs: Sequence[Job]
    inputs: frozenset[int]
    parameters: Sequence[frozenset[int]]

    def fill(self, memory: Memory, cells: Sequence[int]) -> None:
        for cell in cells:
            memory[cell] = ("constant", cell)

    def give(self, memory: Memory, replay: int) -> None:
        for cell in self.inputs:
            memory[cell] = ("input", cell, replay)

    def copy(self, memory: Memory, parameter: int) -> None:
        for cell in self.parameters[parameter]:
            memory[cell] = ("parameter", cell)

    def split(self) -> Split:
        return Split(
            mask(self.inputs), [mask(cells) for cells in self.parameters], [j.accesses for j in self.jobs]
        )


def mask(cells: frozenset[int]) -> Mapping[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    found = np.zeros(PAGE_BYTES, np.bool_)
    found[list(cells)] = True
    return {FRAME: found} if cells else {}


CELL_SETS = st.frozensets(st.integers(0, CELLS - 1), max_size=3)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    cells = draw(st.permutations(range(CELLS)))
    jobs = draw(st.lists(st.builds(Job, CELL_SETS, CELL_SETS), min_size=2, max_size=7))
    return Program(jobs, frozenset(cells[:1]), [frozenset(cells[1:3]), frozenset(cells[3:5])])


def as_recorded(program: Program, replays: int) -> list[Memory]:
    memory: Memory = [None] * CELLS
    found = []
    for replay in range(replays):
        program.fill(memory, range(CELLS))
        for parameter in range(len(program.parameters)):
            program.copy(memory, parameter)
        program.give(memory, replay)
        for number, job in enumerate(program.jobs):
            job.run(number, memory)
        found.append(list(memory))
    return found


def split_up(program: Program, split: Split, replays: int) -> list[Memory]:
    memory: Memory = [None] * CELLS
    found = []
    program.fill(memory, range(CELLS))
    for parameter in range(len(program.parameters)):
        program.copy(memory, parameter)
    for number, job in enumerate(program.jobs[: split.first]):
        job.run(number, memory)
    refilled = [cell for cell in range(CELLS) if split.refilled(FRAME)[cell]]
    for replay in range(replays):
        program.fill(memory, refilled)
        for parameter in split.again:
            program.copy(memory, parameter)
        program.give(memory, replay)
        for number, job in enumerate(program.jobs[split.first :], split.first):
            job.run(number, memory)
        found.append(list(memory))
    return found


@few(40, 500)
@given(programs())
def test_memory_is_as_in_the_recorded_order(program: Program) -> None:
    split = program.split()
    if split.first:
        assert split_up(program, split, 3) == as_recorded(program, 3)


def test_of_random_programs_some_are_split_in_each_way() -> None:
    """So that the test above can fail: all jobs before the input's, some of them, with a parameter again."""
    prepare, use = Job(frozenset({1}), frozenset({5})), Job(frozenset({0, 5}), frozenset({6}))
    assert Program([prepare, use], frozenset({0}), [frozenset({1})]).split().first == 1
    overwrites = Job(frozenset({6}), frozenset({5}))
    assert Program([prepare, use, overwrites], frozenset({0}), [frozenset({1})]).split().first == 0
    other = Job(frozenset({1}), frozenset({7}))
    assert Program([other, prepare, use, overwrites], frozenset({0}), [frozenset({1})]).split().first == 1
    changes = Job(frozenset({2}), frozenset({2}))
    split = Program([prepare, use, changes], frozenset({0}), [frozenset({1}), frozenset({2})]).split()
    assert (split.first, split.again) == (1, [1])


def test_a_slot_that_holds_descriptors_is_refused() -> None:
    job = Job(frozenset({1}), frozenset()).accesses
    job[FRAME][1] |= ACCESS_COMMAND
    with pytest.raises(Conflict, match="a slot holds descriptors or code"):
        Split({}, [mask(frozenset({1}))], [job])


def test_jobs_joined() -> None:
    first, second = Job(frozenset({1}), frozenset({2})), Job(frozenset({2, 3}), frozenset({1}))
    (flags,) = joined([first.accesses, second.accesses]).values()
    expected = {1: READ | ACCESS_WRITTEN, 2: ACCESS_WRITTEN | ACCESS_READ, 3: READ}
    assert {i: int(flag) for i, flag in enumerate(flags) if flag} == expected


READ = ACCESS_READ | ACCESS_READ_FIRST
