# SPDX-License-Identifier: BSD-2-Clause
"""The passes for job managers on recordings made by hand: jobs find what they found, replay after replay."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.families.page_tables import DivergenceError
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from tests.support import mali_samples as m
from tests.support.chain_samples import PUSH, STATE, TABLE, UNIFORMS, job_page, pointers
from tests.support.mali_chains import (
    RO,
    RW,
    RX,
    Area,
    CpuWrite,
    compute,
    header,
    page,
    power_on,
    read,
    renderer_state,
    set_table,
    submit,
    thread_storage,
    trace,
    wait,
    write,
    write_value,
)
from tests.support.mali_samples import BUFFERS, CODE, CONTENTS, DATA, HISTORY, JOBS, PAGE, SCRATCH, TABLES, access
from tests.support.mali_watch import Reference, Watch
from trace_format.actions import Columns, Op
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

WORK = [CODE + at for at in (0x40000, 0x50000, 0x60000, 0x70000)]  # 5 pages each, nothing saved of them
CONSTANTS, UNUSED, SCRAP = CODE + 0x80000, CODE + 0x90000, CODE + 0xA0000
FLAGS_CONSTANT = 0x606A  # the GPU may not write
HEADS = [JOBS + i * PAGE for i in range(4)]


def chain_page(i: int) -> bytes:
    """Chain i uses working memory i, by a uniform, and constants; the second has three jobs."""
    at = HEADS[i]
    others = {UNIFORMS: struct.pack("<4xQ", WORK[i]), 0x900: b"left over from an earlier job"}
    if i == 1:
        others |= {
            0: header(3, at + 0xC0) + bytes(8),
            0xC0: compute(at + STATE, push=at + PUSH, next_va=at + 0x180, index=2, uniforms=at + TABLE),
            0x180: write_value(WORK[1] + 8, 5, index=3),
        }
    return job_page(
        at,
        CODE + 0x40 * i,
        buffers=[(at + UNIFORMS, 32), (0, 0)],
        pushed=pointers(CONSTANTS + PAGE, DATA),
        storage=thread_storage(SCRAP),
        others=others,
    )


def history() -> list[bytes]:
    """The sample's beginning; four chains with power states, flushes and status words between them."""
    head = m.history()[: -2 * len(m.submission(0, 0)) - 1 - 5]
    ready = head.index(access(30_000, False, 0x140, 0xFF))
    head[ready : ready + 1] = [access(30_000, False, 0x200, 0), access(521, False, 0x140, 0xFF)]
    power = [(0x140, 0xFF), (0x150, 0), (0x160, 1), (0x200, 0), (0x220, 0)]
    rows = head
    for i, at in enumerate(HEADS):
        flush = 0xFFFFE0 + 2 * i
        if i:
            rows.append(access(521, False, 0x38, flush))
        rows += m.submission(at, flush)
        rows += [access(521, False, *row) for row in power]
        rows += [access(521, True, 0x2410, 0xAC00000F), access(0, True, 0x2414, 0xFFFF)]
        rows += [access(0, True, 0x2418, 2), access(9000, False, 0x2428, 0), access(0, True, 0x2418, 5 - i % 2)]
        rows += [access(0, False, 0x2428, 1), access(9000, False, 0x2428, 0)]
    return rows


def recording() -> dict[str, bytes]:
    regions = [
        (CODE, m.FLAGS_CODE, [b"code".ljust(256, b"!"), b"", b"more code"], 3),
        (JOBS, m.FLAGS_JOBS, [chain_page(i) for i in range(4)], 4),
        (DATA, m.FLAGS_DATA, None, 3),
        (SCRATCH, m.FLAGS_DATA, [b""], 1),
        *[(at, m.FLAGS_DATA, None, 5) for at in WORK],
        (CONSTANTS, FLAGS_CONSTANT, [b"unread", b"constants", b"", b"the last"], 4),
        (UNUSED, m.FLAGS_DATA, [b"read by the CPU"], 1),
        (SCRAP, m.FLAGS_DATA, None, 2),
    ]
    mapped = [(at + i * PAGE, flags) for at, flags, _, pages in regions for i in range(pages)]
    return {
        HISTORY: b"".join(history()),
        TABLES: b"".join(m.page_tables(mapped)),
        CONTENTS: b"".join(m.region(at, flags, saved, pages=n) for at, flags, saved, n in regions),
        BUFFERS: m.buffers((SCRATCH, 32), (DATA + 0x100, PAGE), (DATA, 64), (DATA + 2 * PAGE, 40)),
    }


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return import_gpureplay(m.write(tmp_path_factory.mktemp("recording"), recording()), "small")


@pytest.fixture(scope="module")
def reference(raw: Trace) -> Reference:
    return Reference(PASSES["polls"](PASSES["volatile"](raw)))


def test_the_recording_has_all_kinds_of_descriptors(reference: Reference) -> None:
    assert {part.what for job in reference.jobs for part in job} == {
        "header",
        "payload",
        "compute job",
        "renderer state",
        "shader",
        "table of uniform buffers",
        "uniform buffer",
        "push uniforms",
        "thread storage",
    }
    assert all(known.all() for job in reference.known for known in job.values())
    assert [len(job) for job in reference.jobs] == [8, 11, 8, 8]


@pytest.mark.parametrize("step", PASSES)
def test_a_pass_alone(reference: Reference, step: str) -> None:
    after = PASSES[step](reference.trace)
    after.check()
    assert Trace.parse(after.build(compress=False)).trace_id == after.trace_id
    assert reference.difference(after) == ""
    assert reference.conflicts(after) == []


def test_every_pass_after_the_ones_before_it(raw: Trace, reference: Reference) -> None:
    after = raw
    for step in PASSES:
        after = PASSES[step](after)
        if step not in ("constants", "volatile"):
            assert reference.difference(after, runs=2) == "", step
            assert reference.conflicts(after) == [], step


@pytest.mark.parametrize("step", PASSES)
def test_one_pass_left_out(raw: Trace, reference: Reference, step: str) -> None:
    after = build(raw, skip=[step])
    assert reference.difference(after) == ""
    assert reference.conflicts(after) == []


def test_what_is_left(raw: Trace) -> None:
    """No power states but those that are waited for, one page table, memory in a few pages."""
    built = build(raw)
    gpu = built.profile

    def count(op: Op, name: str, value: int | None = None) -> int:
        rows = built.actions[(built.actions["op"] == op) & (built.actions["arg"] == gpu.register(name).index)]
        return len(rows) if value is None else int((rows["value"] == value).sum())

    assert count(Op.REG_READ_WAIT, "gpu.SHADER_READY_LO") == 1
    assert count(Op.REG_READ_ONCE, "gpu.SHADER_READY_LO") == 0
    assert count(Op.REG_READ_ONCE, "job.JS_STATE") == count(Op.REG_READ_ONCE, "job.IRQ_RAWSTAT") == 0
    assert count(Op.REG_READ_ONCE, "job.IRQ_STATUS") == count(Op.REG_WRITE, "js1.COMMAND_NEXT") == 4
    assert count(Op.REG_READ_KEEP, "gpu.LATEST_FLUSH") == count(Op.REG_WRITE_KEPT, "js1.FLUSH_ID_NEXT") == 4
    assert (built.actions["op"] == Op.SET_GPU_PGTABLE).sum() == 1
    assert [count(Op.REG_WRITE, "as0.COMMAND", value) for value in (1, 2, 4, 5)] == [1, 0, 0, 2]
    assert count(Op.REG_READ_WAIT, "as0.STATUS") == 2 + 2
    assert built.carveout_bytes < raw.carveout_bytes // 2
    assert b"left over" not in built.image
    assert b"read by the CPU" not in built.image
    assert b"unread" not in built.image
    assert all(text in built.image for text in (b"code!!!", b"more code", b"constants", b"the last"))


def test_built_again_it_is_the_same(raw: Trace) -> None:
    once = build(raw)
    twice = build(once)
    assert (twice.actions.tolist(), twice.image) == (once.actions.tolist(), once.image)
    assert (twice.carveout_bytes, twice.va_bytes) == (once.carveout_bytes, once.va_bytes)


# What the reference must notice: a comparison that sees nothing proves nothing.


@pytest.mark.parametrize(
    ("at", "to", "what"),
    [
        (b" code", b" c0de", "job 0: shader"),
        (struct.pack("<Q", WORK[2]), struct.pack("<Q", WORK[1]), "job 2: uniform buffer"),
        (struct.pack("<Q", CONSTANTS + PAGE), struct.pack("<Q", CONSTANTS), "job 0: push uniforms"),
        (struct.pack("<Q", SCRAP), struct.pack("<Q", SCRATCH), "job 0: thread storage"),
        (struct.pack("<Q", CODE + 0xC0), struct.pack("<Q", CODE), "job 3: renderer state"),
    ],
    ids=["shader", "uniforms", "push", "storage", "state"],
)
def test_the_comparison_sees_changed_bytes(
    raw: Trace, reference: Reference, at: bytes, to: bytes, what: str
) -> None:
    built = build(raw)
    at, to = at[:6], to[:6]  # of an address; its upper bytes are zero and may not be there
    image = bytes(built.image)
    assert at in image
    assert what in reference.difference(built.with_(image=image.replace(at, to)))


def test_the_comparison_sees_bytes_that_nothing_fills(raw: Trace, reference: Reference) -> None:
    """Memory holds something else before each replay."""
    built = build(raw)
    uploads = np.flatnonzero(built.actions["op"] == Op.UPLOAD)
    found = []
    for index in uploads:
        try:
            found.append(reference.difference(built.with_(actions=np.delete(built.actions, index)), runs=1))
        except DivergenceError as error:  # the job manager does not take the chain
            found.append(str(error))
    assert found
    assert "" not in found


def test_the_comparison_sees_shared_memory(raw: Trace, reference: Reference) -> None:
    """Working memory of the first and second chain in one place is right; with the slots' it is not."""
    built = build(raw)
    maps = np.flatnonzero(built.actions["op"] == Op.MAP_GPU_MEM)
    work, data = (
        next(i for i in maps if Columns(built.actions).va_page[i] == va // PAGE) for va in (WORK[0], DATA)
    )
    rows = built.actions.copy()
    rows["b"][work] = rows["b"][data]
    assert reference.conflicts(built) == []
    assert reference.conflicts(built.with_(actions=rows)) != []


# Streams that no recording at hand has.


def simple_jobs(at: int) -> bytes:
    """A job, and another one at 0x800."""
    return job_page(at, CODE, pushed=bytes(16), others={0x800: header(1)})


def areas(*others: Area, space: int = 0) -> list[Area]:
    return [
        Area(CODE, 2, RX, b"code", space),
        Area(JOBS, 1, RW, simple_jobs(JOBS), space),
        *others,
    ]


def all_passes_keep(made: Trace) -> Trace:
    """Every pass on its own, and all of them, with and without each; returns what all of them make."""
    reference = Reference(made)
    for step in PASSES:
        assert reference.difference(PASSES[step](made)) == "", step
        assert reference.difference(build(made, skip=[step])) == "", step
    built = build(made)
    assert reference.difference(built) == ""
    assert reference.conflicts(built) == []
    return built


def test_two_address_spaces() -> None:
    """The same addresses backed by other memory; one is set in the prologue, one in every replay."""
    spaces = [
        *areas(Area(DATA, 3, RW)),
        Area(CODE, 2, RX, b"other code", 5),
        Area(JOBS, 1, RW, page({0: header(1)}), 5),
        Area(DATA, 3, RW, b"other data", 5),
    ]
    made = trace(
        spaces,
        submit(JOBS),
        set_table(5),
        [wait("as5.STATUS", 0, 1)],
        submit(JOBS, space=5),
        submit(JOBS + 0x800, slot=2),
        [write("as5.COMMAND", 5), wait("as5.STATUS", 0, 1)],
        prologue=power_on() + set_table(0),
    )
    built = all_passes_keep(made)
    start = int(np.flatnonzero(built.actions["op"] == Op.REPLAY_START)[0])
    assert np.flatnonzero(built.actions["op"] == Op.SET_GPU_PGTABLE).max() < start


def test_a_gpu_that_sleeps_between_jobs() -> None:
    """Reset, power and page table come again within each replay."""
    sleep = [write("gpu.SHADER_PWROFF_LO", 0xFF), wait("gpu.SHADER_READY_LO", 0)]
    made = trace(areas(Area(DATA, 3)), submit(JOBS), sleep, power_on(), set_table(), submit(JOBS, slot=2))
    reset = np.flatnonzero(made.actions["op"] == Op.UPLOAD)
    again = made.actions[reset]  # the job's header has a status by then
    second = np.flatnonzero(made.actions["op"] == Op.JOB)[1]
    made = made.with_(actions=np.insert(made.actions, second, again[1:]))
    built = all_passes_keep(made)
    assert (built.actions["op"] == Op.SET_GPU_PGTABLE).sum() == 2


def test_descriptors_that_the_cpu_writes_between_jobs() -> None:
    """The second time the same header leads to other code and other memory."""
    cpu_writes = [
        CpuWrite(JOBS, simple_jobs(JOBS)[:192]),
        CpuWrite(JOBS + STATE, renderer_state(CODE + PAGE, push=2)),
        CpuWrite(JOBS + PUSH, pointers(DATA, WORK[0])),
    ]
    others = [Area(DATA, 3, RO, b"constants"), Area(WORK[0], 5, RW, page({8: b"only the second reads this"}))]
    built = all_passes_keep(trace(areas(*others), submit(JOBS), cpu_writes, submit(JOBS)))
    assert b"constants" in built.image
    assert b"only the second reads this" in built.image


def test_mappings_that_change_between_jobs() -> None:
    """Nothing is known of reach then: memory stays as it is."""
    made = trace(areas(Area(DATA, 1, RW), Area(WORK[0], 1, RW, b"content")), submit(JOBS))
    maps = made.actions[made.actions["op"] == Op.MAP_GPU_MEM]
    moved = maps[2:3].copy()
    moved["b"] = maps[3]["b"]
    made = made.with_(actions=np.concatenate([made.actions, moved]))
    built = build(made)
    assert (built.actions["op"] == Op.MAP_GPU_MEM).sum() == len(maps) + 1
    assert built.image == made.image


def test_parameters_that_are_bound(raw: Trace) -> None:
    """Weights become memory with content, which shares with none and is there in every replay."""
    weights = {
        s.name: np.arange(s.shape[0], dtype=np.float32) + 1 for s in raw.slots if s.kind == SlotKind.PARAMETER
    }
    built = build(raw, parameters=weights)
    assert [s.name for s in built.slots] == ["input", "output"]
    device = Watch(built, latency_ns=6_000)
    given = {"input": np.full(16, 3, np.float32)}
    for _ in range(3):
        device.run(given)
        slot = raw.slot("param1")
        assert np.array_equal(device.read_slot(slot)[:960], weights["param1"][:960])
    assert np.array_equal(device.read_slot(built.slot("input")), given["input"])
    device.close()


def test_a_slot_in_the_middle_of_constants() -> None:
    """Its pages lie after the image, those around it in the image."""
    slot = Slot("input", SlotKind.INPUT, DType.FLOAT32, (8,), (4,), DATA + 2 * PAGE)
    jobs = simple_jobs(JOBS)[:PUSH] + pointers(DATA, WORK[0])
    constants = Area(DATA, 5, RO, page({0: b"one", PAGE: b"two", 4 * PAGE: b"five"}, pages=5))
    made = trace(
        [Area(CODE, 1, RX, b"code"), Area(JOBS, 1, RW, jobs), constants, Area(WORK[0], 5)],
        submit(JOBS),
        [read("gpu.GPU_ID", 0x60A00002)],
        slots=[slot],
    )
    built = all_passes_keep(made)
    assert built.carveout_bytes < 20 * PAGE
