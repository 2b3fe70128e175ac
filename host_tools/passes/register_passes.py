# SPDX-License-Identifier: BSD-2-Clause
"""Passes over register accesses and interrupts."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from host_tools.families.family import family_of
from host_tools.passes.program import Program
from host_tools.passes.registry import action_pass, program_pass
from trace_format.actions import ALL_BITS, FLAG_IGNORE, Action, Actions, Columns, Op, action, actions_of
from trace_format.profile import Profile

POLL_TIMEOUT_US = 100_000  # Linux v3d_gem.c and v3d_mmu.c give these handshakes 100 ms


@action_pass("volatile")
def mask_volatile_bits(rows: Actions, gpu: Profile) -> Actions:
    """Stop comparing bits that the hardware changes by itself (counters, debug words)."""
    volatile = {r.index: r.volatile for r in gpu.registers.values() if r.volatile}
    columns = Columns(rows)
    changed = rows.copy()
    for at in np.flatnonzero(columns.is_op(Op.REG_READ_ONCE) & np.isin(columns.register, list(volatile))):
        read = Action.of(rows[at])
        mask = read.mask & ~volatile[read.register]
        ignored = {} if mask else {"flags": read.flags | FLAG_IGNORE, "expected": 0}
        changed[at] = read.with_(mask=mask, **ignored)
    return changed


@action_pass("polls")
def fold_polls(rows: Actions, gpu: Profile) -> Actions:
    """Turn runs of reads of a busy bit into one wait for its end."""
    busy = {r.index: r.busy for r in gpu.registers.values() if r.busy}
    columns = Columns(rows)
    polls = np.flatnonzero(columns.is_op(Op.REG_READ_ONCE) & np.isin(columns.register, list(busy))).tolist()
    changed, kept = rows.copy(), np.ones(len(rows), np.bool_)
    last, previous = -1, None  # the latest poll, and the action that is kept before the next one
    for at in polls:
        if at and at - 1 != last:
            previous = Action.of(rows[at - 1])
        last, read = at, Action.of(rows[at])
        bits = busy[read.register]
        wait = action(Op.REG_READ_WAIT, register=read.register, mask=bits, timeout_us=POLL_TIMEOUT_US)
        kept[at] = read.expected & bits == 0 and previous != wait
        if kept[at]:
            changed[at] = previous = wait
    found: Actions = changed[kept]
    return found


@program_pass("intervals")
def trim_intervals(program: Program) -> None:
    """Drop recorded idle time: no register of the profile needs a minimum interval."""
    program.drop(lambda rows: Columns(rows).is_op(Op.INTERVAL))


@program_pass("interrupts")
def fold_interrupts(program: Program) -> None:
    """Drop the marks of interrupt handlers; the wait, the status read and the clear stay."""
    program.drop(lambda rows: Columns(rows).is_op(Op.IRQ_ENTER, Op.IRQ_EXIT))


@program_pass("cache-maintenance")
def drop_repeated_cache_maintenance(program: Program) -> None:
    """Drop a cache flush that is followed by the same flush with no job in between."""
    gpu = program.profile
    family = family_of(gpu)
    commands, states = (_named(gpu, pattern) for pattern in (family.cache_commands, family.cache_states))
    program.drop(lambda rows: _repeated(list(actions_of(rows)), commands, states))


def _repeated(rows: list[Action], commands: set[int], states: set[int]) -> NDArray[np.bool_]:
    drop = np.zeros(len(rows), np.bool_)
    kept: list[int] = []
    for index in range(len(rows)):
        kept.append(index)
        for size in (1, 2):  # of a V3D: L2TCACTL, SLCACTL; of a Mali: an address space's command, its status
            tail, before = ([rows[i] for i in part] for part in (kept[-size:], kept[-2 * size : -size]))
            if len(before) == size and tail == before and all(_maintains(r, commands, states) for r in tail):
                drop[kept[-size:]] = True
                del kept[-size:]
    return drop


def _named(gpu: Profile, pattern: re.Pattern[str]) -> set[int]:
    return {register.index for name, register in gpu.registers.items() if pattern.fullmatch(name)}


def _maintains(row: Action, commands: set[int], states: set[int]) -> bool:
    if row.op == Op.REG_WRITE:
        return row.mask == ALL_BITS and row.register in commands
    return row.op == Op.REG_READ_WAIT and row.register in states
