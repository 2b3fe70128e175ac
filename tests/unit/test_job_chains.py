# SPDX-License-Identifier: BSD-2-Clause
"""What job chains can reach: typed pointers, words that may be pointers, chains that cannot be followed."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.gpus.mali.job_chains import ChainError, Reach, chains, reach, regions
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
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

CODE, JOBS, DATA, MORE, LAST = (0xFFFF80000000 + i * 0x100000 for i in range(5))
STATE, TABLE, UNIFORMS, PUSH, STORAGE = (JOBS + at for at in (0x400, 0x600, 0x640, 0x680, 0x700))
NULL, WRITE, FLUSH, DRAW = 1, 2, 3, 7


def pointer(va: int) -> bytes:
    return struct.pack("<Q", va)


def jobs(**parts: bytes) -> bytes:
    """A page with a compute job at its beginning that has one of everything; parts by name replace its own."""
    given = {
        "job": compute(STATE, uniforms=TABLE, push=PUSH, storage=STORAGE),
        "state": renderer_state(CODE, buffers=1, push=2),
        "table": uniform_table((UNIFORMS, 32)),
        "uniforms": bytes(32),
        "push": bytes(16),
        "storage": thread_storage(),
    } | parts
    places = {"job": 0, "state": 0x400, "table": 0x600, "uniforms": 0x640, "push": 0x680, "storage": 0x700}
    return page({places[name]: part for name, part in given.items()})


def areas(content: bytes, *others: Area) -> list[Area]:
    return [Area(CODE, 2, RX, b"code"), Area(JOBS, data=content), *others]


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
        ({"job": compute(STATE, uniforms=TABLE, push=PUSH)}, (0x700,)),
    ],
)
def test_what_a_descriptor_does_not_use_is_not_reached(part: dict[str, bytes], unreached: tuple[int, ...]) -> None:
    needed = Reached(trace(areas(jobs(**part)), submit(JOBS))).needed(JOBS)
    assert not {start for start, _ in needed} & set(unreached)
    assert needed[0] == (0, 192)


def test_flags_in_the_low_bits_of_pointers() -> None:
    content = jobs(job=compute(STATE | 5), state=renderer_state(CODE + 0x80 | 9))
    found = Reached(trace(areas(content), submit(JOBS)))
    assert found.needed(JOBS) == [(0, 192), (0x400, 0x440)]
    assert found.needed(CODE) == [(0x80, PAGE)]


def test_every_type_of_job_and_the_chain_between_them() -> None:
    content = page(
        {
            0x000: header(NULL, JOBS + 0x40),
            0x040: write_value(DATA + 0x10, next_va=JOBS + 0x80),
            0x080: header(FLUSH, JOBS + 0xC0) + bytes(8),
            0x0C0: compute(STATE),
            0x400: renderer_state(CODE),
        }
    )
    found = Reached(trace(areas(content, Area(DATA, data=b"old")), submit(JOBS)))
    assert found.needed(JOBS) == [(0, 0x20), (0x40, 0x78), (0x80, 0xA8), (0xC0, 0x180), (0x400, 0x440)]
    assert found.touched(DATA)
    assert found.needed(DATA) == [], "it is written, not read"


@given(st.integers(0, 24))
def test_words_of_uniforms_are_pointers_at_any_multiple_of_4(at: int) -> None:
    content = jobs(uniforms=page({at: pointer(DATA + 0x123)})[:32])
    found = Reached(trace(areas(content, Area(DATA, data=b"x")), submit(JOBS)))
    assert found.touched(DATA) == (at % 4 == 0)
    assert found.needed(DATA) == ([(0, PAGE)] if at % 4 == 0 else [])


@pytest.mark.parametrize("where", ["push", "uniforms"])
def test_the_upper_16_bits_of_a_word_mean_nothing(where: str) -> None:
    content = jobs(**{where: pointer(DATA | 0xABCD << 48)})
    assert Reached(trace(areas(content, Area(DATA)), submit(JOBS))).touched(DATA)


@pytest.mark.parametrize("at", [16, 32, 40, 64, 72, 80, 88, 96, 104])
def test_pointers_of_a_draw_without_a_known_layout(at: int) -> None:
    content = jobs(job=compute(STATE, others={at: DATA}), state=renderer_state(CODE))
    data = Area(DATA, data=page({0x8: pointer(MORE)}))
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
    content = jobs(push=pointer(DATA + 2 * PAGE + 5))
    data = Area(DATA, 5, data=page({0: pointer(MORE), 4 * PAGE + 8: pointer(LAST)}, pages=5))
    found = Reached(trace(areas(content, data, Area(MORE), Area(LAST)), submit(JOBS)))
    assert [found.touched(DATA + i * PAGE) for i in range(5)] == [False, False, True, True, True]
    assert not found.touched(MORE), "it is named only below the pointer"
    assert found.touched(LAST)


def test_two_pointers_into_one_region() -> None:
    """The lower one comes second: what lies between is searched too."""
    content = jobs(push=pointer(DATA + 2 * PAGE) + pointer(DATA + PAGE))
    data = Area(DATA, 3, data=page({0: pointer(LAST), PAGE: pointer(MORE)}, pages=3))
    found = Reached(trace(areas(content, data, Area(MORE), Area(LAST)), submit(JOBS)))
    assert [found.touched(va) for va in (DATA, DATA + PAGE, MORE, LAST)] == [False, True, True, False]


def test_pages_without_content_are_reached_and_lead_nowhere() -> None:
    content = jobs(push=pointer(DATA))
    found = Reached(trace(areas(content, Area(DATA, 2), Area(MORE)), submit(JOBS)))
    assert found.touched(DATA + PAGE)
    assert found.needed(DATA) == []
    assert found.reach.initial.keys() == {found.frame(va) for va in (CODE, CODE + PAGE, JOBS)}


def test_pointers_in_a_circle() -> None:
    content = jobs(push=pointer(DATA))
    circle = [Area(DATA, data=pointer(MORE)), Area(MORE, data=pointer(LAST)), Area(LAST, data=pointer(DATA))]
    found = Reached(trace(areas(content, *circle), submit(JOBS)))
    assert all(found.touched(va) for va in (DATA, MORE, LAST))


@given(st.integers(0, PAGE - 4))
def test_a_pointer_anywhere_in_a_page(at: int) -> None:
    """The last one lies across the border to the next page of its region."""
    content = jobs(push=pointer(DATA))
    data = Area(DATA, 2, data=page({at: pointer(MORE)}, pages=2))
    found = Reached(trace(areas(content, data, Area(MORE)), submit(JOBS)))
    assert found.touched(MORE) == (at % 4 == 0)


def test_a_word_across_the_end_of_a_region_is_none() -> None:
    content = jobs(push=pointer(DATA))
    data = [Area(DATA, data=page({PAGE - 4: pointer(MORE)[:4]})), Area(DATA + PAGE, data=pointer(MORE)[4:])]
    found = Reached(trace(areas(content, *data, Area(MORE)), submit(JOBS)))
    assert not found.touched(DATA + PAGE)
    assert not found.touched(MORE)


def test_each_chain_for_itself() -> None:
    """The second leads where the first does not; both lead to the code."""
    second = JOBS + 0x800
    content = bytearray(jobs(push=pointer(DATA)))
    content[0x800:0x8C0] = compute(STATE, push=JOBS + 0x690)
    content[0x690:0x698] = pointer(MORE)
    content[0x400:0x440] = renderer_state(CODE, push=1)
    found = Reached(trace(areas(bytes(content), Area(DATA), Area(MORE)), submit(JOBS), submit(second)))
    assert [found.by(va) for va in (CODE, DATA, MORE)] == [{0, 1}, {0}, {1}]


def test_what_the_cpu_writes_between_jobs_is_followed() -> None:
    """The same header twice; the second time it pushes another address, and another buffer leads on."""
    content = jobs(push=pointer(DATA))
    data = Area(DATA, data=bytes(PAGE))
    cpu_writes = [CpuWrite(PUSH + 8, pointer(MORE)), CpuWrite(DATA, pointer(LAST))]
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
    other = [Area(CODE, 2, RX, b"code", space=3), Area(JOBS, data=jobs(push=pointer(DATA)), space=3)]
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
    content = jobs(push=pointer(DATA) + pointer(MORE))
    once = build(trace(areas(content, constants, Area(MORE, flags=RO, data=bytes(PAGE))), submit(JOBS)))
    (region,) = [r for r in regions(Memory.of(once)) if r.page == DATA // PAGE]
    assert len(region.frames) == 3
    assert np.diff(region.frames).tolist() != [1, 1]
    again = build(build(once))
    assert (again.image, again.actions.tolist()) == (once.image, once.actions.tolist())


BROKEN = {
    "the header is in no mapped memory": (jobs(), DATA, "job header at GPU address 0xffff80200000 is not mapped"),
    "the header ends past it": (
        page({0xFC0: header(NULL, DATA - 0x20)}),
        JOBS + 0xFC0,
        "the job header at 0xffff801fffe0 is not aligned",
    ),
    "the payload ends past it": (
        page({0xFC0: compute(STATE)[:64]}),
        JOBS + 0xFC0,
        "job payload at GPU address 0xffff80101000 is not mapped",
    ),
    "the header is not aligned": (
        page({0: header(NULL, JOBS + 0x60)}),
        JOBS,
        "the job header at 0xffff80100060 is not aligned",
    ),
    "the next header is not mapped": (
        page({0: header(NULL, MORE)}),
        JOBS,
        "job header at GPU address 0xffff80300000 is not mapped",
    ),
    "an address of more than 48 bits": (
        page({0: header(NULL, 1 << 63)}),
        JOBS,
        "job header at GPU address 0x8000000000000000 is not mapped",
    ),
    "a job that follows itself": (page({0: header(NULL, JOBS)}), JOBS, "job chain 0 has no end"),
    "two jobs in a circle": (
        page({0: header(NULL, JOBS + 0x40), 0x40: header(FLUSH, JOBS)}),
        JOBS,
        "job chain 0 has no end",
    ),
    "a draw": (page({0: header(DRAW)}), JOBS, "the job at 0xffff80100000 is of unknown type 7"),
    "a descriptor of 32 bits": (
        page({16: struct.pack("<I", 4 << 1)}),
        JOBS,
        "the job at 0xffff80100000 has a descriptor of 32 bits",
    ),
    "no job": (page({}), JOBS, "the job at 0xffff80100000 is of unknown type 0"),
    "no renderer state": (jobs(job=compute(0)), JOBS, "renderer state at GPU address 0x0 is not mapped"),
    "the shader is data": (
        jobs(state=renderer_state(JOBS)),
        JOBS,
        "the shader at 0xffff80100000 is not in executable memory",
    ),
    "the shader is nowhere": (
        jobs(state=renderer_state(MORE)),
        JOBS,
        "the shader at 0xffff80300000 is not in executable memory",
    ),
    "no table of uniform buffers": (
        jobs(job=compute(STATE, uniforms=MORE, push=PUSH)),
        JOBS,
        "table of uniform buffers at GPU address 0xffff80300000 is not mapped",
    ),
    "no uniform buffer": (
        jobs(table=uniform_table((MORE, 16))),
        JOBS,
        "uniform buffer at GPU address 0xffff80300000 is not mapped",
    ),
    "a uniform buffer ends past mapped memory": (
        jobs(table=uniform_table((JOBS + PAGE - 16, 32))),
        JOBS,
        "uniform buffer at GPU address 0xffff80101000 is not mapped",
    ),
    "no push uniforms": (
        jobs(job=compute(STATE, uniforms=TABLE, push=MORE)),
        JOBS,
        "push uniforms at GPU address 0xffff80300000 is not mapped",
    ),
    "no thread storage": (
        jobs(job=compute(STATE, uniforms=TABLE, push=PUSH, storage=MORE)),
        JOBS,
        "thread storage at GPU address 0xffff80300000 is not mapped",
    ),
}


@pytest.mark.parametrize(("content", "head", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_a_chain_that_cannot_be_followed(content: bytes, head: int, text: str, tmp_path: Path) -> None:
    source = trace(areas(content), submit(head))
    with pytest.raises(ChainError) as error:
        reach(Memory.of(source))
    assert text in str(error.value)
    raw, out = tmp_path / "raw.gtr", tmp_path / "out.gtr"
    raw.write_bytes(source.build())
    result = CliRunner().invoke(main, ["build", str(raw), "-o", str(out)])
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {raw}: job chain 0")
    assert text in line
    assert not out.exists()


def test_the_second_of_two_chains_is_named() -> None:
    with pytest.raises(ChainError, match="job chain 1: job header at GPU address 0xffff80200000 is not mapped"):
        PASSES["dead-memory"](trace(areas(jobs()), submit(JOBS), submit(DATA)))


def test_dead_memory_goes_but_for_a_page_behind_what_is_reached() -> None:
    """Below a pointer, and regions that nothing leads to; hardware fetches ahead of what it executes."""
    content = jobs(push=pointer(DATA + 2 * PAGE))
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
