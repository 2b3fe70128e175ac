# SPDX-License-Identifier: BSD-2-Clause
"""Memory planning: regions share pages only while no two of them are in use."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.accesses.proof import Job
from host_tools.gpus.mali.chain_memory import ChainMemory
from host_tools.gpus.mali.planning import spans
from host_tools.model.memory import BLOCK_PAGES, Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.passes.planning import ALWAYS, Item, items, place
from host_tools.vgpu.binding import ACCESS_WRITTEN
from tests.support.chain_samples import job_page, pointers
from tests.support.mali_chains import PAGE, RO, RX, Area, CpuWrite, submit, trace
from tests.support.sampling import few
from trace_format.actions import Op, actions_of
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

CODE, JOBS, WORK = 0x10000000, 0x10200000, 0x20000000
SPACING = 0x800000
POINTERS = 8  # that a job pushes at most


@st.composite
def found_items(draw: st.DrawFn) -> list[Item]:
    """Regions of up to four blocks, anywhere in a block, each in use for some chains or always."""
    result, frame = [], 0
    for _ in range(draw(st.integers(1, 12))):
        pages = draw(st.one_of(st.integers(1, 40), st.integers(1, 4 * BLOCK_PAGES)))
        first = draw(st.integers(0, 9))
        use = draw(st.sampled_from([ALWAYS, (first, draw(st.integers(first, 9)))]))
        result.append(Item(draw(st.integers(0, 1 << 20)), frame, pages, *use))
        frame += pages + 1
    return result


def in_use(item: Item, chain: int) -> bool:
    return item.first <= chain <= item.last


@few(40, 300)
@given(found_items(), st.integers(0, 2000))
def test_no_page_is_used_twice_at_a_time(found: list[Item], start: int) -> None:
    placed = place(found, start)
    assert placed.keys() == set(found)
    assert min(placed.values()) >= start
    for chain in range(-1, 11):
        ranges = sorted((at, at + item.pages) for item, at in placed.items() if in_use(item, chain))
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ranges))


@few(40, 300)
@given(found_items(), st.integers(0, 2000))
def test_a_region_with_a_whole_block_keeps_its_place_in_a_block(found: list[Item], start: int) -> None:
    for item, at in place(found, start).items():
        blocks = [p for p in range(item.page, item.page + item.pages) if p % BLOCK_PAGES == 0]
        whole = any(p + BLOCK_PAGES <= item.page + item.pages for p in blocks)
        assert (item.block_offset(BLOCK_PAGES) is not None) == whole
        if whole:
            assert at % BLOCK_PAGES == item.page % BLOCK_PAGES


def size(found: list[Item], start: int) -> int:
    return max(at + item.pages for item, at in place(found, start).items()) - start


@few(40, 300)
@given(found_items(), st.integers(0, 2000))
def test_sharing_takes_no_more_memory(found: list[Item], start: int) -> None:
    alone = [replace(item, first=ALWAYS[0], last=ALWAYS[1]) for item in found]
    assert size(found, start) <= size(alone, start)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=9))
def test_small_regions_one_after_the_other_take_as_much_as_the_largest(pages: list[int]) -> None:
    assert size([Item(i, i * 40, n, i, i) for i, n in enumerate(pages)], 0) == max(pages)
    assert size([Item(i, i * 40, n, *ALWAYS) for i, n in enumerate(pages)], 0) == sum(pages)


# Traces: chain i pushes the addresses of the regions that it uses.


def network(
    sizes: list[int], uses: list[list[int]], *, flags: int = 3, waits: bool = True, **options: Any
) -> Trace:
    """Regions of `sizes` pages without content, and chains that use those of `uses`, by number."""
    place = [WORK + i * SPACING for i in range(len(sizes))]
    jobs = b""
    for i, used in enumerate(uses):
        at = JOBS + i * PAGE
        jobs += job_page(at, CODE, pushed=pointers(*(place[n] for n in used)).ljust(8 * POINTERS, b"\0"))
    areas = [Area(CODE, 1, RX, b"code"), Area(JOBS, len(uses), data=jobs)]
    areas += [Area(va, pages, flags) for va, pages in zip(place, sizes, strict=True)]
    stream = [submit(JOBS + i * PAGE, waits=waits or i == 0) for i in range(len(uses))]
    return trace(areas, *stream, *options.pop("more", ()), **options)


def frames(source: Trace) -> dict[int, set[int]]:
    """Carve-out pages of every region, by number; other memory by -1."""
    found: dict[int, set[int]] = {}
    for row in actions_of(source.actions[source.actions["op"] == Op.MAP_GPU_MEM]):
        va = row.va_page * PAGE
        number = (va - WORK) // SPACING if va >= WORK else -1
        found.setdefault(number, set()).update(range(row.frame, row.frame + row.pages))
    return found


def overlap(source: Trace) -> set[tuple[int, int]]:
    """Pairs of regions that share pages."""
    where = frames(source)
    return {(a, b) for a in where for b in where if a < b and where[a] & where[b]}


@few(15, 60, deadline=None)
@given(st.data())
def test_regions_of_a_trace_share_when_no_chain_uses_both_in_its_time(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 20, 600]), min_size=1, max_size=6))
    region = st.integers(0, len(sizes) - 1)
    uses = data.draw(st.lists(st.lists(region, max_size=POINTERS), min_size=1, max_size=6))
    source = network(sizes, uses)
    planned = PASSES["relocate"](PASSES["plan-memory"](source))
    planned.check()
    time = {n: [i for i, used in enumerate(uses) if n in used] or [-1, len(uses)] for n in range(len(sizes))}
    for a, b in overlap(planned):
        assert a >= 0, "code and descriptors share with none"
        assert max(time[a]) < min(time[b]) or max(time[b]) < min(time[a])
    gaps = sum(2 * BLOCK_PAGES * PAGE for n in sizes if n > BLOCK_PAGES)  # so that blocks fit
    assert planned.carveout_bytes <= PASSES["relocate"](source).carveout_bytes + gaps
    once = build(source)
    twice = build(once)
    assert (twice.image, twice.actions.tolist()) == (once.image, once.actions.tolist())
    assert twice.carveout_bytes == once.carveout_bytes


ONE_AFTER_THE_OTHER = [[0], [1], [2]]


def test_three_of_equal_size_take_the_place_of_one() -> None:
    planned = build(network([7, 7, 7], ONE_AFTER_THE_OTHER))
    assert overlap(planned) == {(0, 1), (0, 2), (1, 2)}
    assert len(frames(planned)[0] | frames(planned)[1] | frames(planned)[2]) == 7


def test_a_region_is_in_use_between_its_first_and_its_last_chain() -> None:
    assert overlap(build(network([7, 7, 7], [[0], [1], [0], [2]]))) == {(0, 2)}
    assert overlap(build(network([9, 7, 7], [[1], [0], [1], [2]]))) == {(0, 2)}


def test_jobs_that_run_at_the_same_time_share_nothing() -> None:
    source = network([7, 7, 7], ONE_AFTER_THE_OTHER, waits=False)
    assert overlap(build(source)) == set()


def test_two_slots_of_the_job_manager_at_the_same_time() -> None:
    """The second chain starts before the first one's end was waited for."""
    source = network([7, 7], [[0], [1]])
    rows = source.actions
    starts = np.flatnonzero(rows["op"] == Op.JOB)
    ends = np.flatnonzero(rows["op"] == Op.WAIT_IRQ)
    first = rows[starts[0] : ends[0]]
    rest = rows[starts[1] :]
    both = source.with_(actions=np.concatenate([rows[: starts[0]], first, rest]))
    assert overlap(build(source)) == {(0, 1)}
    assert overlap(build(both)) == set()


def test_a_wait_for_another_line_is_none() -> None:
    source = network([7, 7], [[0], [1]])
    rows = source.actions.copy()
    rows["arg"][rows["op"] == Op.WAIT_IRQ] = 2
    assert overlap(build(source.with_(actions=rows))) == set()


def test_the_last_chain_is_not_waited_for() -> None:
    """The next replay would begin while it runs."""
    source = network([7, 7], [[0], [1]])
    waits = np.flatnonzero(source.actions["op"] == Op.WAIT_IRQ)
    assert overlap(build(source.with_(actions=source.actions[: waits[-1]]))) == set()


@pytest.mark.parametrize("kind", SlotKind)
@pytest.mark.parametrize("bound", [False, True])
def test_slots_share_with_none(kind: SlotKind, bound: bool) -> None:
    slot = Slot("x", kind, DType.FLOAT32, (8,), (4,), WORK + SPACING + 6 * PAGE, bound=bound)
    planned = build(network([7, 7, 7], ONE_AFTER_THE_OTHER, slots=[slot]), skip=["constants"])
    assert overlap(planned) == {(0, 2)}


def test_what_the_cpu_writes_between_jobs_shares_with_none() -> None:
    cpu_writes = CpuWrite(WORK + SPACING + 3 * PAGE, b"late")
    source = network([7, 7, 7], ONE_AFTER_THE_OTHER, more=[cpu_writes, submit(JOBS)])
    assert (0, 2) not in overlap(build(source)), "0 is used again"
    source = network([7, 7, 7], ONE_AFTER_THE_OTHER, more=[cpu_writes, submit(JOBS + 2 * PAGE)])
    assert overlap(build(source)) == {(0, 2)}


def test_content_shares_with_none() -> None:
    source = network([7, 7, 7], ONE_AFTER_THE_OTHER)
    memory = Memory.of(source)
    memory.pages[memory.mappings[0, (WORK + SPACING) // PAGE + 2].frame].own()
    assert overlap(PASSES["plan-memory"](source)) == {(0, 1), (0, 2), (1, 2)}
    filled = items(memory, spans(memory, ChainMemory(memory, [], {})), memory.frames & memory.written_frames())
    (second,) = [item for item in filled if item.page == (WORK + SPACING) // PAGE]
    assert (second.first, second.last) == ALWAYS


def test_what_no_chain_reaches_shares_with_none() -> None:
    planned = PASSES["plan-memory"](network([7, 7, 7], [[0], [2]]))
    assert overlap(planned) == {(0, 2)}


def test_large_regions_lie_as_blocks_need_them() -> None:
    planned = build(network([1200, 3, 1200, 5], [[0, 1], [2, 3]]))
    for row in actions_of(planned.actions[planned.actions["op"] == Op.MAP_GPU_MEM]):
        if row.pages >= BLOCK_PAGES:
            assert (row.frame - row.va_page) % BLOCK_PAGES == 0
    assert {(0, 2), (1, 3)} <= overlap(planned)


def test_a_read_only_region_of_which_a_caller_writes_a_page() -> None:
    """That page lies after the image, the others in it; nothing is left between them."""
    slot = Slot("x", SlotKind.INPUT, DType.FLOAT32, (8,), (4,), WORK + PAGE)
    source = network([3, 7], [[0], [1]], flags=RO, slots=[slot])
    planned = build(source)
    assert planned.carveout_bytes <= (len(planned.image) // PAGE + 1 + 12) * PAGE
    assert planned.carveout_bytes <= build(source, skip=["plan-memory"]).carveout_bytes


def test_a_trace_without_jobs_is_left_alone() -> None:
    source = network([7, 7], [[0], [1]])
    maps = source.actions[source.actions["op"] == Op.MAP_GPU_MEM]
    other = source.with_(gpu="v3d42", va_bytes=1 << 32, actions=maps)
    assert PASSES["plan-memory"](other).actions.tolist() == maps.tolist()


def test_two_address_spaces_that_share_memory_are_left_alone() -> None:
    source = network([7, 7], [[0], [1]])
    rows = source.actions
    maps = rows[rows["op"] == Op.MAP_GPU_MEM].copy()
    maps["arg"] |= 1
    both = source.with_(actions=np.concatenate([maps, rows]))
    assert overlap(PASSES["plan-memory"](both)) == overlap(build(both)) == set()


def test_pages_of_one_region_share_where_it_is_proved_when_each_is_used() -> None:
    """Both chains are given the region; the first was seen to access its beginning, the second its end."""
    memory = Memory.of(network([8], [[0], [0]]))
    frames = [memory.mappings[0, WORK // PAGE + i].frame for i in range(8)]
    written = np.full(PAGE, ACCESS_WRITTEN, np.uint8)
    jobs = [Job(dict.fromkeys(part, written), False) for part in (frames[:3], frames[3:])]
    working = set(frames)
    found = items(memory, spans(memory, ChainMemory(memory, jobs, {})), working)
    assert [(item.page - WORK // PAGE, item.pages, item.first, item.last) for item in found] == [
        (0, 3, 0, 0),
        (3, 5, 1, 1),
    ]
    assert size(found, 0) == 5
    (whole,) = items(memory, spans(memory, ChainMemory(memory, [], {})), working)
    assert (whole.pages, whole.first, whole.last) == (8, 0, 1)
