# SPDX-License-Identifier: BSD-2-Clause
"""A GPU that misbehaves once: LeNet's replay ends with the right output, after a retry if need be, or is refused.

What goes wrong is tried at every register access and at every look at the interrupt line. What the replayer cannot
see is counted by itself: a bit of working memory that flips.
"""

from __future__ import annotations

import functools
import mmap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError, Report
from tests.support import replayer_samples as s
from tests.support.faulty_gpu import FOREVER, Fault, FaultyGpu, Kind
from tests.support.figures import documented, is_near
from tests.support.sampling import SomeOf
from trace_format.actions import Op
from trace_format.trace import Trace

MEMORY_BYTES = 1 << 20
SAMPLE = 60  # of each kind of fault
FLIPS = 2000  # of bits in working memory
LATENCY_NS = 40_000  # forty looks at the clock
CONTROL = s.GPU.register("hub.MMU_CTL").offset, 1 << 20  # PT_INVALID
RESET = s.GPU.register("bridge.SW_INIT_1").offset


@functools.cache
def trace() -> Trace:
    """LeNet, with shorter waits: each look of a wait costs a call here."""
    found = build(Trace.read(RAW), skip=KEEP_INPUTS)
    actions = found.actions.copy()
    actions["value"][actions["op"] == Op.WAIT_IRQ] = 200
    return found.with_(actions=actions)


@functools.cache
def signed() -> bytes:
    return s.signed(trace())


@dataclass
class Outcome:
    """What became of a run: report, output, whether the model stopped, the GPU, whether memory was wiped."""

    report: Report
    output: bytes
    stopped: bool
    gpu: FaultyGpu
    wiped: bool

    @property
    def is_right(self) -> bool:
        return self.report.ok and self.output == expected().output


def run(fault: Fault | None, memory: bytes = b"") -> Outcome:
    """Load, replay once, unload."""
    carveout = mmap.mmap(-1, MEMORY_BYTES)
    carveout[: len(memory)] = memory
    output = np.zeros(10, np.float32)
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}, latency_ns=LATENCY_NS, threads=1) as device:
        gpu = FaultyGpu(device, fault, carveout, CONTROL, RESET)
        replayer = hostlib.HostReplayer(s.library(), s.GPU, gpu.c_interface, carveout, s.CARVEOUT_PHYS)
        try:
            replayer.load(signed(), s.KEY)
            replayer.bind(1, output)
            report = replayer.run()
        except ReplayError as error:
            report = error.report
        stopped = device.error is not None
        replayer.unload()
    return Outcome(report, output.tobytes(), stopped, gpu, not any(carveout[:]))


@functools.cache
def expected() -> Outcome:
    """Without a fault."""
    return run(None)


def reads() -> Iterator[Fault]:
    for at in range(1, expected().gpu.reads + 1):
        yield from (Fault(Kind.READ_FLIP, at, 1 << bit) for bit in range(32))
        yield from (Fault(Kind.READ_AS, at, value) for value in (0, 0xFFFFFFFF, 0xDEADBEEF))


def interrupts() -> Iterator[Fault]:
    for at in range(1, expected().gpu.looks + 1):
        yield from (Fault(Kind.IRQ_LATE, at, looks) for looks in (1, 100, FOREVER))
        yield from (Fault(Kind.IRQ_EARLY, at, looks) for looks in (1, 100, FOREVER))


def events() -> Iterator[Fault]:
    for at in range(1, expected().gpu.accesses + 1):
        yield Fault(Kind.MMU_FAULT, at)
        yield Fault(Kind.RESET, at)


def test_without_a_fault_the_output_is_right() -> None:
    found = expected()
    assert (found.is_right, found.wiped, found.stopped) == (True, True, False)
    assert np.frombuffer(found.output, np.float32).sum() == pytest.approx(1)
    assert min(found.gpu.reads, found.gpu.looks) > 100


def judge(faults: list[Fault]) -> Counter[str]:
    """Try all; each must end well. Returns how often it ended how."""
    ends: Counter[str] = Counter()
    for fault in faults:
        found = run(fault)
        assert found.wiped, fault
        if found.report.ok:
            assert found.is_right, f"{fault}: a wrong output that is said to be right"
            ends["right after a retry" if found.report.retries else "right"] += 1
        else:
            ends[found.report.name] += 1
    return ends


@pytest.mark.parametrize("faults", [reads, interrupts, events], ids=lambda f: f.__name__)
def test_a_gpu_that_misbehaves_once(faults: object, some_of: SomeOf) -> None:
    assert callable(faults)
    ends = judge(list(some_of(list(faults()), SAMPLE)))
    assert ends["right after a retry"] > 0
    print(dict(ends))


def test_the_figures_of_the_evidence() -> None:
    every = sum(len(list(faults())) for faults in (reads, interrupts, events))
    accesses = expected().gpu.accesses
    assert is_near(documented("docs/EVIDENCE.md", r"([\d,]+) faults, at every access of a replay of LeNet"), every)
    assert is_near(documented("docs/EVIDENCE.md", r"at each of (\d+) accesses"), accesses)


def test_memory_as_it_was_at_a_power_cut(some_of: SomeOf) -> None:
    """The next start finds it, and does not mind."""
    for at in some_of(range(1, expected().gpu.accesses + 1), 10):
        cut = run(Fault(Kind.POWER_CUT, at)).gpu.snapshot
        assert any(cut)
        assert run(None, cut).is_right, at
    assert run(None, b"\xa5" * MEMORY_BYTES).is_right


def test_bits_that_flip_in_working_memory(some_of: SomeOf) -> None:
    """No check sees them: the output may be wrong. The replayer ends all the same, and leaves nothing."""
    rng = np.random.default_rng(1)
    accesses = expected().gpu.accesses
    image, end = len(trace().image), trace().carveout_bytes
    places = [(int(rng.integers(1, accesses + 1)), int(rng.integers(image * 8, end * 8))) for _ in range(FLIPS)]
    ends: Counter[str] = Counter()
    for at, bit in some_of(places, 40):
        found = run(Fault(Kind.MEMORY_FLIP, at, bit))
        assert found.wiped
        ends["right" if found.is_right else "wrong" if found.report.ok else found.report.name] += 1
    assert ends["right"] > 0
    print(dict(ends))
