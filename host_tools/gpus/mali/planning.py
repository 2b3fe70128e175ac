# SPDX-License-Identifier: BSD-2-Clause
"""From which job chain to which working memory is in use (`Family.spans`).

Where it is not proved what chains access in a region, a page with content, a slot or what the CPU writes between
jobs keeps the whole region in use. Chains count that can reach a page (chain_memory.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from host_tools.families.accesses import Span
from host_tools.gpus.mali.chain_memory import ChainMemory, chain_memory
from host_tools.gpus.mali.job_chains import chains
from host_tools.gpus.mali.job_manager import ChainStarts
from host_tools.model.memory import Memory
from host_tools.passes.planning import ALWAYS
from host_tools.passes.program import Program
from host_tools.passes.units import pinned
from trace_format.actions import Op, actions_of
from trace_format.operators import operations


def chain_spans(program: Program) -> Mapping[int, Span] | None:
    """Frame -> first and last chain that uses it; None: of what operators read, nobody says how long it must stay.

    Raises:
        ChainError: as `chain_memory`.
    """
    return None if any(operations(program.actions)) else spans(program.memory, chain_memory(program))


def spans(memory: Memory, seen: ChainMemory) -> dict[int, Span]:
    """The same of memory; `seen`: of the same."""
    if not one_by_one(memory):
        return {}
    own = pinned(memory)
    prologue = sum(chain.start < 0 for chain in chains(memory))
    found = {}
    for region in seen.regions:
        if seen.is_searched(region) and not own.isdisjoint(region.frames):
            continue
        for frame in region.frames:
            use = seen.use(frame)
            if use is not None:
                found[frame] = _in_every_replay(use, prologue)
    return found


def _in_every_replay(use: Span, prologue: int) -> Span:
    """What outlives the prologue is in use in every replay."""
    first, last = use
    return first, ALWAYS[1] if first < prologue <= last else last


def one_by_one(memory: Memory) -> bool:
    """Whether each chain is waited for before the next one starts, the last one before the next replay.

    Caches must hold nothing of it by then, so that two GPU pages may have one page of memory, one after the other:
    each chain begins and ends with cleaning and invalidating them (Linux panfrost_job.c).
    """
    gpu = memory.trace.profile
    starts = ChainStarts(gpu)
    lines = {job.line for job in gpu.jobs}
    running = False
    for row in actions_of(np.concatenate([memory.prologue, memory.stream])):
        if starts.take(row):
            if running or not starts.flushes:
                return False
            running = True
        elif row.op == Op.WAIT_IRQ and row.line in lines:
            running = False
    return not running
