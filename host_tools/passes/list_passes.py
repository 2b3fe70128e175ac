# SPDX-License-Identifier: BSD-2-Clause
"""Passes over bin and render lists: those that copy and fill buffers become compute jobs, the others go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.families.family import family_of
from host_tools.families.transfers import Transfer, Transfers, UnknownListError
from host_tools.model.image_view import ImageView
from host_tools.model.joined import joined
from host_tools.model.memory import Memory
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from trace_format.actions import MAP_READ, Action, Actions, Columns, Op, actions_of, array_of
from trace_format.profile import Job, Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

_PREFETCH = 512  # bytes after code and uniforms that the GPU may fetch ahead


@dataclass(frozen=True)
class ListJob:
    """A bin or render job that a trace starts.

    Attributes:
        start: index of the action that starts it.
        writes: it may write to buffers.
        transfer: what it writes, if that is known.
    """

    start: int
    job: Job
    writes: bool
    transfer: Transfer | None


def list_jobs(trace: Trace) -> Iterator[ListJob]:
    """All of a trace, in their order."""
    gpu, transfers = trace.profile, family_of(trace.profile).transfers
    kinds = _list_kinds(gpu)
    if transfers is None or not Columns(trace.actions).is_op(Op.REG_WRITE).any():
        return
    view, written = ImageView(trace), dict[int, int]()

    def register(name: str) -> int:
        return written.get(gpu.register(name).index, 0)

    def read(space: int, va: int, size: int) -> bytes | None:
        found = view.locate(space, va, size)
        return view.values(found[1]).tobytes() if found else None

    of_memory = Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.UPLOAD, Op.CLEAR
    at = np.flatnonzero(Columns(trace.actions).is_op(*of_memory, Op.REG_WRITE))
    for index, row in joined(trace.actions, at, np.ones(len(at), np.bool_)):
        view.take(row)
        if row.op != Op.REG_WRITE:
            continue
        written[row.register] = written.get(row.register, 0) & ~row.mask | row.value & row.mask
        if row.register in kinds:
            job = kinds[row.register]
            try:
                found = transfers.of_list(gpu, job.kind, register, read)
                yield ListJob(index, job, found is not None, found)
            except UnknownListError:
                yield ListJob(index, job, True, None)


def _list_kinds(gpu: Profile) -> dict[int, Job]:
    """By the register that starts them."""
    return {job.start.index: job for job in gpu.jobs if job.kind in ("bin", "render")}


def _starts(rows: Actions, gpu: Profile) -> NDArray[np.int64]:
    columns = Columns(rows)
    written = np.where(columns.is_op(Op.REG_WRITE), columns.register, -1)
    return np.flatnonzero(np.isin(written, list(_list_kinds(gpu))))


@memory_pass("no-op-lists")
def drop_lists(program: Program) -> None:
    """Drop lists that only signal fences; let compute jobs copy and fill buffers in place of others."""
    before = program.trace()
    found = list(list_jobs(before))
    try:
        _compute_copies(program, found)
    finally:  # after a Conflict, too: lists that copy stay then, and no device takes the trace
        after = program.trace()
        _drop_no_op_lists(program, found if after is before else list(list_jobs(after)))


def _compute_copies(program: Program, found: list[ListJob]) -> None:
    """Replace each list that copies or fills by a job that runs a program of ours, in the list's place.

    A list can name any code, so devices take none. Program and uniforms get pages of their own.
    """
    transfers = family_of(program.profile).transfers
    if transfers is None or not any(item.transfer for item in found):
        return
    memory = program.memory
    edits = []
    for start, item in zip(_starts(memory.stream, program.profile).tolist(), found, strict=True):
        served = service(memory.stream, start, item.job)
        if item.transfer and served:
            edits.append((start, served, item.transfer))
    if not edits:
        return
    chosen = [transfer for *_, transfer in edits]
    page = int(memory.mappings.pages.max()) + 2  # what is before it may be fetched ahead, too
    add_memory(memory, page, transfers.memory(program.profile, chosen, page * PAGE_BYTES))
    parts, at = [], 0
    befores = np.array([write.before for write in memory.cpu_writes], np.int64)
    moved = befores.copy()
    for number, (start, end, _) in enumerate(edits):
        rows = _compute(memory.stream[start:end], program.profile, transfers, chosen, number, page * PAGE_BYTES)
        moved[befores > start] += len(rows) - (end - start)
        parts += [memory.stream[at:start], rows]
        at = end
    memory.stream = np.concatenate([*parts, memory.stream[at:]])
    for write, before in zip(memory.cpu_writes, moved.tolist(), strict=True):
        write.before = before
    program.replace(va_bytes=max(program.trace().va_bytes, (int(memory.mappings.pages.max()) + 1) * PAGE_BYTES))
    program.commit(max(memory.carveout_bytes, (max(memory.frames) + 1) * PAGE_BYTES))


def add_memory(memory: Memory, page: int, content: bytes) -> None:
    """Map read-only pages with this content."""
    count = -(-(len(content) + _PREFETCH) // PAGE_BYTES)
    data = np.frombuffer(content.ljust(count * PAGE_BYTES, b"\0"), np.uint8)
    frame = max(memory.frames) + 1
    memory.mappings = memory.mappings.of([*memory.mappings.runs(), (0, page, frame, MAP_READ, count)])
    for i in range(count):
        memory.pages[frame + i].put(slice(0, PAGE_BYTES), data[i * PAGE_BYTES : (i + 1) * PAGE_BYTES])


def _compute(
    old: Actions, gpu: Profile, transfers: Transfers, chosen: list[Transfer], number: int, va: int
) -> Actions:
    """The start of a compute job and the service of its interrupt, in place of a list job's."""
    job = next(job for job in gpu.jobs if job.kind == "compute")
    start, *service = actions_of(old)
    words = transfers.job(gpu, chosen, number, va)
    writes = [start.with_(register=gpu.register(name).index, value=value) for name, value in words]
    for row in service:
        if row.op == Op.REG_READ_ONCE:
            row = row.with_(expected=job.done_bits)
        elif row.op == Op.REG_WRITE:
            row = row.with_(value=job.done_bits)
        writes.append(row)
    return array_of([*writes, *transfers.settle(gpu)])


def _drop_no_op_lists(program: Program, found: list[ListJob]) -> None:
    """The virtual GPU refuses a list that draws; one that may write to buffers stays, with all others."""
    gpu = program.profile
    rows = program.actions
    starts = _starts(rows, gpu)
    jobs = _list_kinds(gpu)
    drop = np.zeros(len(rows), np.bool_)
    for start in starts.tolist():
        end = service(rows, start, jobs[int(Columns(rows).register[start])])
        if not end:
            return  # its interrupt was served together with another's: nothing to cut out
        drop[start:end] = True
    if any(item.writes for item in found):
        return
    pattern = family_of(gpu).list_registers
    describing = [register.index for name, register in gpu.registers.items() if pattern.fullmatch(name)]
    columns = Columns(rows)
    describes = columns.is_op(Op.REG_WRITE) & np.isin(columns.register, describing)
    if drop.any() or describes.any():
        program.actions = rows[~(drop | describes)]


def service(rows: Actions, start: int, job: Job) -> int:
    """Where the service of a job's interrupt ends, right after its start; 0 when that is ambiguous."""
    for index in range(start + 1, len(rows)):
        row = Action.of(rows[index])
        waits = row.op == Op.WAIT_IRQ and row.line == job.line
        reads = row.op == Op.REG_READ_ONCE and row.register == job.done.index and row.expected == job.done_bits
        if row.op == Op.REG_WRITE and row.value == job.done_bits and index > start + 1:
            return index + 1
        if not (waits or reads):
            break
    return 0
