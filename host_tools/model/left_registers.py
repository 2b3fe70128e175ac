# SPDX-License-Identifier: BSD-2-Clause
"""Registers that a network of a joint trace would find as another one has left them.

A replay may rest on what its own prologue, or the replay before it, wrote. Between two of its replays another
network's may run, without a reset: what that leaves in a register must be the same, or be written anew before the
first job ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_format.actions import ALL_BITS, Action, Op, actions_of
from trace_format.network import Network
from trace_format.trace import Trace

Values = dict[int, int | None]  # by register's index; None: not known


def left_registers(trace: Trace) -> Iterator[tuple[Network, Network, str]]:
    """Registers, each with the network that finds it changed and the one that changes it.

    Args:
        trace: a joint one; of others, there are none.
    """
    found = [(row, *_written(trace, row)) for row in trace.networks]
    for own, last, anew in found:
        for other, its, _ in found:
            if other is own:
                continue
            for register, value in its.items():
                same = value is not None and last.get(register) == value
                if register not in anew and not same:
                    yield own, other, trace.profile.describe(4 * register)


def _written(trace: Trace, network: Network) -> tuple[Values, set[int]]:
    """What it leaves in each register that it writes; which it writes in a replay before its first job ends."""
    last: Values = {}
    anew: set[int] = set()
    is_first = False
    for index, row in enumerate(actions_of(trace.actions[network.first_action : network.end_action])):
        if index == network.replay_start - network.first_action:
            is_first = True
        if row.op in (Op.WAIT_IRQ, Op.OPERATE):
            is_first = False
        if row.op in (Op.REG_WRITE, Op.REG_WRITE_KEPT):
            last[row.register] = _value(row)
            if is_first and _value(row) is not None:
                anew.add(row.register)
    return last, anew


def _value(row: Action) -> int | None:
    return row.value if row.op == Op.REG_WRITE and row.mask == ALL_BITS else None
