# SPDX-License-Identifier: BSD-2-Clause
"""Passes over register accesses of GPUs with a job manager; the pipeline runs them (host_tools/passes).

What registers do: Linux 6.1 drivers/gpu/drm/panfrost (panfrost_gpu.c: power, panfrost_job.c: interrupts,
panfrost_mmu.c: address spaces).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from host_tools.gpus.mali.job_manager import RESETS, SpaceCommand, carried_out, idle
from host_tools.passes.registry import action_pass
from trace_format.actions import (
    ALL_BITS,
    FLAG_IGNORE,
    Action,
    Actions,
    Columns,
    Op,
    action,
    actions_of,
    array_of,
)
from trace_format.profile import Profile

READS = (Op.REG_READ_ONCE, Op.REG_READ_WAIT)
POLL_TIMEOUT_US = 100_000  # ten times what Linux gives a power request
POWER_STATE = re.compile(r"gpu\.(SHADER|TILER|L2)_(READY|PWRTRANS)_(LO|HI)")
POWER_REQUEST = re.compile(r"gpu\.(SHADER|TILER|L2)_PWRO(N|FF)_(LO|HI)")
RESET_COMPLETED = 0x100  # gpu.IRQ_RAWSTAT
RESET_TIMEOUT_US = 10_000  # as Linux, panfrost_gpu_soft_reset
SNAPSHOTS = ("job.IRQ_RAWSTAT", "job.JS_STATE")
FAULT_CLEARS = re.compile(r"(gpu|job|mmu)\.IRQ_CLEAR")
ADDRESS_SPACE = re.compile(r"as\d+\.")


def _names(gpu: Profile, pattern: re.Pattern[str]) -> set[int]:
    return {register.index for name, register in gpu.registers.items() if pattern.match(name)}


@action_pass("power-states")
def fold_power_states(rows: Actions, gpu: Profile) -> Actions:
    """Wait once for what each power request leads to; drop the other reads of power states.

    Between two requests a power state moves to its final value and stays there, so the last value read before
    the next request is waited for where it was first seen to stay. A state that no request has changed is not
    read again.
    """
    states, requests = _names(gpu, POWER_STATE), _names(gpu, POWER_REQUEST)
    command = gpu.register("gpu.COMMAND").index
    known: dict[int, int] = {}
    out: list[Action] = []
    for epoch in _epochs(rows, requests, command):
        reads: dict[int, list[int]] = {}
        for i, row in enumerate(epoch):
            if row.op in READS and row.register in states:
                reads.setdefault(row.register, []).append(i)
        waits: dict[int, Action] = {}
        for index, where in reads.items():
            final = epoch[where[-1]].expected
            if known.get(index) == final:
                continue
            known[index] = final
            settled = where[-1]
            for i in reversed(where):
                if epoch[i].expected != final:
                    break
                settled = i
            waits[settled] = action(
                Op.REG_READ_WAIT, register=index, expected=final, mask=ALL_BITS, timeout_us=POLL_TIMEOUT_US
            )
        dropped = {i for where in reads.values() for i in where}
        out += [waits.get(i, row) for i, row in enumerate(epoch) if i in waits or i not in dropped]
        if epoch and _resets(epoch[-1], command):
            known.clear()
    return array_of(out)


def _epochs(rows: Actions, requests: set[int], command: int) -> list[list[Action]]:
    """The actions, cut after everything that changes power states."""
    epochs: list[list[Action]] = [[]]
    for row in actions_of(rows):
        epochs[-1].append(row)
        if (row.op == Op.REG_WRITE and row.register in requests and row.value) or _resets(row, command):
            epochs.append([])
    return epochs


def _resets(row: Action, command: int) -> bool:
    return row.op == Op.REG_WRITE and row.register == command and row.value in RESETS


@action_pass("reset-waits")
def wait_for_resets(rows: Actions, gpu: Profile) -> Actions:
    """Wait until a reset is complete, where the recorded driver looked until it was.

    How often it had to look is a matter of the recorded machine: a virtual GPU is ready at once, hardware is not.
    """
    state, command = gpu.register("gpu.IRQ_RAWSTAT").index, gpu.register("gpu.COMMAND").index
    out: list[Action] = []
    is_asked = False
    for row in actions_of(rows):
        if is_asked and row.op == Op.REG_READ_ONCE and row.register == state:
            if not row.expected & RESET_COMPLETED:
                continue
            row = action(
                Op.REG_READ_WAIT,
                register=state,
                expected=RESET_COMPLETED,
                mask=RESET_COMPLETED,
                timeout_us=RESET_TIMEOUT_US,
            )
        is_asked = _resets(row, command) or (is_asked and row.op == Op.INTERVAL)
        out.append(row)
    return array_of(out)


@action_pass("status-reads")
def drop_status_reads(rows: Actions, gpu: Profile) -> Actions:
    """Of an interrupt's service keep wait, status and clear; other status words show a moment of the recording.

    Reads whose value is not compared go too. No read of this GPU has an effect.
    """
    columns = Columns(rows)
    snapshots = [gpu.register(name).index for name in SNAPSHOTS]
    ignored = (columns.flags & FLAG_IGNORE) != 0
    kept: Actions = rows[~(columns.is_op(Op.REG_READ_ONCE) & (np.isin(columns.register, snapshots) | ignored))]
    return kept


@action_pass("flush-ids")
def drop_unused_flush_ids(rows: Actions, gpu: Profile) -> Actions:
    """Drop live values that are read but not used before they are read again."""
    unused: set[int] = set()
    pending: dict[int, int] = {}
    fresh: set[int] = set()  # read in this replay
    carried: set[int] = set()  # used by the next replay before it reads them
    for i, row in enumerate(actions_of(rows)):
        if row.op == Op.REG_READ_KEEP:
            if row.keep in pending:
                unused.add(pending[row.keep])
            pending[row.keep] = i
            fresh.add(row.keep)
        elif row.op == Op.REG_WRITE_KEPT:
            pending.pop(row.keep, None)
            if row.keep not in fresh:
                carried.add(row.keep)
        elif row.op == Op.REPLAY_START:
            pending.clear()  # every replay may use what the prologue has read
            fresh.clear()
    unused |= {i for kept, i in pending.items() if kept not in carried}
    found: Actions = np.delete(rows, sorted(unused))
    return found


@action_pass("fault-bits")
def keep_faults(rows: Actions, gpu: Profile) -> Actions:
    """Take the bits that clear faults out of writes: a replay starts without any, and no trace may clear one."""
    clears = _names(gpu, FAULT_CLEARS)
    columns = Columns(rows)
    which = np.flatnonzero(columns.is_op(Op.REG_WRITE) & np.isin(columns.register, list(clears)))
    changed, kept = rows.copy(), np.ones(len(rows), np.bool_)
    for at in which.tolist():
        row = Action.of(rows[at])
        value = row.value & gpu.by_offset[row.register * 4].may_set
        kept[at] = value != 0 or row.value == 0
        changed[at] = row.with_(value=value)
    found: Actions = changed[kept]
    return found


@action_pass("address-spaces")
def set_address_spaces_once(rows: Actions, gpu: Profile) -> Actions:
    """Point address spaces at their page tables in the prologue, and drop TLB maintenance: no mapping changes.

    Flushes of the GPU's caches through an address space stay. A trace is left as it is where replays change
    mappings, or reset the GPU, which switches its address spaces off.
    """
    columns = Columns(rows)
    starts = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    if not len(starts) or columns.is_op(Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)[starts[0] :].any():
        return rows
    registers = {r.index: n for n, r in gpu.registers.items() if ADDRESS_SPACE.match(n)}
    prologue, stream = list(actions_of(rows[: starts[0]])), list(actions_of(rows[starts[0] :]))
    if any(_resets(row, gpu.register("gpu.COMMAND").index) for row in stream):
        return rows
    spaces = {row.address_space for row in prologue if row.op == Op.SET_GPU_PGTABLE}
    for space in sorted(spaces):
        if not _takes_effect(prologue, gpu, space):
            prologue += _update(gpu, space)
    out: list[Action] = []
    kept_command = -1  # whose status is waited for
    for row in stream:
        name = registers.get(row.register, "") if row.op in (*READS, Op.REG_WRITE) else ""
        if row.op == Op.SET_GPU_PGTABLE:
            if row.address_space not in spaces:
                spaces.add(row.address_space)
                prologue += [row, *_update(gpu, row.address_space)]
        elif not name:
            out.append(row)
        elif name.endswith(".COMMAND") and row.value == SpaceCommand.FLUSH_MEM:
            kept_command = row.register
            out.append(row)
        elif name.endswith(".STATUS") and gpu.register(name[:-6] + "COMMAND").index == kept_command:
            kept_command = -1
            out.append(idle(gpu.register(name)))
    return array_of(prologue + out)


def _takes_effect(rows: Sequence[Action], gpu: Profile, space: int) -> bool:
    """Whether the address space is updated after the last time that it is pointed at its table."""
    command, found = gpu.register(f"as{space}.COMMAND").index, False
    for row in rows:
        if row.op == Op.SET_GPU_PGTABLE and row.address_space == space:
            found = False
        elif row.op == Op.REG_WRITE and (row.register, row.value) == (command, SpaceCommand.UPDATE):
            found = True
    return found


def _update(gpu: Profile, space: int) -> list[Action]:
    """Wait until the address space is idle, let its registers take effect, and wait for that."""
    return [idle(gpu.register(f"as{space}.STATUS")), *carried_out(gpu, space, SpaceCommand.UPDATE)]


# In the order in which they run.
PASSES = (
    fold_power_states,
    wait_for_resets,
    drop_status_reads,
    drop_unused_flush_ids,
    keep_faults,
    set_address_spaces_once,
)
