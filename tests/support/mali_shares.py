# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on parts of a Mali's cores: LeNet beside itself, and a device that is watched."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from host_tools.extras.sharing.joining import Joining, joint
from host_tools.families.shares import Share, Together
from host_tools.gpus.mali.shares import together
from host_tools.model.interpreter import Interpreter
from host_tools.passes.pipeline import build
from tests.support.places import CHECKOUT
from trace_format.actions import Action, Op
from trace_format.trace import Trace

LENET = CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr"
CORES = (0x0F, 0xF0)
LATENCY_NS = 20_000
ACTIVE = 8  # js*.STATUS


@functools.cache
def lenet() -> Trace:
    """LeNet of PanVK, built."""
    made: Trace = build(Trace.read(LENET), trust_note=True)
    return made


def at_once(
    traces: Sequence[Trace],
    us: Sequence[Sequence[float]] = (),
    cores: Sequence[int] = CORES,
    names: Sequence[str] = ("a", "b"),
) -> Together:
    """Two traces as one that runs both; `us`: what jobs take, which their order follows; otherwise the same."""
    whole = joint([Joining(name, trace) for name, trace in zip(names, traces, strict=True)], "both").trace
    us = us or [[1.0] * trace.jobs for trace in traces]
    return together(whole, [Share(name, mask, own) for name, mask, own in zip(names, cores, us, strict=True)])


class Watching(Interpreter):
    """A device that looks at its job slots after each action of a replay.

    Attributes:
        both: after how many actions jobs of both slots ran.
    """

    both = 0
    replays = False

    def _step(self, row: Action) -> None:
        super()._step(row)
        self.replays |= row.op == Op.REPLAY_START
        if self.replays:
            slots = (self.gpu_profile.register(f"js{slot}.STATUS") for slot in (1, 2))
            self.both += all(self.gpu.read32(slot.offset) == ACTIVE for slot in slots)
