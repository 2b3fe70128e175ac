# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on parts of a Mali's cores: one's jobs in job slot 1, the other's in slot 2.

Both slots take compute jobs (JS_FEATURES_1 and _2 of the recordings; Linux 6.1 drivers/gpu/drm/panfrost/
panfrost_job.c, panfrost_job_get_slot). A slot has registers and interrupt bits of its own, a job its cores
(AFFINITY) and its address space (CONFIG), so what a network does becomes what it did, with other numbers. Which
job is waited for next is fixed, by the times that are given: where they are wrong, a slot waits without need, and
nothing else happens. Why so: docs/adr/0072-mali-shares.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from host_tools.families.shares import NotSharedError, Share, Together
from host_tools.gpus.mali.job_manager import resets
from host_tools.gpus.mali.share_order import interleaved
from host_tools.gpus.mali.share_side import Side
from host_tools.model.checkpoints import unmarked
from host_tools.model.job_names import NOTE, job_names
from host_tools.model.parts import SEPARATOR, part
from trace_format.actions import ALL_BITS, Action, Actions, Op, action, actions_of, array_of
from trace_format.errors import printable
from trace_format.profile import Profile
from trace_format.schema import KEEP_SLOTS, MAX_TIME_BUDGET_US
from trace_format.trace import Trace

SLOTS = (1, 2)  # that take compute jobs; the place of a network decides
PASSING = re.compile(r"gpu\.(IRQ_\w+|COMMAND|\w+_PWRO(N|FF)_\w+|PERFCNT_\w+)")  # written, but no setting


def together(trace: Trace, shares: Sequence[Share]) -> Together:
    """Let the two networks of a joint trace run at the same time.

    Args:
        trace: a joint trace of two networks, which are not exclusive.
        shares: theirs, in their order.

    Raises:
        NotSharedError: the cores are not there or not apart, or a network does what concerns both.
    """
    if len(trace.networks) != 2:
        raise NotSharedError(f"expected two networks, found {len(trace.networks)}")
    gpu = trace.profile
    rows = [trace.actions[one.first_action : one.end_action] for one in trace.networks]
    starts = [one.replay_start - one.first_action for one in trace.networks]
    present = _present(gpu, rows)
    _check_cores(shares, present)
    settings = [_settings(gpu, one[:start]) for one, start in zip(rows, starts, strict=True)]
    _check_settings(gpu, shares, settings)
    sides = [
        Side(gpu, share, network, slot, space, present)
        for space, (share, network, slot) in enumerate(zip(shares, trace.networks, SLOTS, strict=True))
    ]
    for side in sides:
        for slot in trace.slots[side.network.first_slot : side.network.end_slot]:
            side.uses(slot)
    _give_keeps(sides, rows)
    prologues = [side.prologue(one[:start]) for side, one, start in zip(sides, rows, starts, strict=True)]
    facts = {row for row in prologues[0] if row.op == Op.REG_READ_ONCE}
    prologue = prologues[0] + [row for row in prologues[1] if row not in facts]
    steps = [side.replay(one[start + 1 :]) for side, one, start in zip(sides, rows, starts, strict=True)]
    replay, rendezvous = interleaved(steps, shares)
    actions, names = _numbered([*prologue, action(Op.REPLAY_START), *replay], trace)
    metas = [Trace.META_DEFAULTS | trace.meta | {"time_budget_us": one.time_budget_us} for one in trace.networks]
    budget = sum(meta["time_budget_us"] * side.slower for meta, side in zip(metas, sides, strict=True))
    made = trace.with_(
        actions=unmarked(array_of(actions)),  # steps are others now
        slots=[
            replace(slot, address_space=side.space)
            for side in sides
            for slot in trace.slots[side.network.first_slot : side.network.end_slot]
        ],
        meta={
            **trace.meta,
            "core_mask": shares[0].cores | shares[1].cores,
            "time_budget_us": min(budget, MAX_TIME_BUDGET_US),
        },
        notes={NOTE: names},
        networks=[],
    )
    made.check()
    return Together(made, rendezvous)


def _present(gpu: Profile, rows: Sequence[Actions]) -> int:
    """The shader cores that are there, as the recordings read them."""
    found = ALL_BITS << 32 | ALL_BITS
    low, high = (gpu.register(f"gpu.SHADER_PRESENT_{half}") for half in ("LO", "HI"))
    for one in rows:
        seen = {low.index: low.reset, high.index: high.reset}
        for row in actions_of(one):
            if row.op == Op.REG_READ_ONCE and row.register in seen and row.mask == ALL_BITS:
                seen[row.register] = row.expected
        found &= seen[high.index] << 32 | seen[low.index]
    return found


def _check_cores(shares: Sequence[Share], present: int) -> None:
    for share in shares:
        name = printable(share.name)
        if not share.cores:
            raise NotSharedError(f"{name} has no cores: expected a mask of {present:#x}")
        if share.cores & ~present:
            raise NotSharedError(
                f"{name}: there are no cores {share.cores & ~present:#x}: expected a mask of {present:#x}"
            )
    for one, other in pairwise(shares):
        if both := one.cores & other.cores:
            raise NotSharedError(f"{printable(one.name)} and {printable(other.name)} both have cores {both:#x}")


@dataclass(frozen=True)
class _Settings:
    """What a prologue leaves in the registers that are both networks'.

    Attributes:
        values: by register, of those that are no request; a register that is not there has its value of a reset.
        cores: shader cores that are powered up.
    """

    values: dict[int, tuple[int, int]]
    cores: int


def _settings(gpu: Profile, rows: Actions) -> _Settings:
    values, cores = dict[int, tuple[int, int]](), 0
    power = {
        gpu.register(f"gpu.SHADER_PWR{way}_{half}").index: (way == "ON", shift)
        for way in ("ON", "OFF")
        for half, shift in (("LO", 0), ("HI", 32))
    }
    for row in actions_of(rows):
        if row.op != Op.REG_WRITE:
            continue
        name = gpu.describe(4 * row.register)
        if resets(gpu, row):
            values, cores = {}, 0
        elif row.register in power:
            on, shift = power[row.register]
            asked = (row.value & row.mask) << shift
            cores = cores | asked if on else cores & ~asked
        elif name.startswith("gpu.") and not PASSING.fullmatch(name):
            values[row.register] = row.value & row.mask, row.mask
    return _Settings(values, cores)


def _check_settings(gpu: Profile, shares: Sequence[Share], found: Sequence[_Settings]) -> None:
    """One GPU has one of each."""
    one, other = (printable(share.name) for share in shares)
    for register in sorted(found[0].values.keys() | found[1].values.keys()):
        name, reset = gpu.by_offset[4 * register].name, (gpu.by_offset[4 * register].reset, ALL_BITS)
        first, second = (its.values.get(register, reset) for its in found)
        if first != second:
            raise NotSharedError(
                f"{one} and {other} need other settings of the GPU: {name} is {first[0]:#x} for the one and "
                f"{second[0]:#x} for the other; record both with the same driver"
            )
    for share in shares:
        if share.cores & ~found[0].cores:
            raise NotSharedError(
                f"{one} powers up cores {found[0].cores:#x}: {printable(share.name)} is to have {share.cores:#x}"
            )


def _give_keeps(sides: Sequence[Side], rows: Sequence[Actions]) -> None:
    """Kept values of their own for each network."""
    kept = [sorted({row.keep for row in actions_of(one) if row.op == Op.REG_READ_KEEP}) for one in rows]
    if sum(map(len, kept)) > KEEP_SLOTS:
        raise NotSharedError(f"together they keep {sum(map(len, kept))} values: expected at most {KEEP_SLOTS}")
    at = 0
    for side, numbers in zip(sides, kept, strict=True):
        side.keeps = {number: at + index for index, number in enumerate(numbers)}
        at += len(numbers)


def _numbered(actions: Sequence[Action], trace: Trace) -> tuple[list[Action], list[str]]:
    """The actions with their jobs counted anew, and what each job is called: the network's name, and its own."""
    called = list[str]()
    for network in trace.networks:
        own = part(trace, network)
        names = job_names(own) or [str(number) for number in range(own.jobs)]
        called += [f"{network.name}{SEPARATOR}{name}" for name in names]
    found, names = list[Action](), list[str]()
    for row in actions:
        if row.op == Op.JOB:
            names.append(called[row.number])
            row = row.with_(number=len(names) - 1)
        found.append(row)
    return found, names
