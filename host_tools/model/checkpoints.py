# SPDX-License-Identifier: BSD-2-Clause
"""Whether a replay can go on at any of its checkpoints after a reset, with memory as it was.

The core then does the prologue's register accesses again, as far as its first job, and goes on with what follows
the checkpoint (core/run.c, set_registers). That is enough if nothing that a register has at a checkpoint is
missed: it has what the prologue left there, or it describes a job and is written anew, or writing to it did
something at once. All of that stands in the actions, so whoever doubts it can judge them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from host_tools.families.checkpoints import Checkpoints
from host_tools.families.family import family_of
from trace_format.actions import ALL_BITS, FLAG_REPEAT, FLAG_RESUME, Action, Actions, Op, actions_of
from trace_format.profile import Profile
from trace_format.trace import Trace

Values = dict[int, tuple[int, int] | Action]  # by register's index: value and mask, or a write of a kept value


@dataclass(frozen=True)
class Step:
    """What is done from a checkpoint, or from ReplayStart, to the next one.

    Attributes:
        first: index of its first action.
        jobs: of its Jobs; more than one where no checkpoint lies between.
        end: after its last action.
    """

    first: int
    jobs: tuple[int, ...]
    end: int


def says_resume(trace: Trace) -> bool:
    """Whether a trace claims that its replays go on."""
    start = trace.actions[trace.actions["op"] == Op.REPLAY_START]
    return bool(len(start)) and bool(start[0]["flags"] & FLAG_RESUME)


def unmarked(rows: Actions) -> Actions:
    """Actions that say nothing of it; the same array where they said nothing."""
    says = np.isin(rows["op"], (Op.REPLAY_START, Op.JOB)) & (rows["flags"] != 0)
    if not says.any():
        return rows
    changed = rows.copy()
    changed["flags"][says] &= ~np.uint8(FLAG_RESUME | FLAG_REPEAT)
    return changed


def steps_of(trace: Trace) -> list[Step]:
    """The steps of a replay, as the core takes them where no two jobs overlap.

    Args:
        trace: of one network.
    """
    rows = list(actions_of(trace.actions))
    begins = _begins(trace.profile, _known(trace.profile))
    start = _start(rows)
    jobs = [index for index, row in enumerate(rows) if row.op == Op.JOB and index > start]
    places: dict[int, list[int]] = {}  # first action -> Jobs
    place = start + 1
    for before, job in zip([-1, *jobs], jobs, strict=False):
        if before >= 0:
            place = next((index for index in range(before + 1, job + 1) if begins(rows[index])), place)
        places.setdefault(place, []).append(job)
    ends = [*list(places)[1:], len(rows)]
    return [Step(first, tuple(found), end) for (first, found), end in zip(places.items(), ends, strict=True)]


def why_not_resumed(trace: Trace) -> str:
    """Why replays cannot go on after a reset; "": they can.

    Args:
        trace: of one network.
    """
    known = family_of(trace.profile).checkpoints
    if known is None:
        return f"nothing is known of replay checkpoints on {trace.gpu}"
    rows = list(actions_of(trace.actions))
    start = _start(rows)
    if start < 0 or not (steps := steps_of(trace)):
        return "it has no jobs after a ReplayStart"
    begins = _begins(trace.profile, known)
    done = next((index for index in range(start) if begins(rows[index]) or rows[index].op == Op.JOB), start)
    return next(_flaws(trace.profile, known, rows, done, steps), "")


def _flaws(
    gpu: Profile, known: Checkpoints, rows: Sequence[Action], done: int, steps: Sequence[Step]
) -> Iterator[str]:
    """What speaks against it, the first action of it first.

    Args:
        done: after the prologue's actions that are done again.
    """
    describing = {register.index for name, register in gpu.registers.items() if known.describes.fullmatch(name)}
    lasting: Values = {}
    for row in rows[:done]:
        _write(gpu, known, describing, lasting, row)
    checkpoints = {step.first for step in steps[1:]}
    now, kept = dict(lasting), {row.keep: -1 for row in rows[:done] if row.op == Op.REG_READ_KEEP}
    number = 0
    for index, row in enumerate(rows[done:], done):
        if row.op == Op.JOB and index > steps[0].first:
            number += 1
        if index in checkpoints:
            for register in now.keys() | lasting.keys():
                if now.get(register) != lasting.get(register):
                    name = gpu.describe(4 * register)
                    yield f"after job {number} of a replay {name} is not what the prologue's start has made it"
            kept = {place: at for place, at in kept.items() if at < 0}
        if row.op == Op.SET_GPU_PGTABLE:
            yield f"action {index} sets a page table, after the prologue's first job or after ReplayStart"
        elif row.op == Op.REG_READ_KEEP:
            kept[row.keep] = index
        elif row.op == Op.REG_WRITE_KEPT and row.keep not in kept:
            yield f"action {index} writes a value that was kept before the replay checkpoint"
        _write(gpu, known, describing, now, row)
    yield from _jobs(gpu, known, describing, rows, steps)


def _jobs(
    gpu: Profile, known: Checkpoints, describing: set[int], rows: Sequence[Action], steps: Sequence[Step]
) -> Iterator[str]:
    """Jobs that rest on what was written before their checkpoint, or that leave something in caches."""
    written = [
        {row.register for row in rows[step.first : step.end] if _describes(row, describing)} for step in steps
    ]
    blocks = {_block(gpu, register): set[int]() for registers in written for register in registers}
    for registers in written:
        for register in registers:
            blocks[_block(gpu, register)].add(register)
    number = 0
    for step, registers in zip(steps, written, strict=True):
        number += len(step.jobs)
        for block in {_block(gpu, register) for register in registers}:
            for register in sorted(blocks[block] - registers):
                name = gpu.describe(4 * register)
                yield f"job {number} of a replay finds in {name} what an earlier one has written"
        if step is not steps[-1] and not known.cleans(gpu, rows[step.jobs[-1] : step.end]):
            yield f"what job {number} of a replay writes may be in caches at the next replay checkpoint"


def _describes(row: Action, describing: set[int]) -> bool:
    is_whole = row.op == Op.REG_WRITE_KEPT or (row.op == Op.REG_WRITE and row.mask == ALL_BITS)
    return is_whole and row.register in describing


def _write(gpu: Profile, known: Checkpoints, describing: set[int], values: Values, row: Action) -> None:
    """What an action leaves in a register."""
    if row.op not in (Op.REG_WRITE, Op.REG_WRITE_KEPT) or row.register in describing:
        return
    if row.op == Op.REG_WRITE_KEPT:
        values[row.register] = row
        return
    name = gpu.describe(4 * row.register)
    if known.resets(name, row.value):
        values.clear()
        return
    if known.leaves_nothing(name, row.value):
        return
    before = values.get(row.register, (0, 0))
    if row.mask == ALL_BITS:
        values[row.register] = row.value, ALL_BITS
    elif isinstance(before, Action):
        values[row.register] = row  # of which bits nothing is known
    else:
        value, mask = before
        values[row.register] = value & ~row.mask | row.value & row.mask, mask | row.mask


def _begins(gpu: Profile, known: Checkpoints | None) -> Callable[[Action], bool]:
    """Whether the nano driver ends a step before an action."""
    if known is None or not known.begins:
        return lambda row: row.op == Op.JOB
    register = gpu.register(known.begins).index
    return lambda row: row.op == Op.REG_WRITE and row.register == register


def _known(gpu: Profile) -> Checkpoints | None:
    return family_of(gpu).checkpoints


def _start(rows: Sequence[Action]) -> int:
    """Where ReplayStart is; -1: nowhere."""
    return next((index for index, row in enumerate(rows) if row.op == Op.REPLAY_START), -1)


def _block(gpu: Profile, register: int) -> str:
    return gpu.describe(4 * register).partition(".")[0]
