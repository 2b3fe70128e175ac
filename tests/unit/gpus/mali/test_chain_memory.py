# SPDX-License-Identifier: BSD-2-Clause
"""What chains do to memory: as observed where that is proved, else all that they can reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.job_accesses import moved
from host_tools.accesses.proof import Job
from host_tools.gpus.mali.chain_memory import ChainMemory
from host_tools.model.mappings import Mappings
from host_tools.model.memory import Memory
from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support.chain_samples import STORAGE, job_page, pointers
from tests.support.mali_chains import PAGE, RX, Area, submit, thread_storage, trace

CODE, JOBS, WORK, SCRATCH = 0x10000000, 0x10200000, 0x20000000, 0x30000000
READ = ACCESS_READ | ACCESS_READ_FIRST
Parts = dict[tuple[int, int], int]  # (first, end): flags of bytes of a page
Seen = dict[int, Parts]  # GPU address of a page -> what was done there


class Chains:
    """A trace of chains, each with a page of descriptors that pushes the address of a region of four pages."""

    def __init__(self, count: int, *, content: bytes = b"x") -> None:
        jobs = b""
        for i in range(count):
            at = JOBS + i * PAGE
            jobs += job_page(at, CODE, pushed=pointers(WORK), storage=thread_storage(stack=SCRATCH))
        areas = [Area(CODE, 2, RX, b"code"), Area(JOBS, count, data=jobs), Area(SCRATCH, 3)]
        areas += [Area(WORK, 4, data=content)]
        self.count = count
        self.memory = Memory.of(trace(areas, *(submit(JOBS + i * PAGE) for i in range(count))))

    def frame(self, va: int) -> int:
        return self.memory.mappings[0, va // PAGE].frame

    def job(self, number: int, seen: Seen, *, varies: bool = False) -> Job:
        """What the chain of a number did: its header was read and got a status; besides that `seen`."""
        header = {(0, 192): READ | ACCESS_COMMAND, (0, 16): READ | ACCESS_COMMAND | ACCESS_WRITTEN}
        found = {self.frame(va): flags(parts) for va, parts in ({JOBS + number * PAGE: header} | seen).items()}
        return Job(found, varies)

    def seen(self, *jobs: Job, given: dict[int, NDArray[np.bool_]] | None = None) -> ChainMemory:
        return ChainMemory(self.memory, jobs, given or {})

    def pages(self, seen: ChainMemory, va: int, count: int) -> list[tuple[bool, bool]]:
        """Of some pages: whether they are touched, and whether they may be written."""
        frames = [self.frame(va + i * PAGE) for i in range(count)]
        return [(seen.touched(frame), seen.written(frame)) for frame in frames]


def flags(parts: Parts) -> NDArray[np.uint8]:
    found = np.zeros(PAGE, np.uint8)
    for (first, end), value in parts.items():
        found[first:end] = value
    return found


ALL, OFF, RO, RW = (0, PAGE), (False, False), (True, False), (True, True)


def test_a_proved_chain_touches_what_it_was_seen_to_touch() -> None:
    chains = Chains(1)
    work = {WORK + PAGE: {(0, 8): READ}, WORK + 2 * PAGE: {(0, 64): ACCESS_WRITTEN | ACCESS_READ}}
    seen = chains.seen(chains.job(0, work))
    assert seen.searched == set()
    assert chains.pages(seen, WORK, 4) == [OFF, RO, RW, OFF]
    assert np.flatnonzero(seen.needed(chains.frame(WORK + PAGE))).tolist() == list(range(8))
    assert not seen.needed(chains.frame(WORK + 2 * PAGE)).any()
    assert seen.overwritten(chains.frame(WORK + 2 * PAGE)).sum() == 64


def test_of_other_chains_all_counts_that_they_can_reach() -> None:
    chains = Chains(1)
    for jobs in ([], [chains.job(0, {}, varies=True)]):
        seen = chains.seen(*jobs)
        assert seen.searched == {0}
        assert chains.pages(seen, WORK, 4) == [RW] * 4
        assert seen.needed(chains.frame(WORK)).all()
        assert not seen.overwritten(chains.frame(WORK)).any()


def test_what_the_number_of_chains_does_not_fit_is_not_believed() -> None:
    chains = Chains(2)
    assert chains.seen(chains.job(0, {})).searched == {0, 1}


def test_descriptors_and_storage_of_a_proved_chain_stay_whole() -> None:
    """A chip's threads have storage of their own, to the end of what the driver allocated."""
    chains = Chains(1)
    seen = chains.seen(chains.job(0, {SCRATCH: {(0, 64): ACCESS_WRITTEN}}))
    assert chains.pages(seen, SCRATCH, 3) == [RW] * 3
    assert chains.pages(seen, JOBS, 1) == [RW], "the job manager writes the status there"
    assert chains.pages(seen, CODE, 2) == [RO] * 2
    needed = np.flatnonzero(seen.needed(chains.frame(JOBS)))
    assert set(range(STORAGE, STORAGE + 32)) <= set(needed.tolist()), "which the job was not seen to read"


def test_a_chain_whose_descriptors_an_earlier_one_writes() -> None:
    chains = Chains(3)
    writes = {JOBS + PAGE: {(100, 104): ACCESS_WRITTEN}}
    seen = chains.seen(chains.job(0, writes), chains.job(1, {}), chains.job(2, {}))
    assert seen.searched == {1, 2}, "the third's lie behind the second's, which now count as reached"
    beside = {JOBS + PAGE: {(192, 200): ACCESS_WRITTEN}}
    assert chains.seen(chains.job(0, beside), chains.job(1, {}), chains.job(2, {})).searched == set()


def test_a_later_chain_may_write_them() -> None:
    """Every replay begins with them as they were."""
    chains = Chains(2)
    writes = {JOBS: {(100, 104): ACCESS_WRITTEN}}
    assert chains.seen(chains.job(0, {}), chains.job(1, writes)).searched == set()


def test_a_chain_whose_descriptors_one_may_write_that_is_not_proved() -> None:
    chains = Chains(2)
    table = {WORK: {(0, 8): READ | ACCESS_COMMAND}}
    proved = chains.job(1, table)
    assert chains.seen(chains.job(0, {}), proved).searched == set()
    assert chains.seen(chains.job(0, {}, varies=True), proved).searched == {0, 1}


def test_a_chain_that_finds_its_buffers_in_a_slot() -> None:
    chains = Chains(1)
    job = chains.job(0, {WORK: {(0, 8): READ | ACCESS_COMMAND}})
    slot = flags({(7, 8): 1}) != 0
    assert chains.seen(job, given={chains.frame(WORK): slot}).searched == {0}
    assert chains.seen(job, given={chains.frame(WORK): np.roll(slot, 1)}).searched == set()


def test_what_one_chain_writes_the_next_need_not_find() -> None:
    chains = Chains(2)
    first, second = {(0, 64): ACCESS_WRITTEN}, {(32, 96): READ}
    seen = chains.seen(chains.job(0, {WORK: first}), chains.job(1, {WORK: second}))
    assert np.flatnonzero(seen.needed(chains.frame(WORK))).tolist() == list(range(64, 96))
    assert seen.use(chains.frame(WORK)) == (0, 1)
    unproved = chains.seen(chains.job(0, {WORK: first}, varies=True), chains.job(1, {WORK: second}))
    assert unproved.needed(chains.frame(WORK)).all(), "who knows whether it writes"


def test_accesses_follow_the_pages() -> None:
    before = Mappings.of([(0, 10, 5, 3, 2), (0, 20, 6, 3, 1)])  # frame 6 twice
    after = Mappings.of([(0, 11, 1, 3, 1), (0, 20, 2, 3, 1)])
    where = flags({ALL: READ})
    (job,) = moved([Job({5: where, 6: where}, False)], before, after)
    assert job.accesses.keys() == {1, 2}
