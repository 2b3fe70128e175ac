# SPDX-License-Identifier: BSD-2-Clause
"""During which jobs a page holds what a later job needs."""

from __future__ import annotations

import numpy as np

from host_tools.accesses.liveness import live_jobs
from host_tools.accesses.proof import Job
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

READS, WRITES = ACCESS_READ | ACCESS_READ_FIRST, ACCESS_WRITTEN


def job(varies: bool = False, **accesses: tuple[int, int]) -> Job:
    """What it does with so many bytes of pages f0, f1 ..."""
    found = {}
    for name, (flags, size) in accesses.items():
        page = np.zeros(PAGE_BYTES, np.uint8)
        page[:size] = flags
        found[int(name[1:])] = page
    return Job(found, varies)


def live(*jobs: Job) -> list[bool]:
    """Of page 0."""
    found: list[bool] = live_jobs(jobs, {0})[0].tolist()
    return found


def test_a_page_is_free_between_its_last_reader_and_the_next_writer() -> None:
    whole = (WRITES, 64)
    jobs = [job(f0=whole), job(), job(f0=(READS, 64)), job(), job(f0=whole), job(f0=(READS, 8)), job()]
    assert live(*jobs) == [True, True, True, False, True, True, False]


def test_what_is_written_in_part_is_kept() -> None:
    assert live(job(f0=(WRITES, 64)), job(), job(f0=(WRITES, 32)), job(f0=(READS, 64))) == [True] * 4


def test_what_is_read_before_anything_is_written_is_there_from_the_start() -> None:
    assert live(job(), job(), job(f0=(READS, 4))) == [True] * 3


def test_a_job_that_varies_frees_nothing() -> None:
    assert live(job(), job(varies=True, f0=(WRITES, 64)), job(f0=(READS, 64))) == [True] * 3


def test_other_pages_are_left_out() -> None:
    assert live_jobs([job(f1=(READS, 4))], {0}) == {}
