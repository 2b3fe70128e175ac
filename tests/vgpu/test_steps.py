# SPDX-License-Identifier: BSD-2-Clause
"""Replays that stop between jobs and go on later: the same bits, whatever other networks did in between."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.vgpu.test_joined import FOUR, PAIR, Running, expected, inputs, joint, running, single
from trace_format import profile
from trace_format.actions import Columns, Op

REGISTERS = profile.load("v3d42").registers
JOBS = int(Columns(single("lenet").actions).is_op(Op.JOB).sum())


def scribble(gpu: VirtualGpu) -> None:
    """What another driver may leave: other page tables, other masks of interrupts."""
    for name in ("hub.MMU_PT_PA_BASE", "hub.MMU_CTL", "core0.CSD_QUEUED_CFG5"):
        gpu.write32(REGISTERS[name].offset, 0)
    for name in ("hub.INT_MSK_SET", "core0.INT_MSK_SET"):
        gpu.write32(REGISTERS[name].offset, 0xFFFFFFFF)


def steps(device: Running, most: int = 1 << 30) -> int:
    """Go on until the replay is over, or for so many steps; how many it took."""
    taken = 1
    while taken <= most and device.replayer.step():
        taken += 1
    return taken


def test_a_replay_has_as_many_steps_as_jobs() -> None:
    with running(single("lenet"), steps=True) as device:
        for seed in range(3):
            device.give(0, inputs(single("lenet"), seed))
            assert steps(device) == JOBS
            report = device.replayer.report
            assert (report.ok, report.jobs, report.retries) == (True, JOBS, 0)
            assert device.outputs(0) == expected("lenet", seed)


@pytest.mark.parametrize("name", ["lenet-mali", "lenet-7.1"])
def test_other_gpus(name: str) -> None:
    with running(single(name), steps=True) as device:
        for seed in range(2):
            device.give(0, inputs(single(name), seed))
            assert steps(device) > 1
            assert device.outputs(0) == expected(name, seed)


@pytest.mark.parametrize("names", [PAIR, FOUR], ids=len)
def test_steps_of_several_networks(names: Sequence[str]) -> None:
    """Whichever has the next step, all outputs are those of the single traces."""
    random = np.random.default_rng(3)
    count = len(names)
    with running(joint(names).trace, steps=True) as device:
        seeds, done = [0] * count, [0] * count
        for network in range(count):
            device.give(network, inputs(single(names[network]), 0))
        while min(done) < 3:
            network = int(random.integers(count))
            device.replayer.select(network)
            others = [device.working(other) for other in range(count) if other != network]
            is_more = device.replayer.step()
            assert others == [device.working(other) for other in range(count) if other != network]
            if not is_more:
                assert device.outputs(network) == expected(names[network], seeds[network])
                done[network] += 1
                seeds[network] = done[network] % 3
                device.give(network, inputs(single(names[network]), seeds[network]))


@pytest.mark.parametrize("at", range(1, JOBS))
def test_preempted_at_each_job(at: int) -> None:
    """Another network's whole replay in between; then the GPU in others' hands, and again from the start."""
    with running(joint(PAIR).trace, steps=True) as device:
        device.give(0, inputs(single("lenet"), 1))
        device.give(1, inputs(single("detector"), 1))
        assert steps(device, at) == at + 1
        assert device.replayer.report.name == "STATE"
        device.replayer.select(1)
        steps(device)
        assert device.outputs(1) == expected("detector", 1)
        device.replayer.select(0)
        assert steps(device) == JOBS - at
        assert device.outputs(0) == expected("lenet", 1)

        steps(device, at)
        scribble(device.gpu)
        for network in range(2):
            device.replayer.select(network)
            device.replayer.restart()
        device.replayer.select(0)
        device.give(0, inputs(single("lenet"), 2))
        assert steps(device) == JOBS
        assert device.outputs(0) == expected("lenet", 2)


@pytest.mark.parametrize("at", range(1, JOBS))
def test_power_is_cut_between_two_steps(at: int) -> None:
    """What has stayed in memory is of no use to the next replayer, and does it no harm."""
    with running(single("lenet"), steps=True) as device:
        device.give(0, inputs(single("lenet"), 0))
        steps(device, at)
        memory = device.memory
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: memory}) as gpu:
        after = Running(device.trace, gpu, memory, True)
        after.give(0, inputs(single("lenet"), 1))
        assert steps(after) == JOBS
        assert after.outputs(0) == expected("lenet", 1)


def test_run_gives_up_what_is_under_way() -> None:
    with running(single("lenet"), steps=True) as device:
        device.give(0, inputs(single("lenet"), 0))
        steps(device, 3)
        assert device.request(0, inputs(single("lenet"), 2)) == expected("lenet", 2)
        device.give(0, inputs(single("lenet"), 1))
        assert steps(device) == JOBS
        assert device.outputs(0) == expected("lenet", 1)


def test_a_fault_is_charged_to_the_network_that_ran() -> None:
    """It is tried again; the other one begins again, and has used no retry."""
    trace = joint(PAIR).trace
    with running(trace, steps=True, fault_job=4) as device:
        device.give(0, inputs(single("lenet"), 0))
        device.give(1, inputs(single("detector"), 0))
        steps(device, 2)
        device.replayer.select(1)
        steps(device)
        assert device.replayer.report.retries == 1
        assert device.outputs(1) == expected("detector", 0)
        device.replayer.select(0)
        assert steps(device) == JOBS
        assert device.replayer.report.retries == 0
        assert device.outputs(0) == expected("lenet", 0)


def test_the_time_budget_is_of_all_steps_together() -> None:
    trace = single("lenet")
    with running(trace, steps=True) as device:
        steps(device)
        spent = device.replayer.report.replay_us
    short = trace.with_(meta={**trace.meta, "time_budget_us": max(spent // 2, 1)})
    with running(short, steps=True) as device, pytest.raises(ReplayError) as error:
        steps(device)
    assert error.value.report.name == "BUDGET"


def test_misuse() -> None:
    trace = single("lenet")
    with running(trace, steps=True) as device:
        steps(device, 2)
        device.replayer.unload()
        with pytest.raises(ReplayError) as error:
            device.replayer.step()
        assert error.value.report.name == "STATE"
        assert not any(bytes(device.memory))


def test_a_buffer_that_is_refused_does_not_end_the_one_before() -> None:
    """The replayer goes on using that one, so it must stay."""
    with running(single("lenet"), steps=True) as device:
        first = np.zeros_like(device.buffers[0])
        kept = weakref.ref(first)
        device.replayer.bind(0, first)
        del first
        steps(device, 1)
        for other in (device.buffers[0], np.zeros(1, np.float32)):
            with pytest.raises(ReplayError):
                device.replayer.bind(0, other)
        gc.collect()
        assert kept() is not None
        steps(device)
        device.replayer.bind(0, device.buffers[0])
        gc.collect()
        assert kept() is None
