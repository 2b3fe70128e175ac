# SPDX-License-Identifier: BSD-2-Clause
"""Of copies with the same values, the one that jobs read for the CPU is an output, whatever was written when."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from host_tools.accesses.proof import Job
from host_tools.model.mappings import Mappings
from host_tools.record.copies import HANDED_OUT, NOBODY, READ_BY_JOBS, READ_FOR_THE_CPU, Copies
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

READ = ACCESS_READ | ACCESS_READ_FIRST
SIZE = 64
FIRST_PAGE, FIRST_FRAME = 0x300, 7
BUFFERS = 8


def at(buffer: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Addresses of a buffer's elements: two of them share a page, and one crosses its border."""
    return FIRST_PAGE * PAGE_BYTES + buffer * (PAGE_BYTES // 2 - SIZE // 2) + np.arange(0, SIZE, 4)


def job(reads: Iterable[int] = (), writes: Iterable[int] = (), *, again: Iterable[int] = ()) -> Job:
    """One that reads and writes buffers; `again`: and reads what it wrote."""
    flags = np.zeros((BUFFERS, PAGE_BYTES), np.uint8)
    for buffers, flag in ((reads, READ), (writes, ACCESS_WRITTEN), (again, ACCESS_READ)):
        for buffer in buffers:
            start = int(at(buffer)[0]) - FIRST_PAGE * PAGE_BYTES
            flags.reshape(-1)[start : start + SIZE] |= flag
    return Job({FIRST_FRAME + page: row for page, row in enumerate(flags) if row.any()}, varies=False)


def copies(*jobs: Job) -> Copies:
    return Copies(jobs, Mappings.of([(0, FIRST_PAGE, FIRST_FRAME, 0, BUFFERS)]))


def test_the_download_and_what_it_is_of() -> None:
    seen = copies(job([0], [1]), job([1], [2]), job([2], [3]))
    assert [seen.rank(at(buffer)) for buffer in range(4)] == [
        (READ_BY_JOBS, False, NOBODY),
        (READ_BY_JOBS, True, 0),
        (READ_FOR_THE_CPU, True, 1),
        (HANDED_OUT, True, 2),
    ]
    assert seen.downloads == [2]


def test_a_copy_that_was_made_later_for_a_layer_does_not_count() -> None:
    """As in the network that was recorded with a wrong slot: 4 was written last, and read by a layer."""
    seen = copies(job([0], [1]), job([1], [2]), job([2], [3]), job([1], [4]), job([4], [5]), job([5], [6]))
    ranks = {buffer: seen.rank(at(buffer)) for buffer in (1, 2, 3, 4)}
    assert max(ranks, key=lambda buffer: ranks[buffer]) == 3
    assert ranks[4] == (READ_BY_JOBS, True, 3)


def test_a_download_whose_memory_was_used_again() -> None:
    """Buffer 3 has the first output's download, then the second's."""
    seen = copies(job([0], [1]), job([1], [3]), job([1], [2]), job([2], [4]), job([4], [3]))
    assert seen.rank(at(1)) == (READ_FOR_THE_CPU, True, 0)
    assert seen.rank(at(2)) == (READ_BY_JOBS, True, 2)
    assert seen.rank(at(4)) == (READ_FOR_THE_CPU, True, 3)
    assert seen.rank(at(3)) == (HANDED_OUT, True, 4)


def test_one_word_of_a_larger_output_is_not_the_output() -> None:
    """A mask of one element has the values of many a first element."""
    seen = copies(job([0], [1]), job([1], [2]))
    assert seen.rank(at(2)[:1]) == (HANDED_OUT, False, 1)
    assert seen.rank(at(2)[3:5]) == (HANDED_OUT, False, 1)


def test_the_download_may_be_known() -> None:
    """Two outputs of the same values: each is what its own download wrote."""
    seen = copies(job([0], [1]), job([1], [2]), job([1], [3]))
    assert seen.downloads == [1, 2]
    assert [seen.rank(at(buffer), 2).use for buffer in (1, 2, 3)] == [READ_FOR_THE_CPU, READ_BY_JOBS, HANDED_OUT]


def test_a_chain_that_writes_and_reads() -> None:
    """One job of a Mali's may be several layers; a layer in place reads before it writes."""
    assert copies(job([0], [1, 2], again=[1])).rank(at(1)) == (READ_BY_JOBS, True, 0)
    assert copies(job([0], [1, 2], again=[1])).rank(at(2)) == (HANDED_OUT, True, 0)
    assert copies(job([0], [1]), job([1], [1])).rank(at(1)) == (HANDED_OUT, True, 1)


def test_where_buffers_begin() -> None:
    found = copies(job([0], [1, 3]), job([3], [5])).beginnings()
    assert found.tolist() == [int(at(buffer)[0]) for buffer in (1, 3, 5)]
