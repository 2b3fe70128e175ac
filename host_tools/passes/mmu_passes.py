"""Passes over address spaces: mappings that never change are made once, before the first job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.gpus.mali.job_manager import has_job_manager
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.registry import trace_pass
from trace_format.actions import Op
from trace_format.trace import Trace


@trace_pass("map-once")
def map_once(trace: Trace) -> Trace:
    """Make all mappings before the page table is set, and drop the TLB flushes between jobs.

    Left as it is where a virtual page is remapped between jobs. Where an address space's commands flush caches
    too (job manager), they stay: `address-spaces` tells one from the other.
    """
    try:
        memory = Memory.of(trace)
    except Conflict:
        return trace
    if not (memory.prologue["op"] == Op.SET_GPU_PGTABLE).any():
        return trace
    names = [] if has_job_manager(trace.profile) else trace.profile.mmu["flush"]
    flush = [trace.profile.register(name).index for name in names]
    flushes = _accesses(memory.stream, flush)
    kept = np.cumsum(~flushes)
    for item in memory.late:
        item.before = int(kept[item.before - 1]) if item.before else 0
    memory.stream = memory.stream[~flushes]
    return _with_one_flush(memory, flush)


def _accesses(rows: NDArray[np.void], registers: list[int]) -> NDArray[np.bool_]:
    accesses = np.isin(rows["op"], [Op.REG_WRITE, Op.REG_READ_ONCE, Op.REG_READ_WAIT])
    return accesses & np.isin(rows["arg"], registers)


def _with_one_flush(memory: Memory, flush: list[int]) -> Trace:
    """Keep, of the flushes in the prologue, those up to the first complete one behind SET_GPU_PGTABLE."""
    rows = memory.prologue
    at = int(np.argmax(rows["op"] == Op.SET_GPU_PGTABLE))
    is_flush = _accesses(rows, flush)
    behind = np.arange(len(rows)) > at
    groups = np.cumsum(np.diff(np.concatenate(([0], (is_flush & behind).astype(np.int8)))) == 1)
    memory.prologue = rows[~(is_flush & behind & (groups > 1))]
    return memory.emit()
