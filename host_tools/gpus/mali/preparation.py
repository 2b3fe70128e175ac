# SPDX-License-Identifier: BSD-2-Clause
"""The pass that lets a replay's first jobs run once, where they only prepare parameters.

Which jobs these are, host_tools/gpus/mali/splitting.py proves with the accesses of each job. Registers must be at
the end of a replay as they are after those jobs. A caller who gives other parameters makes the prologue run again
(tee_replayer/core/replayer.h: gr_bind), so what was made follows them. Where all parameters are bound at build
time, the jobs run then (host_tools/gpus/mali/prepared.py).
"""

from __future__ import annotations

import numpy as np

from host_tools.accesses.slot_places import bytes_of
from host_tools.families.family import Family, family_of
from host_tools.gpus.mali.chain_memory import chain_memory
from host_tools.gpus.mali.prepared import is_smaller, run_now
from host_tools.gpus.mali.splitting import Split
from host_tools.model.frames import MERGE_GAP, runs
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from trace_format.actions import Action, Actions, Columns, Op, actions_of
from trace_format.operators import operations
from trace_format.profile import Profile
from trace_format.schema import SlotKind

START_FLUSH = 3 << 8  # of js*.CONFIG_NEXT: clean and invalidate before the chain (panfrost_regs.h)


@memory_pass("preparation")
def prepare_once(program: Program) -> None:
    """Run jobs that only prepare parameters once: in the prologue, or at build time if all have a value.

    Proved with the accesses of each job; left out where other data may lead to other
    accesses, or where later jobs overwrite what the first ones make.
    """
    memory, family = program.memory, family_of(program.profile)
    columns = Columns(memory.stream)
    starts = np.flatnonzero(columns.is_op(Op.JOB))
    if memory.prepares or len(starts) < 2:
        return
    _check_kinds(memory)
    inputs = bytes_of(memory, (slot for slot in program.slots if slot.kind == SlotKind.INPUT))
    jobs = program.jobs()
    if len(jobs) != len(starts) or chain_memory(program).searched:
        raise Conflict("what its jobs access may depend on data")
    parameters = [bytes_of(memory, [s]) if s.kind == SlotKind.PARAMETER else {} for s in program.slots]
    found = Split(inputs, parameters, [job.accesses for job in jobs])
    if not found.first:
        return
    cut = _cut(memory.stream, int(starts[found.first]), program.profile, family)
    _check_registers(memory.stream, cut, program.profile, family)
    begin = _cut(memory.stream, int(starts[0]), program.profile, family)
    if is_smaller(program, found) and _leaves_nothing(memory.stream[begin:cut], program.profile, family):
        run_now(program, found, jobs, slice(begin, cut))
        return
    _move(memory, found, cut)
    program.commit()


def _check_kinds(memory: Memory) -> None:
    if memory.cpu_writes:
        raise Conflict("the CPU writes memory between jobs")
    if any(operations(memory.stream)):
        raise Conflict("operators compute between jobs")


def _cut(stream: Actions, marker: int, gpu: Profile, family: Family) -> int:
    """Where the actions of a job begin, whose marker is given: what describes it comes before that.

    Raises:
        Conflict: not all that describes it does.
    """
    describing = {r.index for name, r in gpu.registers.items() if family.describes_job.fullmatch(name)}
    rows = list(actions_of(stream[:marker]))
    at = marker
    kept = Op.REG_READ_KEEP, Op.REG_WRITE_KEPT
    while at and (rows[at - 1].op in kept or _writes(rows[at - 1]) in describing):
        at -= 1
    before, own = ({_writes(row) for row in part} for part in (rows[:at], rows[at:]))
    if not (describing & before) <= own:
        raise Conflict("a job relies on registers that were written for one before it")
    return at


def _writes(row: Action) -> int:
    """The register that an action writes, -1: none."""
    return row.register if row.op == Op.REG_WRITE else -1


def _check_registers(stream: Actions, cut: int, gpu: Profile, family: Family) -> None:
    """Whether the GPU is at the end of a replay as it is at the cut, and the rest needs no value read before.

    Raises:
        Conflict: it is not, or does.
    """
    names = {register.index: name for name, register in gpu.registers.items()}
    starts = {job.start.index for job in gpu.jobs}
    state: list[dict[int, int]] = []
    for part in (stream[:cut], stream):
        written: dict[int, int] = {}
        for row in actions_of(part):
            name = names.get(_writes(row), "")
            if row.op == Op.REG_WRITE and row.register not in starts and not _passes(name, family):
                written[row.register] = row.value
        state.append(written)
    for index, value in state[0].items():
        if state[1][index] != value:
            raise Conflict(f"{names[index]} has another value at the end of a replay")
    for index in state[1].keys() - state[0].keys():
        if any(word in names[index] for word in ("PWRON", "PWROFF", "MASK", "CONFIG")):
            raise Conflict(f"{names[index]} changes in a replay")
    fresh: set[int] = set()
    for row in actions_of(stream[cut:]):
        if row.op == Op.REG_READ_KEEP:
            fresh.add(row.keep)
        elif row.op == Op.REG_WRITE_KEPT and row.keep not in fresh:
            raise Conflict("a job uses a value that was read for one before it")
        elif row.op == Op.REG_WRITE and names[row.register].endswith("CONFIG_NEXT") and ~row.value & START_FLUSH:
            raise Conflict("a job begins without a flush of the caches")


def _passes(name: str, family: Family) -> bool:
    """Whether writing a register leaves nothing behind that a later job would find."""
    kinds = family.describes_job, family.fault_clears, family.cache_commands
    return any(pattern.fullmatch(name) for pattern in kinds)


def _leaves_nothing(rows: Actions, gpu: Profile, family: Family) -> bool:
    """Whether the GPU is as before after these actions of jobs."""
    names = {register.index: name for name, register in gpu.registers.items()}
    starts = {job.start.index for job in gpu.jobs}
    written = {_writes(row) for row in actions_of(rows)} - {-1}
    return all(index in starts or _passes(names[index], family) for index in written)


def _move(memory: Memory, found: Split, cut: int) -> None:
    """Move the actions before the cut to the prologue, and say what is filled once."""
    slots = memory.trace.slots
    numbers = Columns(memory.stream).slot
    copies = Columns(memory.stream).is_op(Op.COPY_TO_GPU)
    if copies[cut:].any() or Columns(memory.stream[:cut]).is_op(Op.COPY_FROM_GPU).any():
        raise Conflict("slots are copied between jobs")
    once = np.arange(len(memory.stream)) < cut
    again = once & copies & np.isin(numbers, found.again)
    stays = once & copies & np.isin(numbers, [i for i, s in enumerate(slots) if s.kind != SlotKind.PARAMETER])
    for frame, page in memory.pages.items():
        if page.is_blank or page.in_image:
            continue
        each = page.live & found.refilled(frame)
        if (each & found.needed_once(frame)).any():
            raise Conflict("memory that is filled in each replay is needed in the prologue")
        for start, end in runs(page.live & ~each, MERGE_GAP):
            page.put(slice(start, end), page.content[start:end].copy())  # with what is between: it is zero
            page.keep(slice(start, end), ~each[start:end])
    memory.prologue = np.concatenate([memory.prologue, memory.stream[once & ~stays]])
    memory.stream = np.concatenate([memory.stream[stays | again], memory.stream[~once]])
