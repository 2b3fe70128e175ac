# SPDX-License-Identifier: BSD-2-Clause
"""The Mali's nano driver, in the replayer's build for this machine: page tables, reset, address spaces."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali.page_tables import MaliTables
from host_tools.runners.needs import secure_bytes
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.mali_chains import write
from tests.support.replayer_samples import PAGE, Device, Parts, Registers, signed
from tests.support.sampling import few
from trace_format import profile
from trace_format.actions import ACTION_DTYPE, MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

GPU = profile.load("mali_g71")
SPACES, ENTRIES = 8, 512
UPDATE, UNMAPPED = 1, 1
RESET_COMPLETED = 0x100
FRAMES = 3 * ENTRIES
IMAGE_PAGES = ENTRIES  # where they test executable pages
VA_PAGES = 1 << 36
EDGES = (0, ENTRIES, 5 * ENTRIES, 1 << 18, 1 << 27, 3 << 27, VA_PAGES - ENTRIES)


def map_(space: int, page: int, frame: int, pages: int, flags: int = MAP_READ | MAP_WRITE) -> Action:
    return action(Op.MAP_GPU_MEM, flags=flags, pages=pages, frame=frame, address_space=space, va_page=page)


def unmap(space: int, page: int, pages: int) -> Action:
    return action(Op.UNMAP_GPU_MEM, pages=pages, address_space=space, va_page=page)


def submit(space: int) -> list[Action]:
    """A job in an address space; without power it ends at once, but after that the GPU uses that space."""
    values = {"HEAD_NEXT_LO": 0, "HEAD_NEXT_HI": 0, "AFFINITY_NEXT_LO": 1, "CONFIG_NEXT": space, "COMMAND_NEXT": 1}
    return [write(f"js1.{name}", value) for name, value in values.items()]


def use_space(gpu: VirtualGpu, space: int) -> None:
    """What `submit` does, past the replayer: it would report the failure of a job without power."""
    for row in submit(space):
        gpu.write32(row.register * 4, row.value)


def trace(*actions: Action, **changes: Any) -> Trace:
    """A trace of these actions, without image and slots."""
    return Trace(
        "mali_g71",
        np.array(list(actions), dtype=ACTION_DTYPE),
        b"",
        carveout_bytes=FRAMES * PAGE,
        va_bytes=VA_PAGES * PAGE,
        slots=[],
        meta={"core_mask": 0xFF},
    ).with_(**changes)


class Board:
    """The replayer and the virtual Mali over one carve-out."""

    def __init__(self, sample: Trace, carveout_bytes: int = 8 << 20) -> None:
        self.memory = np.frombuffer(mmap.mmap(-1, carveout_bytes), np.uint8)
        self.gpu = VirtualGpu("mali_g71", {s.CARVEOUT_PHYS: self.memory})
        self.replayer = hostlib.HostReplayer(
            s.library(GPU), GPU, self.gpu.c_interface, self.memory, s.CARVEOUT_PHYS
        )
        self.report = self.replayer.load(signed(sample), s.KEY)


@pytest.fixture(scope="module")
def reference() -> Callable[[], MaliTables]:
    """Makes empty page tables of the interpreter's, whose entries hold carve-out offsets."""
    gpu = VirtualGpu("mali_g71")
    return lambda: MaliTables(gpu, GPU, np.zeros(16 << 20, np.uint8), FRAMES * PAGE)


@st.composite
def changes(draw: st.DrawFn) -> list[Action]:
    """Mappings and their removal, most of them at borders of tables, many of them fit for blocks."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        space = draw(st.sampled_from((0, 0, 3, 7)))
        page = max(0, draw(st.sampled_from(EDGES)) + draw(st.sampled_from((0, 0, 0, -1, -3, 5, 511))))
        pages = min(draw(st.sampled_from((1, 3, 200, 511, 512, 513, 1024, 1030))), VA_PAGES - page)
        if draw(st.integers(0, 3)) == 0:
            found.append(unmap(space, page, pages))
            continue
        frame = draw(st.one_of(st.just(page % ENTRIES), st.integers(0, FRAMES)))
        flags = draw(st.sampled_from((MAP_READ, MAP_READ | MAP_WRITE, MAP_READ | MAP_EXECUTE)))
        if flags & MAP_WRITE:
            pages = min(pages, FRAMES - IMAGE_PAGES)
            frame = max(frame, IMAGE_PAGES)
        if flags & MAP_EXECUTE:
            pages = min(pages, IMAGE_PAGES)
            frame = min(frame, IMAGE_PAGES - pages)
        found.append(map_(space, page, min(frame, FRAMES - pages), pages, flags))
    return found


def apply(tables: MaliTables, rows: list[Action]) -> None:
    """What the interpreter does with the actions."""
    for row in rows:
        if row.op == Op.MAP_GPU_MEM:
            tables.map(row.address_space, row.va_page, row.frame, row.pages, row.flags)
        elif row.op == Op.UNMAP_GPU_MEM:
            tables.unmap(row.address_space, row.va_page, row.pages)


def walk(memory: np.ndarray, root: int) -> Iterator[tuple[int, int]]:
    """Pages and entries of their own, as the format's description has them: (virtual page, entry of that page)."""
    todo = [(root, 0, 0)]
    while todo:
        table, level, base = todo.pop()
        entries = memory[table : table + PAGE].view("<u8")
        for index in np.flatnonzero(entries):
            entry, page = int(entries[index]), base << 9 | int(index)
            if level == 3:
                assert entry & 3 == 3
                yield page, entry
            elif entry & 3 == 1:
                assert level == 2
                assert entry & 0x1FF000 == 0, "a block is aligned"
                yield from ((page << 9 | i, (entry | 2) + i * PAGE) for i in range(ENTRIES))
            else:
                assert entry & 0xFFF == 3
                todo.append(((entry & 0xFFFFFFFFF000) - s.CARVEOUT_PHYS, level + 1, page))


def leaf_of(tables: MaliTables, space: int, page: int) -> int:
    """The reference's entry of a page that is mapped."""
    leaves = tables._leaves(space, page, False)
    assert leaves is not None
    return int(leaves[page % ENTRIES])


@few(20, 60)
@given(rows=changes(), data=st.data())
def test_tables_are_what_the_actions_say(
    reference: Callable[[], MaliTables], rows: list[Action], data: st.DataObject
) -> None:
    """The driver's own view, the entries in memory and the virtual GPU's view, after one replay and after two."""
    space = data.draw(st.sampled_from((0, 3, 7)))
    turn_on = [action(Op.SET_GPU_PGTABLE, address_space=space), write(f"as{space}.COMMAND", UPDATE)]
    start = data.draw(st.integers(0, len(rows)))
    rows_in_order = (*turn_on, *rows[:start], action(Op.REPLAY_START), *rows[start:])
    board = Board(trace(*rows_in_order, image=bytes(IMAGE_PAGES * PAGE)))
    tables = reference()
    todo = rows
    for _ in range(2):
        board.replayer.run()
        use_space(board.gpu, space)
        apply(tables, todo)
        todo = rows[start:]
        mapped = tables.mapped()
        for one in range(SPACES):
            root = (FRAMES + one) * PAGE
            entries = dict(walk(board.memory, root))
            offsets = {page: (entry & 0xFFFFFFFFF000) - s.CARVEOUT_PHYS for page, entry in entries.items()}
            assert offsets == {page: at for (space_, page), at in mapped.items() if space_ == one}
            leaves = {
                page: entry ^ at for (page, entry), at in zip(entries.items(), offsets.values(), strict=True)
            }
            flags = {page: leaf_of(tables, one, page) ^ at for page, at in offsets.items()}
            assert {page: bits & 0xFFF | bits & 1 << 54 for page, bits in leaves.items()} == {
                page: bits & 0xFFF | bits & 1 << 54 for page, bits in flags.items()
            }
        near = {max(0, page + d) for _, page in mapped for d in (-1, 0, 1)} | {row.va_page for row in rows}
        for one, page in itertools.product((0, 3, 5), sorted(near)[:: max(1, len(near) // 40)]):
            at = mapped.get((one, page))
            assert board.replayer.translate(one, page * PAGE + 77) == (None if at is None else at + 77)
        seen = {
            run.va // PAGE + i: (run.pa - s.CARVEOUT_PHYS + i * PAGE, run.flags)
            for run in board.gpu.mappings()
            for i in range(run.bytes // PAGE)
        }
        assert {page: at for page, (at, _) in seen.items()} == {
            page: at for (one, page), at in mapped.items() if one == space
        }
        for page, (_, bits) in seen.items():
            entry = leaf_of(tables, space, page)
            assert bool(bits & 2) == (entry >> 6 & 3 == 1)
    board.gpu.close()


def test_aligned_memory_is_mapped_in_blocks() -> None:
    sample = trace(map_(0, 5 * ENTRIES, ENTRIES, 2 * ENTRIES), unmap(0, 6 * ENTRIES + 7, 2))
    board = Board(sample.with_(actions=sample.actions[:1]))
    board.replayer.run()
    level_2 = (FRAMES + SPACES + 1) * PAGE
    entries = board.memory[level_2 : level_2 + PAGE].view("<u8")
    assert [int(entry) & 3 for entry in entries[4:8]] == [0, 1, 1, 0]
    board = Board(sample)
    board.replayer.run()
    entries = board.memory[level_2 : level_2 + PAGE].view("<u8")
    assert [int(entry) & 3 for entry in entries[4:8]] == [0, 1, 3, 0], "split: a part of it went"
    assert board.replayer.translate(0, (6 * ENTRIES + 6) * PAGE) == (2 * ENTRIES + 6) * PAGE
    assert board.replayer.translate(0, (6 * ENTRIES + 7) * PAGE) is None


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("phys", [0, s.CARVEOUT_PHYS, s.CARVEOUT_PHYS + (8 << 20), 1 << 40, (1 << 48) - PAGE])
def test_an_entry_that_leads_elsewhere_is_not_followed(level: int, phys: int) -> None:
    """A fault in memory: the walk ends there, for reading and for mapping, and nothing else is written."""
    page = 5 * ENTRIES + 3
    start = action(Op.REPLAY_START)
    board = Board(trace(map_(0, page, 20, 1), start, map_(0, page, 21, 1), slots=[], image=b""))
    board.replayer.run()
    assert board.replayer.translate(0, page * PAGE) == 21 * PAGE
    root = FRAMES * PAGE
    walked = [root, root + SPACES * PAGE, root + (SPACES + 1) * PAGE]
    entries = board.memory[walked[level] : walked[level] + PAGE].view("<u8")
    entries[page >> (9 * (3 - level)) & (ENTRIES - 1)] = phys | 3
    before = board.memory.copy()
    assert board.replayer.translate(0, page * PAGE) is None
    with pytest.raises(ReplayError, match="secure memory is too small"):
        board.replayer.run()
    assert np.array_equal(board.memory[: FRAMES * PAGE], before[: FRAMES * PAGE])


def test_memory_for_tables_is_what_the_mappings_need() -> None:
    """Eight roots, and tables for what the mappings touch, neighbours sharing theirs; all of it is checked."""

    def tables(*rows: Action) -> int:
        device = Device(Registers(GPU), carveout_bytes=16 << 20)
        here = device.replayer.load(signed(trace(*rows)), s.KEY).secure_bytes
        assert here == secure_bytes(Delivery(signed(trace(*rows)))), "as the host counts"
        bare = device.replayer.load(signed(trace(*[action(Op.IRQ_ENTER)] * len(rows))), s.KEY).secure_bytes
        assert (here - bare) % PAGE == 0
        return (here - bare) // PAGE

    assert tables(map_(0, 100, 0, 1)) == 3
    assert tables(map_(0, 100, 0, 1), map_(0, 101, 9, 400)) == 3
    assert tables(map_(0, 100, 0, 1), map_(0, 101, 9, 500)) == 4
    assert tables(map_(0, 100, 0, 1), map_(1, 101, 0, 1)) == 6, "another address space"
    assert tables(map_(0, (1 << 27) - 1, 0, 2)) == 6, "both sides of a level 1 table"
    assert tables(map_(0, 100, 0, 1), unmap(0, 90, 20)) == 3
    assert tables(map_(0, 100, 0, 1), unmap(0, 90, 3 * ENTRIES)) == 6
    far = [map_(i % SPACES, i << 27, 0, 1) for i in range(400)]
    assert tables(*far) == 1200


def test_tables_that_do_not_fit_are_refused() -> None:
    sample = trace(*[map_(i % SPACES, i << 27, 0, 1) for i in range(511)])
    need = Board(sample, carveout_bytes=32 << 20).report.secure_bytes
    Board(sample, carveout_bytes=need).replayer.run()
    with pytest.raises(ReplayError, match="secure memory is too small"):
        Board(sample, carveout_bytes=need - 8)
    device = Device(Registers(GPU), carveout_bytes=need - 8)
    for rows in (sample.actions, [unmap(i % SPACES, 0, 0xFFFFFFFF) for i in range(2000)]):
        with pytest.raises(ReplayError, match="secure memory is too small"):
            device.replayer.load(signed(trace(*rows)), s.KEY)
        assert device.is_wiped


def answering(device: Device, commands: tuple[int, ...]) -> None:
    """Make the GPU complete resets by these commands."""

    def answer(name: str, value: int) -> None:
        if name == "gpu.COMMAND":
            device.gpu.set("gpu.IRQ_RAWSTAT", RESET_COMPLETED if value in commands else 0)

    device.gpu.on_write = answer


@pytest.mark.parametrize(("commands", "written"), [((1,), [1]), ((2,), [1, 2])])
def test_it_resets_softly_or_hard(commands: tuple[int, ...], written: list[int]) -> None:
    device = Device(Registers(GPU), carveout_bytes=8 << 20)
    answering(device, commands)
    device.replayer.load(signed(trace(write("js0.HEAD_NEXT_LO", 64))), s.KEY)
    device.replayer.run()
    assert [value for name, value in device.gpu.log if name == "gpu.COMMAND"] == written
    names = [name for name, _ in device.gpu.log]
    assert names[:3] == ["gpu.IRQ_MASK", "job.IRQ_MASK", "mmu.IRQ_MASK"]
    updates = [i for i, name in enumerate(names) if name.endswith(".COMMAND") and name.startswith("as")]
    assert len(updates) == SPACES
    assert updates[-1] < names.index("js0.HEAD_NEXT_LO")
    assert [dict(device.gpu.log[: updates[-1] + 1])[f"as{i}.TRANSCFG_LO"] for i in range(SPACES)] == [UNMAPPED] * 8


def test_a_gpu_that_never_comes_out_of_a_reset_is_given_up() -> None:
    device = Device(Registers(GPU), carveout_bytes=8 << 20)
    device.replayer.load(signed(trace(write("js0.HEAD_NEXT_LO", 64))), s.KEY)
    with pytest.raises(ReplayError, match="does not come out of a reset") as error:
        device.replayer.run()
    report = error.value.report
    assert (report.name, report.retries, report.actions) == ("RESET", 0, 0)
    assert 20_000 <= report.replay_us < 50_000
    assert "js0.HEAD_NEXT_LO" not in dict(device.gpu.log)
    assert dict(device.gpu.log)["as7.TRANSCFG_LO"] == UNMAPPED
    device.replayer.unload()
    assert device.is_wiped


def test_each_address_space_has_its_table() -> None:
    device = Device(Registers(GPU), carveout_bytes=8 << 20)
    answering(device, (1,))
    device.replayer.load(signed(trace(*[action(Op.SET_GPU_PGTABLE, address_space=i) for i in (3, 7)])), s.KEY)
    device.replayer.run()
    written = dict(device.gpu.log)
    for space in (0, 3, 7):  # 0: from the start
        root = s.CARVEOUT_PHYS + (FRAMES + space) * PAGE
        low, high = (written[f"as{space}.TRANSTAB_{half}"] for half in ("LO", "HI"))
        assert low | high << 32 == root
        assert written[f"as{space}.TRANSCFG_LO"] == GPU.mmu["config"]
        attributes = written[f"as{space}.MEMATTR_LO"] | written[f"as{space}.MEMATTR_HI"] << 32
        assert attributes == GPU.mmu["attributes"]
    assert written["as1.TRANSCFG_LO"] == UNMAPPED


SLOT = Slot("x", SlotKind.INPUT, DType.FLOAT32, (PAGE // 2,), (4,), 0xFFFFAC000800, address_space=3, bound=True)


def test_a_slot_lies_in_its_address_space() -> None:
    page = SLOT.address // PAGE
    rows = [map_(0, page, 20, 3), map_(3, page, 10, 3), action(Op.COPY_TO_GPU)]
    board = Board(trace(*rows, slots=[SLOT]))
    data = np.random.default_rng(1).random(SLOT.shape, np.float32)
    board.replayer.bind(0, data)
    board.replayer.run()
    assert board.memory[10 * PAGE + 0x800 :][: data.nbytes].tobytes() == data.tobytes()
    assert not board.memory[20 * PAGE : 23 * PAGE].any()


@pytest.mark.parametrize("number", [8, 16, 0xFFF2])
def test_a_space_number_with_other_bits_is_refused(number: int) -> None:
    """The bits that a mapping has for its space are not the only ones that are looked at."""
    device = Device(Registers(GPU), carveout_bytes=8 << 20)
    sample = Parts.of(trace(action(Op.SET_GPU_PGTABLE))).action(0, arg=number).signed()
    with pytest.raises(ReplayError, match="outside what the trace may use"):
        device.replayer.load(sample, s.KEY)
    assert device.gpu.log == []


@pytest.mark.parametrize(
    ("present", "requested", "fits"),
    [(0xFF, 0xF0, True), (0x0F, 0x0F, True), (0x0F, 0x10, False), (0xF0, 0x11, False)],
)
def test_cores_are_a_mask(present: int, requested: int, fits: bool) -> None:
    device = Device(Registers(GPU), carveout_bytes=8 << 20)
    device.gpu.set("gpu.SHADER_PRESENT_LO", present)
    sample = signed(trace(action(Op.JOB), meta={"core_mask": requested}))
    if fits:
        assert device.replayer.load(sample, s.KEY).ok
    else:
        with pytest.raises(ReplayError, match="not one that the trace was made for"):
            device.replayer.load(sample, s.KEY)
