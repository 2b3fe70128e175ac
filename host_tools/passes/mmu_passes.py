# SPDX-License-Identifier: BSD-2-Clause
"""Passes over address spaces: mappings that never change are made once, before the first job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.families.family import family_of
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass
from trace_format.actions import Actions, Columns, Op


@memory_pass("map-once")
def map_once(program: Program) -> None:
    """Make all mappings before the page table is set, and drop the TLB flushes between jobs.

    Where the same commands flush caches too, they stay: a pass of the family distinguishes them.
    """
    memory = program.memory
    if not Columns(memory.prologue).is_op(Op.SET_GPU_PGTABLE).any():
        return
    names = program.profile.mmu["flush"] if family_of(program.profile).tlb_only_flushes else []
    flush = [program.profile.register(name).index for name in names]
    before = _repeated(memory.prologue, flush)
    memory.drop(np.concatenate([before, _accesses(memory.stream, flush)]))
    program.commit()


def _accesses(rows: Actions, registers: list[int]) -> NDArray[np.bool_]:
    columns = Columns(rows)
    return columns.is_op(Op.REG_WRITE, Op.REG_READ_ONCE, Op.REG_READ_WAIT) & np.isin(columns.register, registers)


def _repeated(rows: Actions, flush: list[int]) -> NDArray[np.bool_]:
    """Of the flushes in the prologue, all but those up to the first complete one after SET_GPU_PGTABLE."""
    at = int(np.argmax(Columns(rows).is_op(Op.SET_GPU_PGTABLE)))
    later = _accesses(rows, flush) & (np.arange(len(rows)) > at)
    groups = np.cumsum(np.diff(np.concatenate(([0], later.astype(np.int8)))) == 1)
    return later & (groups > 1)
