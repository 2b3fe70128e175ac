# SPDX-License-Identifier: BSD-2-Clause
"""Two networks in turns, a step each, on a GPU that misbehaves once, and on a device that loses power in between.

A fault is charged to the network whose step it falls into; the other's output is what it is without one. Whatever
memory holds after a power cut, the next start is a clean one.
"""

from __future__ import annotations

import functools
import mmap
from collections import Counter
from dataclasses import dataclass
from typing import cast

import pytest

from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.faulty_gpu import Fault, FaultyGpu, Kind
from tests.support.sampling import SomeOf
from tests.vgpu.test_faulty_gpu import CONTROL, LATENCY_NS, RESET
from tests.vgpu.test_joined import PAIR, Running, expected, inputs, joint, single
from trace_format.actions import Op
from trace_format.trace import Trace

SEED = 1


@dataclass
class Outcome:
    """What became of each network, "right", "wrong" or the name of its status; in whose step the fault was.

    Attributes:
        ends: by network.
        retries: of each.
        struck: the network whose step the fault was in; None: in unloading, or there was none.
        gpu: with numbers of accesses, and memory at a power cut.
        loaded: how many of them, by kind of fault, loading takes.
        stopped: why the model goes no further, "" while it does: a real GPU's next step is not known then.
    """

    ends: list[str]
    retries: list[int]
    struck: int | None
    gpu: FaultyGpu
    loaded: Counter[Kind]
    stopped: str


@functools.cache
def trace() -> Trace:
    """LeNet and a detector, with shorter waits: each look of a wait costs a call here."""
    found = joint(PAIR).trace
    actions = found.actions.copy()
    actions["value"][actions["op"] == Op.WAIT_IRQ] = 200
    return found.with_(actions=actions)


def run(fault: Fault | None, memory: bytes = b"") -> Outcome:
    """Load, and replay both, a step of each in turns."""
    carveout = mmap.mmap(-1, trace().carveout_bytes + (8 << 20))
    carveout[: len(memory)] = memory
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}, latency_ns=LATENCY_NS, threads=1) as model:
        gpu = FaultyGpu(model, fault, carveout, CONTROL, RESET)
        device = Running(trace(), cast(VirtualGpu, gpu), carveout, steps=True)
        loaded = Counter({kind: counted(gpu, Fault(kind, 1)) for kind in Kind})
        ends, retries, struck = ["", ""], [0, 0], None
        for network, name in enumerate(PAIR):
            device.give(network, inputs(single(name), SEED))
        while not all(ends):
            for network, name in enumerate(PAIR):
                if ends[network]:
                    continue
                before = counted(gpu, fault)
                device.replayer.select(network)
                try:
                    if not device.replayer.step():
                        is_right = device.outputs(network) == expected(name, SEED)
                        ends[network] = "right" if is_right else "wrong"
                except ReplayError as error:
                    ends[network] = error.report.name
                retries[network] = max(retries[network], device.replayer.report.retries)
                if fault is not None and before < fault.at <= counted(gpu, fault):
                    struck = network
        stopped = model.error or ""
        device.replayer.unload()
    assert not any(carveout[:])
    return Outcome(ends, retries, struck, gpu, loaded, stopped)


def counted(gpu: FaultyGpu, fault: Fault | None) -> int:
    """What the place of a fault is counted in."""
    if fault is None or fault.kind in (Kind.MMU_FAULT, Kind.RESET, Kind.POWER_CUT):
        return gpu.accesses
    return gpu.reads if fault.kind in (Kind.READ_FLIP, Kind.READ_AS) else gpu.looks


@functools.cache
def without() -> Outcome:
    """Without a fault."""
    return run(None)


def faults(kind: Kind) -> list[Fault]:
    """At each place of one kind, once the trace is loaded."""
    value = {Kind.READ_AS: 0xDEADBEEF, Kind.IRQ_EARLY: 1}.get(kind, 0)
    first, last = without().loaded[kind] + 1, counted(without().gpu, Fault(kind, 1))
    return [Fault(kind, at, value) for at in range(first, last + 1)]


def test_without_a_fault() -> None:
    assert (without().ends, without().retries, without().struck) == (["right", "right"], [0, 0], None)
    assert without().gpu.accesses > 1000


@pytest.mark.parametrize(
    "kind",
    [
        Kind.MMU_FAULT,
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in (Kind.RESET, Kind.READ_AS)),
        Kind.IRQ_EARLY,
    ],
    ids=lambda kind: kind.name,
)
def test_a_fault_is_its_network_s_alone(kind: Kind, some_of: SomeOf) -> None:
    """Whichever step it falls into: the other network's output is right, and no wrong one is said to be right."""
    ends: Counter[str] = Counter()
    for fault in some_of(faults(kind), 16):
        found = run(fault)
        assert "wrong" not in found.ends, fault
        if found.stopped or found.struck is None:
            ends["the model stopped" if found.stopped else "right"] += 1
            continue
        assert found.ends[1 - found.struck] == "right", (fault, found.ends)
        ends[found.ends[found.struck] + (" after a retry" if any(found.retries) else "")] += 1
    assert ends["the model stopped"] < sum(ends.values()) / 2
    assert sum(count for end, count in ends.items() if end != "right") > 0, "no fault had an effect"
    print(dict(ends))


def test_memory_as_it_was_at_a_power_cut(some_of: SomeOf) -> None:
    """At each access of both replays: the next start finds what is there, and does not mind."""
    for fault in some_of(faults(Kind.POWER_CUT), 6):
        cut = run(fault).gpu.snapshot
        assert any(cut)
        assert run(None, cut).ends == ["right", "right"], fault
