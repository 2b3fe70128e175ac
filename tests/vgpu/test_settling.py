# SPDX-License-Identifier: BSD-2-Clause
"""What the replayer looks at, whatever a trace compares: faults, jobs at work, code that could change, time.

The GPU is only registers, so that it does what a test wants at the moment that it wants.
"""

from __future__ import annotations

import pytest

from tee_replayer.generator.status import ReplayError, Report
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, VA, Device, Registers, signed, trace, write
from trace_format import profile
from trace_format.actions import ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.trace import Trace

MALI = profile.load("mali_g71")
ONCE = {"retry_limit": 0}
CODE_FLAGS = 5  # propagate NaNs, threading: what Mesa's driver sets besides the address
CSD_DONE = write("core0.INT_CLR", 0x80)  # any write after which something happens


def outcome(device: Device, sample: Trace) -> Report:
    """The report of one run of a trace that loads."""
    device.replayer.load(signed(sample), s.KEY)
    try:
        return device.replayer.run()
    except ReplayError as error:
        return error.report


def mali(*rows: Action) -> Trace:
    return Trace("mali_g71", array_of(rows), b"", 16 * PAGE, 32 * PAGE, meta=ONCE)


def mali_write(name: str, value: int) -> Action:
    return action(Op.REG_WRITE, register=MALI.register(name).index, value=value, mask=ALL_BITS)


def mali_device() -> Device:
    gpu = Registers(MALI)
    gpu.set("gpu.IRQ_RAWSTAT", 0x100)  # it comes out of resets
    return Device(gpu)


@pytest.mark.parametrize("bit", [12, 20, 27])
def test_a_fault_that_the_trace_does_not_look_at(bit: int) -> None:
    """A V3D keeps it in MMU_CTL: write violation, invalid page, cap exceeded."""
    device = Device()
    device.gpu.on_write = lambda name, value: (
        device.gpu.set("hub.MMU_CTL", s.MMU_ON | 1 << bit) if name == "core0.INT_CLR" else None
    )
    report = outcome(device, trace(CSD_DONE, meta=ONCE))
    assert (report.name, report.seen) == ("FAULT", 1 << bit)


def test_a_fault_after_an_interrupt_ends_the_replay_there() -> None:
    device = Device()
    device.gpu.interrupt = True
    device.gpu.on_write = lambda name, value: (
        device.gpu.set("hub.MMU_CTL", s.MMU_ON | 1 << 12) if name == "core0.INT_CLR" else None
    )
    later = write("core0.INT_MSK_CLR", 0x80)
    report = outcome(device, trace(CSD_DONE, action(Op.WAIT_IRQ, timeout_us=9), later, meta=ONCE))
    assert (report.name, report.action) == ("FAULT", 1)
    assert ("core0.INT_MSK_CLR", 0x80) not in device.gpu.log


@pytest.mark.parametrize(
    ("register", "value", "seen"),
    [
        ("mmu.IRQ_RAWSTAT", 0x10001, 0x10001),
        ("job.IRQ_RAWSTAT", 0x20002, 0x200),
        ("gpu.IRQ_RAWSTAT", 0x101, 1 << 24),
    ],
)
def test_a_fault_of_a_mali(register: str, value: int, seen: int) -> None:
    device = mali_device()
    device.gpu.on_write = lambda name, _: device.gpu.set(register, value) if name == "job.IRQ_MASK" else None
    report = outcome(device, mali(mali_write("job.IRQ_MASK", 7)))
    assert (report.name, report.seen) == ("FAULT", seen)


@pytest.mark.parametrize("register", ["mmu.IRQ_CLEAR", "job.IRQ_CLEAR", "gpu.IRQ_CLEAR"])
def test_no_trace_clears_a_fault_of_a_mali(register: str) -> None:
    for bit in (0, 16) if register == "mmu.IRQ_CLEAR" else (16, 17, 18) if register == "job.IRQ_CLEAR" else (0, 7):
        device = mali_device()
        with pytest.raises(ReplayError, match="policy does not allow"):
            device.replayer.load(signed(mali(mali_write(register, 1 << bit))), s.KEY)
        assert device.gpu.log == []


@pytest.mark.parametrize("status", [1, 2, 8])
def test_a_replay_that_ends_while_a_job_runs(status: int) -> None:
    device = Device()
    device.gpu.on_write = lambda name, value: (
        device.gpu.set("core0.CSD_STATUS", status) if name == "core0.INT_CLR" else None
    )
    report = outcome(device, trace(CSD_DONE, meta={"retry_limit": 1}))
    assert (report.name, report.retries) == ("BUSY", 1)
    assert device.gpu.resets == 4, "before and after each try"


class Lagging(dict[int, int]):
    """Values of registers; CSD_STATUS says that a job runs for the first 100 reads."""

    reads = 0

    def get(self, offset: int, default: int = 0) -> int:  # type: ignore[override]
        if offset != s.GPU.register("core0.CSD_STATUS").offset:
            return super().get(offset, default)
        self.reads += 1
        return int(self.reads <= 100)


def test_a_job_that_is_over_a_little_later() -> None:
    """A register may lag after the interrupt: the replayer waits, but not long."""
    device = Device()
    device.gpu.values = Lagging(device.gpu.values)
    assert outcome(device, trace(CSD_DONE, meta=ONCE)).ok
    assert device.gpu.values.reads > 100


@pytest.mark.parametrize("name", ["gpu.COMMAND", "gpu.SHADER_PWROFF_LO", "as0.COMMAND"])
@pytest.mark.parametrize("busy", ["js1.STATUS", "js2.COMMAND_NEXT"])
def test_a_mali_at_work_is_not_reset_or_powered_off(name: str, busy: str) -> None:
    device = mali_device()
    device.gpu.on_write = lambda written, _: (
        device.gpu.set(busy, 8 if busy.endswith("STATUS") else 1) if written == "job.IRQ_MASK" else None
    )
    before = mali_write("job.IRQ_MASK", 7)
    report = outcome(device, mali(before, mali_write(name, 1)))
    assert (report.name, report.action) == ("BUSY", 1)
    at = device.gpu.log.index(("job.IRQ_MASK", 7))
    assert (name, 1) not in device.gpu.log[at : at + 2]
    idle = mali_device()
    assert outcome(idle, mali(before, mali_write(name, 1))).ok


def job(code: int) -> list[Action]:
    return [write("core0.CSD_QUEUED_CFG5", code | CODE_FLAGS), write("core0.CSD_QUEUED_CFG0", 1 << 16)]


def mapped(frame: int, flags: int) -> Action:
    return action(Op.MAP_GPU_MEM, flags=flags, pages=1, va_page=VA, frame=frame, address_space=0)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (mapped(0, MAP_READ | MAP_EXECUTE), "OK"),
        (mapped(s.MEMORY_PAGE, MAP_READ | MAP_WRITE | MAP_EXECUTE), "RANGE"),
        (mapped(s.MEMORY_PAGE, MAP_READ | MAP_EXECUTE), "RANGE"),  # an input could be copied there
        (mapped(s.MEMORY_PAGE, MAP_READ), "RANGE"),
    ],
)
def test_code_of_a_v3d_lies_in_the_image(row: Action, name: str) -> None:
    device = Device()
    report = outcome(device, trace(row, *job(VA * PAGE), meta=ONCE))
    assert report.name == name
    assert (("core0.CSD_QUEUED_CFG0", 1 << 16) in device.gpu.log) == (name == "OK")


def test_mappings_of_a_v3d_stay_while_a_job_runs() -> None:
    """The code was checked when the job started; what it is does not change after that."""
    for later in (mapped(s.MEMORY_PAGE, MAP_READ), action(Op.UNMAP_GPU_MEM, pages=1, va_page=VA, address_space=0)):
        device = Device()
        device.gpu.on_write = lambda name, value, gpu=device.gpu: (  # type: ignore[misc]
            gpu.set("core0.CSD_STATUS", 4) if name == "core0.CSD_QUEUED_CFG0" else None
        )
        report = outcome(device, trace(mapped(0, MAP_READ), *job(VA * PAGE), later, meta=ONCE))
        assert (report.name, report.action) == ("BUSY", 3)


def test_a_deadline_that_passes_before_a_wait_begins() -> None:
    """The time left is taken from one look at the clock: wherever the deadline falls, the replay ends.

    A look takes a microsecond here.
    """
    forever = action(Op.WAIT_IRQ, timeout_us=0xFFFFFFFF)
    for budget in range(1, 40):
        device = Device()
        report = outcome(device, trace(*[action(Op.INTERVAL, us=1)] * 3, forever, meta={"time_budget_us": budget}))
        assert report.name == "BUDGET"
        assert report.replay_us < budget + 60


def test_loading_has_a_limit_too() -> None:
    """A source that takes long, chunk by chunk."""
    device = Device()
    device.replayer.slow(70_000_000)
    sample = trace(action(Op.REPLAY_START), image=bytes(16 * PAGE), carveout_bytes=32 * PAGE, slots=[])
    with pytest.raises(ReplayError, match="time budget"):
        device.replayer.load(signed(sample, chunk_bytes=PAGE), s.KEY)


def test_no_job_starts_on_a_gpu_that_has_reset_itself() -> None:
    """It would run without translation, and reach any memory."""
    device = Device()
    device.gpu.on_write = lambda name, value: (
        device.gpu.set("hub.MMU_CTL", 0) if name == "core0.CSD_QUEUED_CFG5" else None
    )
    report = outcome(device, trace(mapped(0, MAP_READ), *job(VA * PAGE), meta=ONCE))
    assert (report.name, report.action) == ("DIVERGED", 2)
    assert ("core0.CSD_QUEUED_CFG0", 1 << 16) not in device.gpu.log


SECRET_AT, SECRET = 8 * PAGE, b"what a job computed"  # in the trace's working memory


def keeps_secrets(device: Device) -> list[bool]:
    """At each run, and each attempt: whether its first job finds what an earlier one left."""
    found = []

    def compute(name: str, _: int) -> None:
        if name == "core0.INT_CLR":
            found.append(bytes(device.memory[SECRET_AT:][: len(SECRET)]) == SECRET)
            device.memory[SECRET_AT : SECRET_AT + len(SECRET)] = SECRET

    device.gpu.on_write = compute
    return found


def test_nothing_of_earlier_runs_stays_after_a_restart() -> None:
    device = Device()
    found = keeps_secrets(device)
    device.replayer.load(signed(trace(action(Op.REPLAY_START), CSD_DONE, meta=ONCE)), s.KEY)
    for _ in range(2):
        device.replayer.run()
    device.replayer.restart()
    assert device.replayer.run().ok
    assert found == [False, True, False]
    assert device.gpu.resets == 2, "one before each first run"


def test_nothing_of_a_failed_attempt_stays() -> None:
    device = Device()
    found = keeps_secrets(device)
    late = s.read("core0.INT_STS", 1)
    report = outcome(device, trace(action(Op.REPLAY_START), CSD_DONE, late, meta={"retry_limit": 2}))
    assert (report.name, report.retries) == ("DIVERGED", 2)
    assert found == [False, False, False]


def test_a_fault_is_named_where_it_hangs_the_job() -> None:
    device = Device()

    def hang(name: str, _: int) -> None:
        if name == "core0.INT_CLR":
            device.gpu.set("core0.CSD_STATUS", 1)
            device.gpu.set("hub.MMU_CTL", s.MMU_ON | 1 << 20)

    device.gpu.on_write = hang
    report = outcome(device, trace(CSD_DONE, meta=ONCE))
    assert (report.name, report.seen) == ("FAULT", 1 << 20)
