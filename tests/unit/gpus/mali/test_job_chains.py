# SPDX-License-Identifier: BSD-2-Clause
"""What job chains can reach: typed pointers, and words that may be pointers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali.job_chains import ChainError, Reach, chains, reach, regions
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from tests.support.chain_samples import (
    CODE,
    DATA,
    FLUSH,
    JOBS,
    LAST,
    MORE,
    NULL,
    PUSH,
    STATE,
    TABLE,
    areas,
    jobs,
    pointers,
)
from tests.support.mali_chains import (
    PAGE,
    RO,
    RW,
    RX,
    Area,
    CpuWrite,
    compute,
    header,
    page,
    renderer_state,
    submit,
    thread_storage,
    trace,
    uniform_table,
    write_value,
)
from trace_format.trace import Trace


class Reached:
    """The reach of a trace, looked up by address."""

    def __init__(self, source: Trace) -> None:
        self.memory = Memory.of(source)
        self.reach: Reach = reach(self.memory)

    def frame(self, va: int, space: int = 0) -> int:
        return self.memory.mappings[space, va // PAGE].frame

    def touched(self, va: int, space: int = 0) -> bool:
        return self.reach.touched(self.frame(va, space))

    def needed(self, va: int) -> list[tuple[int, int]]:
        """Runs of needed bytes of a page, as (offset, end)."""
        edges = np.flatnonzero(np.diff(np.concatenate(([0], self.reach.needed(self.frame(va)), [0])).astype(int)))
        return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

    def by(self, va: int, space: int = 0) -> set[int]:
        """Chains that reach the region of an address."""
        for region, numbers in self.reach.chains.items():
            if region.space == space and region.page <= va // PAGE < region.end:
                return numbers
        return set()


def test_of_descriptors_exactly_their_bytes_are_reached() -> None:
    content = jobs(state=renderer_state(CODE + 0x80, buffers=1, push=2))
    found = Reached(trace(areas(content), submit(JOBS)))
    assert found.needed(JOBS) == [
        (0, 192),
        (0x400, 0x440),
        (0x600, 0x608),
        (0x640, 0x660),
        (0x680, 0x690),
        (0x700, 0x720),
    ]
    assert found.needed(CODE) == [(0x80, PAGE)], "to the region's end: where a shader ends is not known"
    assert found.needed(CODE + PAGE) == [(0, PAGE)]


@pytest.mark.parametrize(
    ("part", "unreached"),
    [
        ({"state": renderer_state(CODE, buffers=0, push=2)}, (0x600, 0x640)),
        ({"state": renderer_state(CODE, buffers=1, push=0)}, (0x680,)),
        ({"table": uniform_table((0, 0))}, (0x640,)),
        ({"job": compute(JOBS + STATE, uniforms=JOBS + TABLE, push=JOBS + PUSH)}, (0x700,)),
    ],
)
def test_what_a_descriptor_does_not_use_is_not_reached(part: dict[str, bytes], unreached: tuple[int, ...]) -> None:
    needed = Reached(trace(areas(jobs(**part)), submit(JOBS))).needed(JOBS)
    assert not {start for start, _ in needed} & set(unreached)
    assert needed[0] == (0, 192)


def test_flags_in_the_low_bits_of_pointers() -> None:
    content = jobs(job=compute(JOBS + STATE | 5), state=renderer_state(CODE + 0x80 | 9))
    found = Reached(trace(areas(content), submit(JOBS)))
    assert found.needed(JOBS) == [(0, 192), (0x400, 0x440)]
    assert found.needed(CODE) == [(0x80, PAGE)]


def test_every_type_of_job_and_the_chain_between_them() -> None:
    content = page(
        {
            0x000: header(NULL, JOBS + 0x40),
            0x040: write_value(DATA + 0x10, next_va=JOBS + 0x80),
            0x080: header(FLUSH, JOBS + 0xC0) + bytes(8),
            0x0C0: compute(JOBS + STATE),
            0x400: renderer_state(CODE),
        }
    )
    found = Reached(trace(areas(content, Area(DATA, data=b"old")), submit(JOBS)))
    assert found.needed(JOBS) == [(0, 0x20), (0x40, 0x78), (0x80, 0xA8), (0xC0, 0x180), (0x400, 0x440)]
    assert found.touched(DATA)
    assert found.needed(DATA) == [], "it is written, not read"


@given(st.integers(0, 24))
def test_words_of_uniforms_are_pointers_at_any_multiple_of_4(at: int) -> None:
    content = jobs(uniforms=page({at: pointers(DATA + 0x123)})[:32])
    found = Reached(trace(areas(content, Area(DATA, data=b"x")), submit(JOBS)))
    assert found.touched(DATA) == (at % 4 == 0)
    assert found.needed(DATA) == ([(0, PAGE)] if at % 4 == 0 else [])


@pytest.mark.parametrize("where", ["push", "uniforms"])
def test_the_upper_16_bits_of_a_word_mean_nothing(where: str) -> None:
    content = jobs(**{where: pointers(DATA | 0xABCD << 48)})
    assert Reached(trace(areas(content, Area(DATA)), submit(JOBS))).touched(DATA)


@pytest.mark.parametrize("at", [16, 32, 40, 64, 72, 80, 88, 96, 104])
def test_pointers_of_a_draw_without_a_known_layout(at: int) -> None:
    content = jobs(job=compute(JOBS + STATE, others={at: DATA}), state=renderer_state(CODE))
    data = Area(DATA, data=page({0x8: pointers(MORE)}))
    found = Reached(trace(areas(content, data, Area(MORE)), submit(JOBS)))
    assert found.needed(DATA) == [(0, PAGE)]
    assert found.touched(MORE)


@pytest.mark.parametrize("name", ["stack", "shared"])
def test_scratch_memory_is_reached_and_its_content_is_not_needed(name: str) -> None:
    content = jobs(storage=thread_storage(**{name: DATA + PAGE}))
    found = Reached(trace(areas(content, Area(DATA, 3, data=bytes(3 * PAGE))), submit(JOBS)))
    assert [found.touched(DATA + i * PAGE) for i in range(3)] == [False, True, True]
    assert found.needed(DATA + PAGE) == []


def test_a_region_is_reached_from_the_pointer_to_its_end() -> None:
    content = jobs(push=pointers(DATA + 2 * PAGE + 5))
    data = Area(DATA, 5, data=page({0: pointers(MORE), 4 * PAGE + 8: pointers(LAST)}, pages=5))
    found = Reached(trace(areas(content, data, Area(MORE), Area(LAST)), submit(JOBS)))
    assert [found.touched(DATA + i * PAGE) for i in range(5)] == [False, False, True, True, True]
    assert not found.touched(MORE), "it is named only below the pointer"
    assert found.touched(LAST)


def test_two_pointers_into_one_region() -> None:
    """The lower one comes second: what lies between is searched too."""
    content = jobs(push=pointers(DATA + 2 * PAGE) + pointers(DATA + PAGE))
    data = Area(DATA, 3, data=page({0: pointers(LAST), PAGE: pointers(MORE)}, pages=3))
    found = Reached(trace(areas(content, data, Area(MORE), Area(LAST)), submit(JOBS)))
    assert [found.touched(va) for va in (DATA, DATA + PAGE, MORE, LAST)] == [False, True, True, False]


def test_pages_without_content_are_reached_and_lead_nowhere() -> None:
    content = jobs(push=pointers(DATA))
    found = Reached(trace(areas(content, Area(DATA, 2), Area(MORE)), submit(JOBS)))
    assert found.touched(DATA + PAGE)
    assert found.needed(DATA) == []
    assert found.reach.initial.keys() == {found.frame(va) for va in (CODE, CODE + PAGE, JOBS)}


def test_pointers_in_a_circle() -> None:
    content = jobs(push=pointers(DATA))
    circle = [Area(DATA, data=pointers(MORE)), Area(MORE, data=pointers(LAST)), Area(LAST, data=pointers(DATA))]
    found = Reached(trace(areas(content, *circle), submit(JOBS)))
    assert all(found.touched(va) for va in (DATA, MORE, LAST))


@given(st.integers(0, PAGE - 4))
def test_a_pointer_anywhere_in_a_page(at: int) -> None:
    """The last one lies across the border to the next page of its region."""
    content = jobs(push=pointers(DATA))
    data = Area(DATA, 2, data=page({at: pointers(MORE)}, pages=2))
    found = Reached(trace(areas(content, data, Area(MORE)), submit(JOBS)))
    assert found.touched(MORE) == (at % 4 == 0)


def test_a_word_across_the_end_of_a_region_is_none() -> None:
    content = jobs(push=pointers(DATA))
    data = [Area(DATA, data=page({PAGE - 4: pointers(MORE)[:4]})), Area(DATA + PAGE, data=pointers(MORE)[4:])]
    found = Reached(trace(areas(content, *data, Area(MORE)), submit(JOBS)))
    assert not found.touched(DATA + PAGE)
    assert not found.touched(MORE)


def test_each_chain_for_itself() -> None:
    """The second leads where the first does not; both lead to the code."""
    second = JOBS + 0x800
    content = bytearray(jobs(push=pointers(DATA)))
    content[0x800:0x8C0] = compute(JOBS + STATE, push=JOBS + 0x690)
    content[0x690:0x698] = pointers(MORE)
    content[0x400:0x440] = renderer_state(CODE, push=1)
    found = Reached(trace(areas(bytes(content), Area(DATA), Area(MORE)), submit(JOBS), submit(second)))
    assert [found.by(va) for va in (CODE, DATA, MORE)] == [{0, 1}, {0}, {1}]


def test_what_the_cpu_writes_between_jobs_is_followed() -> None:
    """The same header twice; the second time it pushes another address, and another buffer leads on."""
    content = jobs(push=pointers(DATA))
    data = Area(DATA, data=bytes(PAGE))
    cpu_writes = [CpuWrite(JOBS + PUSH + 8, pointers(MORE)), CpuWrite(DATA, pointers(LAST))]
    found = Reached(
        trace(areas(content, data, Area(MORE), Area(LAST)), submit(JOBS), cpu_writes, submit(JOBS), submit(JOBS))
    )
    assert [found.by(va) for va in (DATA, MORE, LAST)] == [{0, 1, 2}, {1, 2}, {1, 2}]


def test_descriptors_that_come_late() -> None:
    """Nothing of them is known when the replay starts."""
    later = Area(MORE, flags=RW)
    cpu_writes = CpuWrite(MORE, page({0: compute(MORE + 0x400), 0x400: renderer_state(CODE)}))
    found = Reached(trace(areas(jobs(), later), submit(JOBS), cpu_writes, submit(MORE)))
    assert found.by(MORE) == {1}
    with pytest.raises(ChainError, match="job chain 1: the job at 0xffff80300000 is of unknown type 0"):
        reach(Memory.of(trace(areas(jobs(), later), submit(JOBS), submit(MORE), cpu_writes, submit(MORE))))


def test_chains_are_followed_in_their_own_address_space() -> None:
    other = [Area(CODE, 2, RX, b"code", space=3), Area(JOBS, data=jobs(push=pointers(DATA)), space=3)]
    both = [Area(DATA), Area(DATA, space=3)]
    found = Reached(trace([*areas(jobs()), *other, *both], submit(JOBS), submit(JOBS, space=3)))
    assert [found.touched(DATA, space) for space in (0, 3)] == [False, True]
    assert [chain.space for chain in chains(found.memory)] == [0, 3]


def test_every_slot_has_its_own_registers() -> None:
    """The second chain's address is written before the first one's slot starts."""
    first, second = submit(JOBS, slot=1, waits=False), submit(JOBS + 0x800, slot=2, space=5, waits=False)
    source = trace(areas(jobs()), second[1:-1], first, second[0], second[-1])
    found = chains(Memory.of(source))
    assert [(c.index, c.head, c.space) for c in found] == [(0, JOBS, 0), (1, JOBS + 0x800, 5)]
    starts = Memory.of(source).stream[[c.start for c in found]]
    assert [int(row["arg"]) * 4 for row in starts] == [0x18E0, 0x1960]


def test_regions_are_what_was_allocated() -> None:
    """Neighbours in addresses have a free page between them in the carve-out, or other permissions."""
    memory = Memory.of(
        trace(
            [
                Area(DATA, 3),
                Area(DATA + 3 * PAGE, 2),
                Area(DATA + 5 * PAGE, 1, RO),
                Area(DATA + 7 * PAGE),
                Area(DATA, 2, space=1),
            ]
        )
    )
    found = [(r.space, r.page - DATA // PAGE, len(r.frames)) for r in regions(memory)]
    assert found == [(0, 0, 3), (0, 3, 2), (0, 5, 1), (0, 7, 1), (1, 0, 2)]


def test_regions_stay_whole_when_their_pages_are_kept_once() -> None:
    """Three pages of constants, the one in the middle like others: in the image they do not follow one another."""
    constants = Area(DATA, 3, RO, page({0: b"first", 2 * PAGE: b"last"}, pages=3))
    content = jobs(push=pointers(DATA) + pointers(MORE))
    once = build(trace(areas(content, constants, Area(MORE, flags=RO, data=bytes(PAGE))), submit(JOBS)))
    (region,) = [r for r in regions(Memory.of(once)) if r.page == DATA // PAGE]
    assert len(region.frames) == 3
    assert np.diff(region.frames).tolist() != [1, 1]
    again = build(build(once))
    assert (again.image, again.actions.tolist()) == (once.image, once.actions.tolist())


def test_dead_memory_goes_but_for_a_page_behind_what_is_reached() -> None:
    """Below a pointer, and regions that nothing leads to; hardware fetches ahead of what it executes."""
    content = jobs(push=pointers(DATA + 2 * PAGE))
    others = [
        Area(DATA, 4, data=page({0: b"below", 2 * PAGE: b"reached"}, pages=4)),
        Area(DATA + 4 * PAGE, 3, data=b"behind"),
        Area(MORE, data=b"dead"),
    ]
    made = trace(areas(content, *others), submit(JOBS), CpuWrite(MORE + 8, b"late"), submit(JOBS))
    memory = Memory.of(PASSES["dead-memory"](made))
    assert [page - DATA // PAGE for _, page in memory.mappings if page >= DATA // PAGE] == [2, 3, 4]
    assert memory.pages[memory.mappings[0, DATA // PAGE + 2].frame].content[:7].tobytes() == b"reached"
    assert not memory.pages[memory.mappings[0, DATA // PAGE + 4].frame].content.any()
    assert memory.cpu_writes == []
    built = build(made)
    assert b"reached" in built.image
    assert not any(text in built.image for text in (b"below", b"behind", b"dead", b"late"))
