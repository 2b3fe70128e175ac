# SPDX-License-Identifier: BSD-2-Clause
"""MobileNet, whose long jobs are cut, preempted by LeNet at 200 random jobs: the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.sharing import joining
from host_tools.passes.pipeline import build
from tee_replayer.generator.hostlib import NO_DEADLINE
from tests.support import networks
from tests.vgpu.test_checkpoints import give_away
from tests.vgpu.test_joined import Running, inputs, running
from trace_format.actions import Columns, Op
from trace_format.schema import SlotKind
from trace_format.trace import Trace

LONGEST_US, PREEMPTED = 1000, 200
NAMES = ("mobilenet", "lenet")


def whole(trace: Trace, seed: int) -> dict[str, bytes]:
    """Outputs of a replay of its own."""
    with running(trace) as device:
        return device.request(0, inputs(trace, seed))


def check(mobilenet: Trace, lenet: Trace, preempted: int, *, is_away: bool = False) -> None:
    """One replay, with a whole one of the other network before so many of its jobs; before that another driver
    has the GPU, if it `is_away`."""
    away = {"checkpoints": True} if is_away else {}
    singles = [
        build(mobilenet, asked={"cut-jobs": LONGEST_US, **away}),
        build(lenet, asked=away),
    ]
    jobs = int(Columns(singles[0].actions).is_op(Op.JOB).sum())
    assert jobs > PREEMPTED
    rows = [joining.Joining(name, trace) for name, trace in zip(NAMES, singles, strict=True)]
    places = set(np.random.default_rng(1).choice(np.arange(1, jobs), preempted, replace=False).tolist())
    expected = [whole(trace, number) for number, trace in enumerate(singles)]
    with running(joining.joint(rows, "both").trace, schedule=2) as device:
        for network, trace in enumerate(singles):
            device.give(network, inputs(trace, network))
        slow = device.replayer.submit(0, NO_DEADLINE)
        for job in range(jobs):
            if job in places:
                wipe_outputs(device, 1)
                if is_away:
                    give_away(device)
                fast = device.replayer.submit(1, NO_DEADLINE - 1)
                while not (over := device.replayer.schedule_step()):
                    pass
                assert over == fast
                assert device.outputs(1) == expected[1]
            over = device.replayer.schedule_step()
        assert over == slow
        assert device.replayer.report.retries == 0
        assert device.outputs(0) == expected[0]
        assert device.gpu.counters().resets == (2 * preempted + 1 if is_away else 1)


def wipe_outputs(device: Running, network: int) -> None:
    """So that the next replay has to write them."""
    row = device.trace.networks[network]
    for index in range(row.first_slot, row.first_slot + row.slot_count):
        if device.trace.slots[index].kind is SlotKind.OUTPUT:
            device.buffers[index][...] = 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_away", [False, True], ids=["another network", "another driver, too"])
def test_mobilenet_at_200_random_jobs(is_away: bool, shared_folder: Path) -> None:
    mobilenet = networks.recorded("mobilenet_v1", shared_folder, "v3d42")
    check(mobilenet, networks.recorded(networks.LENET, shared_folder, "v3d42"), PREEMPTED, is_away=is_away)
