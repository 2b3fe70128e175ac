"""Passes over register accesses and interrupts."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from host_tools.passes.registry import trace_pass
from trace_format.actions import ACTION_DTYPE, ALL_BITS, FLAG_IGNORE, Op, action
from trace_format.profile import Job, Profile
from trace_format.trace import Trace

POLL_TIMEOUT_US = 100_000  # Linux v3d_gem.c and v3d_mmu.c give these handshakes 100 ms


@trace_pass("volatile")
def mask_volatile_bits(trace: Trace) -> Trace:
    """Stop comparing bits that the hardware changes by itself (counters, debug words)."""
    actions = trace.actions.copy()
    for register in trace.profile.registers.values():
        if register.volatile:
            reads = (actions["op"] == Op.REG_READ_ONCE) & (actions["arg"] == register.index)
            actions["a"][reads] &= ~np.uint32(register.volatile)
            ignored = reads & (actions["a"] == 0)
            actions["flags"][ignored] |= FLAG_IGNORE
            actions["value"][ignored] = 0
    return trace.with_(actions=actions, raw=False)


@trace_pass("polls")
def fold_polls(trace: Trace) -> Trace:
    """Turn runs of reads of a busy bit into one wait for its end."""
    actions = trace.actions
    busy = {r.index: r.busy for r in trace.profile.registers.values() if r.busy}
    out: list[np.void] = []
    for row in actions:
        bits = busy.get(int(row["arg"]), 0) if int(row["op"]) == Op.REG_READ_ONCE else 0
        if not bits:
            out.append(row)
            continue
        wait = action(Op.REG_READ_WAIT, arg=int(row["arg"]), value=0, a=bits, b=POLL_TIMEOUT_US)
        if int(row["value"]) & bits == 0 and not (out and out[-1] == wait):
            out.append(wait)
    return trace.with_(actions=np.array(out, dtype=ACTION_DTYPE), raw=False)


@trace_pass("intervals")
def trim_intervals(trace: Trace) -> Trace:
    """Drop recorded idle time: no register of the profile asks for a minimum interval."""
    return trace.with_(actions=trace.actions[trace.actions["op"] != Op.INTERVAL], raw=False)


@trace_pass("interrupts")
def fold_interrupts(trace: Trace) -> Trace:
    """Drop the marks of interrupt handlers; the wait, the status read and the clear stay."""
    ops = trace.actions["op"]
    return trace.with_(actions=trace.actions[(ops != Op.IRQ_ENTER) & (ops != Op.IRQ_EXIT)], raw=False)


@trace_pass("no-op-lists")
def drop_no_op_lists(trace: Trace) -> Trace:
    """Drop bin and render jobs, which in a compute recording only signal fences.

    The virtual GPU refuses any list that would draw, so in a trace that replays they touch no memory.
    """
    gpu = trace.profile
    lists = {job.start.index: job for job in gpu.jobs if job.kind in ("bin", "render")}
    actions = trace.actions
    drop = np.zeros(len(actions), np.bool_)
    writes = actions["op"] == Op.REG_WRITE
    for index in np.flatnonzero(writes & np.isin(actions["arg"], list(lists))):
        job = _list_job(actions, int(index), lists[int(actions["arg"][index])])
        if not job.any():
            return trace  # its interrupt was served together with another's: nothing to cut out
        drop |= job
    for name, register in gpu.registers.items():
        if name.startswith(("core0.CLE_CT0Q", "core0.CLE_CT1Q", "core0.PTB_")):
            drop |= writes & (actions["arg"] == register.index)
    return trace.with_(actions=actions[~drop], raw=False)


def _list_job(actions: NDArray[np.void], start: int, job: Job) -> NDArray[np.bool_]:
    """Marks the start of a list job and the service of its interrupt; nothing when they cannot be told apart."""
    drop = np.zeros(len(actions), np.bool_)
    drop[start] = True
    for index in range(start + 1, len(actions)):
        row = actions[index]
        op, offset = int(row["op"]), int(row["arg"]) * 4
        if (op == Op.WAIT_IRQ and int(row["arg"]) == job.line) or (
            op == Op.REG_READ_ONCE and offset == job.done.offset and int(row["value"]) == job.done_bits
        ):
            drop[index] = True
        elif op == Op.REG_WRITE and int(row["value"]) == job.done_bits and drop[index - 1]:
            drop[index] = True
            return drop
        else:
            break
    return np.zeros(len(actions), np.bool_)


@trace_pass("cache-maintenance")
def drop_repeated_cache_maintenance(trace: Trace) -> Trace:
    """Drop a cache flush that is followed by the same flush with no job in between."""
    commands, states = _maintenance_registers(trace.profile)
    out: list[np.void] = []
    for row in trace.actions:
        out.append(row)
        for size in (1, 2):  # of a V3D: L2TCACTL, SLCACTL; of a Mali: an address space's command, its status
            tail, before = out[-size:], out[-2 * size : -size]
            if len(before) == size and tail == before and all(_maintains(r, commands, states) for r in tail):
                del out[-size:]
    return trace.with_(actions=np.array(out, dtype=ACTION_DTYPE), raw=False)


def _maintenance_registers(gpu: Profile) -> tuple[set[int], set[int]]:
    """Registers that flush caches when they are written, and those that tell when it is done."""
    names = ("core0.CTL_L2TCACTL", "core0.CTL_SLCACTL", "core0.CTL_L2CACTL")
    commands = {gpu.registers[name].index for name in names if name in gpu.registers}
    spaces = [name for name in gpu.registers if re.fullmatch(r"as\d+\.(COMMAND|STATUS)", name)]
    commands |= {gpu.register(name).index for name in spaces if name.endswith("COMMAND")}
    return commands, {gpu.register(name).index for name in spaces if name.endswith("STATUS")}


def _maintains(row: np.void, commands: set[int], states: set[int]) -> bool:
    op, register = int(row["op"]), int(row["arg"])
    if op == Op.REG_WRITE:
        return int(row["a"]) == ALL_BITS and register in commands
    return op == Op.REG_READ_WAIT and register in states
