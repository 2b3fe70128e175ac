# SPDX-License-Identifier: BSD-2-Clause
"""What audits ask of job chains: what they reach, what of it they must not write, and what is locked meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from host_tools.accesses.job_starts import JobStarts
from host_tools.accesses.slot_places import parts_in
from host_tools.families.accesses import Flaw, Followed, NotFollowedError, Reached
from host_tools.families.shares import overlap
from host_tools.gpus.mali.job_chains import ChainError, Reach, reach
from host_tools.gpus.mali.job_manager import ChainStarts, SpaceCommand
from host_tools.gpus.mali.share_order import order
from host_tools.model.memory import Conflict, Memory
from trace_format.actions import MAP_WRITE, Op, actions_of
from trace_format.errors import SlotError, printable
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

UNLOCKING = (SpaceCommand.UNLOCK, SpaceCommand.FLUSH_PT, SpaceCommand.FLUSH_MEM)


def follow(trace: Trace) -> Followed:
    """What the trace's chains reach (`Family.follow`).

    Raises:
        NotFollowedError: a chain cannot be followed.
    """
    try:
        found = reach(Memory.of(trace))
    except (ChainError, SlotError, Conflict) as error:
        raise NotFollowedError(str(error)) from None
    reached = [
        Reached(region.space, first, region.end, frozenset(found.chains[region]))
        for region, first in found.first.items()
    ]
    return Followed(reached, {chain: _places(found, chain, code) for chain, code in found.code.items()})


def _places(found: Reach, chain: int, code: list[int]) -> list[tuple[int, int]]:
    """Address space and address of a chain's shaders."""
    space = next((region.space for region, numbers in found.chains.items() if chain in numbers), 0)
    return [(space, va) for va in code]


def check(trace: Trace) -> Iterator[Flaw]:
    """What chains are told to write and cannot, chains that cannot be followed, those that start while a region is
    locked, jobs that share memory at the same time, and slots over what chains follow (`Family.check`).
    """
    yield from _locked(trace)
    yield from _at_once(trace)
    try:
        memory = Memory.of(trace)
        reached = reach(memory)
        for found in reached.written:
            if not found.flags & MAP_WRITE:
                there = "not mapped" if found.region is None else "mapped without write permission"
                yield (
                    "GR301",
                    f"job chain {found.chain.index}: the {found.what} at GPU address {found.va:#x} is {there}",
                )
        yield from _given(memory, reached)
    except (ChainError, SlotError) as error:
        yield "GR303", str(error)
    except Conflict as error:
        yield "GR303", f"job chains are not followed: {error}"


def _locked(trace: Trace) -> Iterator[Flaw]:
    """Jobs that start while a region is locked: tee_replayer/drivers/mali_g71.c refuses each. As there, only an
    unlock or a flush ends a lock; what a kept value does is not known here, and taken for a lock.
    """
    gpu, starts = trace.profile, JobStarts(trace.profile)
    spaces = {gpu.register(f"as{space}.COMMAND").index: space for space in range(gpu.address_spaces)}
    locked: dict[int, int] = {}  # address space -> action
    for index, row in enumerate(actions_of(trace.actions)):
        if row.op not in (Op.REG_WRITE, Op.REG_WRITE_KEPT):
            continue
        if row.register in spaces:
            command = SpaceCommand.LOCK if row.op == Op.REG_WRITE_KEPT else row.value & row.mask
            if command == SpaceCommand.LOCK:
                locked[spaces[row.register]] = index
            elif command in UNLOCKING:
                locked.pop(spaces[row.register], None)
        elif locked and starts.of(row):
            space, since = next(iter(locked.items()))
            what = f"action {index} starts a job while address space {space} is locked, since action {since}"
            yield "GR305", what


def _at_once(trace: Trace) -> Iterator[Flaw]:
    """The first pages that jobs which run at the same time have in common, if one of them may write there."""
    if not overlap(order(trace)):
        return
    starts, spaces = ChainStarts(trace.profile), set[int]()
    pages: dict[int, dict[int, bool]] = {}  # address space -> frame -> whether jobs may write it
    for row in actions_of(trace.actions):
        if row.op == Op.MAP_GPU_MEM:
            own = pages.setdefault(row.address_space, {})
            for frame in range(row.frame, row.frame + row.pages):
                own[frame] = own.get(frame, False) or bool(row.flags & MAP_WRITE)
        elif found := starts.take(row):
            spaces.add(found[0])
    if len(spaces) < 2:
        yield "GR306", "jobs run at the same time in one address space"
    for one, other in combinations(sorted(spaces), 2):
        first, second = pages.get(one, {}), pages.get(other, {})
        if common := [frame for frame in first.keys() & second.keys() if first[frame] or second[frame]]:
            at = min(common) * PAGE_BYTES
            yield (
                "GR306",
                f"address spaces {one} and {other}, whose jobs run at the same time, have {len(common)} pages in "
                f"common that jobs may write, the first at {at:#x} of the carve-out",
            )


def _given(memory: Memory, reached: Reach) -> Iterator[Flaw]:
    """What callers may write of descriptors, push uniforms and uniform buffers.

    Raises:
        SlotError: some of a slot is not mapped.
    """
    for slot in memory.trace.slots:
        if slot.kind.is_given:
            name = f"the {slot.kind.name.lower()} {printable(slot.name)}"
            for rule, found, what in (
                ("GR401", reached.naming, "what job chains name memory by"),
                ("GR409", reached.uniforms, "uniform buffers, from which a shader may take addresses"),
            ):
                parts = parts_in(memory, found.keys(), [slot])
                if count := sum(int(found[frame][inside].sum()) for frame, inside in parts):
                    yield rule, f"{name} covers {count} bytes of {what}"
