# SPDX-License-Identifier: BSD-2-Clause
"""What audits ask of job chains: what they reach, and what of it they must not write."""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.families.accesses import Flaw, Followed, NotFollowedError, Reached
from host_tools.gpus.mali.job_chains import ChainError, Reach, reach
from host_tools.model.memory import Conflict, Memory
from trace_format.actions import MAP_WRITE
from trace_format.errors import SlotError
from trace_format.trace import Trace


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
    """What chains are told to write and cannot, and chains that cannot be followed (`Family.check`)."""
    try:
        for found in reach(Memory.of(trace)).written:
            if not found.flags & MAP_WRITE:
                there = "not mapped" if found.region is None else "mapped without write permission"
                yield (
                    "GR301",
                    f"job chain {found.chain.index}: the {found.what} at GPU address {found.va:#x} is {there}",
                )
    except (ChainError, SlotError) as error:
        yield "GR303", str(error)
    except Conflict as error:
        yield "GR303", f"job chains are not followed: {error}"
