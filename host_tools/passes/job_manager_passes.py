"""Passes over register accesses of GPUs with a job manager (Mali).

What registers do: Linux 6.1 drivers/gpu/drm/panfrost (panfrost_gpu.c: power, panfrost_job.c: interrupts,
panfrost_mmu.c: address spaces). Traces of other GPUs are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from host_tools.gpus.mali.job_manager import RESETS, SpaceCommand, carried_out, has_job_manager, idle
from host_tools.passes.register_passes import POLL_TIMEOUT_US
from host_tools.passes.registry import trace_pass
from trace_format.actions import ACTION_DTYPE, ALL_BITS, FLAG_IGNORE, Op, action, space_of
from trace_format.profile import Profile
from trace_format.trace import Trace

READS = (int(Op.REG_READ_ONCE), int(Op.REG_READ_WAIT))
POWER_STATE = re.compile(r"gpu\.(SHADER|TILER|L2)_(READY|PWRTRANS)_(LO|HI)")
POWER_REQUEST = re.compile(r"gpu\.(SHADER|TILER|L2)_PWRO(N|FF)_(LO|HI)")
SNAPSHOTS = ("job.IRQ_RAWSTAT", "job.JS_STATE")
ADDRESS_SPACE = re.compile(r"as\d+\.")


def _with_job_manager(function: Callable[[Trace], Trace]) -> Callable[[Trace], Trace]:
    def apply(trace: Trace) -> Trace:
        return function(trace) if has_job_manager(trace.profile) else trace

    apply.__doc__ = function.__doc__
    return apply


def _names(gpu: Profile, pattern: re.Pattern[str]) -> set[int]:
    return {register.index for name, register in gpu.registers.items() if pattern.match(name)}


def _trace(trace: Trace, rows: list[np.void]) -> Trace:
    return trace.with_(actions=np.array(rows, dtype=ACTION_DTYPE), raw=False)


@trace_pass("power-states")
@_with_job_manager
def fold_power_states(trace: Trace) -> Trace:
    """Wait once for what each power request leads to; drop the other reads of power states.

    Between two requests a power state moves to its final value and stays there, so the last value read before
    the next request is waited for where it was first seen to stay. A state that no request has changed is not
    read again.
    """
    gpu = trace.profile
    states, requests = _names(gpu, POWER_STATE), _names(gpu, POWER_REQUEST)
    command = gpu.register("gpu.COMMAND").index
    known: dict[int, int] = {}
    out: list[np.void] = []
    for epoch in _epochs(trace, requests, command):
        ends = _resets(epoch[-1], command) if epoch else False
        reads = {index: [i for i, row in enumerate(epoch) if _reads(row, index)] for index in states}
        waits: dict[int, np.void] = {}
        dropped = {i for where in reads.values() for i in where}
        for index, where in reads.items():
            if not where or known.get(index) == (final := int(epoch[where[-1]]["value"])):
                continue
            known[index] = final
            settled = where[-1]
            for i in reversed(where):
                if int(epoch[i]["value"]) != final:
                    break
                settled = i
            waits[settled] = action(Op.REG_READ_WAIT, arg=index, value=final, a=ALL_BITS, b=POLL_TIMEOUT_US)
        for i, row in enumerate(epoch):
            if i in waits:
                out.append(waits[i])
            elif i not in dropped:
                out.append(row)
        if ends:
            known.clear()
    return _trace(trace, out)


def _epochs(trace: Trace, requests: set[int], command: int) -> list[list[np.void]]:
    """The actions, cut behind everything that changes power states."""
    epochs: list[list[np.void]] = [[]]
    for row in trace.actions:
        epochs[-1].append(row)
        writes = int(row["op"]) == Op.REG_WRITE
        if (writes and int(row["arg"]) in requests and int(row["value"])) or _resets(row, command):
            epochs.append([])
    return epochs


def _resets(row: np.void, command: int) -> bool:
    return int(row["op"]) == Op.REG_WRITE and int(row["arg"]) == command and int(row["value"]) in RESETS


def _reads(row: np.void, index: int) -> bool:
    return int(row["op"]) in READS and int(row["arg"]) == index


@trace_pass("status-reads")
@_with_job_manager
def drop_status_reads(trace: Trace) -> Trace:
    """Of an interrupt's service keep wait, status and clear; other status words show a moment of the recording.

    Reads whose value is not compared go too. No read of this GPU has an effect.
    """
    rows = trace.actions
    snapshots = [trace.profile.register(name).index for name in SNAPSHOTS]
    reads = rows["op"] == Op.REG_READ_ONCE
    drop = reads & (np.isin(rows["arg"], snapshots) | ((rows["flags"] & FLAG_IGNORE) != 0))
    return trace.with_(actions=rows[~drop], raw=False)


@trace_pass("flush-ids")
@_with_job_manager
def drop_unused_flush_ids(trace: Trace) -> Trace:
    """Drop live values that are read but not used before they are read again."""
    unused: set[int] = set()
    pending: dict[int, int] = {}
    fresh: set[int] = set()  # read in this replay
    carried: set[int] = set()  # used by the next replay before it reads them
    for i, row in enumerate(trace.actions):
        op, kept = int(row["op"]), int(row["b"])
        if op == Op.REG_READ_KEEP:
            if kept in pending:
                unused.add(pending[kept])
            pending[kept] = i
            fresh.add(kept)
        elif op == Op.REG_WRITE_KEPT:
            pending.pop(kept, None)
            if kept not in fresh:
                carried.add(kept)
        elif op == Op.REPLAY_START:
            pending.clear()  # every replay may use what the prologue has read
            fresh.clear()
    unused |= {i for kept, i in pending.items() if kept not in carried}
    return _trace(trace, [row for i, row in enumerate(trace.actions) if i not in unused])


@trace_pass("address-spaces")
@_with_job_manager
def set_address_spaces_once(trace: Trace) -> Trace:
    """Point address spaces at their page tables in the prologue, and drop TLB maintenance: no mapping changes.

    Flushes of the GPU's caches through an address space stay. A trace is left as it is where replays change
    mappings, or reset the GPU, which switches its address spaces off.
    """
    ops = trace.actions["op"]
    starts = np.flatnonzero(ops == Op.REPLAY_START)
    if not len(starts) or np.isin(ops[starts[0] :], [int(Op.MAP_GPU_MEM), int(Op.UNMAP_GPU_MEM)]).any():
        return trace
    gpu = trace.profile
    registers = {r.index: n for n, r in gpu.registers.items() if ADDRESS_SPACE.match(n)}
    prologue, stream = list(trace.actions[: starts[0]]), list(trace.actions[starts[0] :])
    if any(_resets(row, gpu.register("gpu.COMMAND").index) for row in stream):
        return trace
    spaces = {space_of(row) for row in prologue if int(row["op"]) == Op.SET_GPU_PGTABLE}
    for space in sorted(spaces):
        if not _takes_effect(prologue, gpu, space):
            prologue += _update(gpu, space)
    out: list[np.void] = []
    kept_command = -1  # whose status is waited for
    for row in stream:
        name = registers.get(int(row["arg"]), "") if int(row["op"]) in (*READS, int(Op.REG_WRITE)) else ""
        if int(row["op"]) == Op.SET_GPU_PGTABLE:
            space = space_of(row)
            if space not in spaces:
                spaces.add(space)
                prologue += [row, *_update(gpu, space)]
        elif not name:
            out.append(row)
        elif name.endswith(".COMMAND") and int(row["value"]) == SpaceCommand.FLUSH_MEM:
            kept_command = int(row["arg"])
            out.append(row)
        elif name.endswith(".STATUS") and gpu.register(name[:-6] + "COMMAND").index == kept_command:
            kept_command = -1
            out.append(idle(gpu.register(name)))
    return _trace(trace, prologue + out)


def _takes_effect(rows: list[np.void], gpu: Profile, space: int) -> bool:
    """Whether the address space is updated behind the last time that it is pointed at its table."""
    command, found = gpu.register(f"as{space}.COMMAND").index, False
    update = Op.REG_WRITE, command, SpaceCommand.UPDATE
    for row in rows:
        if int(row["op"]) == Op.SET_GPU_PGTABLE and space_of(row) == space:
            found = False
        elif (int(row["op"]), int(row["arg"]), int(row["value"])) == update:
            found = True
    return found


def _update(gpu: Profile, space: int) -> list[np.void]:
    """Wait until the address space is idle, let its registers take effect, and wait for that."""
    return [idle(gpu.register(f"as{space}.STATUS")), *carried_out(gpu, space, SpaceCommand.UPDATE)]
