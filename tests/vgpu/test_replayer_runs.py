# SPDX-License-Identifier: BSD-2-Clause
"""What the replayer's core does with a trace that it has loaded: copies, waits, tries again, gives up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tee_replayer.generator.status import ReplayError, Report
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Device, Parts, read, register, signed, trace, write
from trace_format.actions import MAP_READ, Action, Op, action
from trace_format.schema import SlotKind

HUGE = 0xFFFFFFFF
INPUT = np.arange(6, dtype="<f4").reshape(2, 3)


def failure(device: Device, data: bytes) -> Report:
    """Load a trace, and replay it in vain: the GPU is reset afterwards."""
    device.replayer.load(data, s.KEY)
    with pytest.raises(ReplayError) as error:
        device.replayer.run()
    assert device.gpu.log[-1][0].startswith("bridge.")
    device.replayer.unload()
    assert device.is_wiped
    return error.value.report


@pytest.fixture
def device() -> Device:
    return Device()


def test_it_replays(device: Device) -> None:
    replayer = device.replayer
    assert replayer.load(signed(trace()), s.KEY).ok
    assert device.memory[: len(s.IMAGE)] == s.IMAGE
    data, out = INPUT.copy(), np.zeros_like(INPUT)
    replayer.bind(0, data)
    replayer.bind(1, out)
    report = replayer.run()
    assert (report.jobs, report.actions, report.retries) == (1, len(s.PROLOGUE + s.REPLAY), 0)
    assert np.array_equal(out, INPUT)
    at = s.MEMORY_PAGE * PAGE
    assert device.memory[at : at + 100] == s.IMAGE[8:108]
    data[:] = 7
    assert replayer.run().actions == len(s.REPLAY) + 1, "the prologue runs once"
    assert np.array_equal(out, data)
    assert device.gpu.resets == 1
    replayer.unload()
    assert device.is_wiped
    assert device.gpu.resets == 2


def test_a_parameter_is_copied_once_until_it_is_bound_anew(device: Device) -> None:
    """Its copy stands in the prologue. The input's, after it, goes to other memory in each replay."""
    value, data = s.slots()
    weights = dataclasses.replace(value, name="w", kind=SlotKind.PARAMETER, bound=False)
    inputs = dataclasses.replace(value, name="x", address=(s.VA + 3) * PAGE)
    prologue = [*s.PROLOGUE[:3], action(Op.COPY_TO_GPU), action(Op.REPLAY_START)]
    replay = [action(Op.COPY_TO_GPU, slot=1), action(Op.COPY_FROM_GPU, slot=2)]
    device.replayer.load(signed(trace(*prologue, *replay, slots=[weights, inputs, data])), s.KEY)
    with pytest.raises(ReplayError, match="no data: slot 0") as error:
        device.replayer.run()
    assert error.value.report.actions == 0
    first, out = INPUT.copy(), np.zeros_like(INPUT)
    device.replayer.bind(0, first)
    device.replayer.bind(2, out)
    for run in (7, 3):
        device.replayer.bind(1, INPUT * run)  # inputs do not restart anything
        assert device.replayer.run().actions == run
        assert np.array_equal(out, INPUT)
        first += 100  # not seen: it is copied already
    device.replayer.bind(0, INPUT + 1)
    assert device.replayer.run().actions == 7
    assert np.array_equal(out, INPUT + 1)
    assert device.gpu.resets == 2


def test_the_page_table_is_short_and_capped(device: Device) -> None:
    device.replayer.load(signed(trace()), s.KEY)
    device.replayer.run()
    written = dict(device.gpu.log)
    table = (written["hub.MMU_PT_PA_BASE"] << 12) - s.CARVEOUT_PHYS
    assert table == 16 * PAGE, "right after the trace's memory"
    assert written["hub.MMU_ADDR_CAP"] == 1 << 31 | 1, "one MiB"
    scratch = ((written["hub.MMU_ILLEGAL_ADDR"] & 0x7FFFFFFF) << 12) - s.CARVEOUT_PHYS
    entries = np.frombuffer(device.memory, "<u4", (scratch - table) // 4, table)
    valid = np.flatnonzero(entries)
    assert list(valid) == [s.VA + i for i in range(4)]
    frames = entries[valid] & 0xFFFFFF
    assert list(frames) == [(s.CARVEOUT_PHYS >> 12) + s.MEMORY_PAGE + i for i in range(4)]
    assert scratch - table >= 2 * 256 * 4, "a wrong guess about the cap meets empty entries"


def test_translation_is_on_before_the_first_action(device: Device) -> None:
    device.replayer.load(signed(trace(write("core0.INT_CLR", 0x80))), s.KEY)
    device.replayer.run()
    names = [name for name, _ in device.gpu.log]
    driver = ["hub.MMU_PT_PA_BASE", "hub.MMU_ADDR_CAP", "hub.MMU_ILLEGAL_ADDR", "hub.MMU_CTL"]
    assert names == ["bridge.SW_INIT_1", "bridge.SW_INIT_1", *driver, "core0.INT_CLR"]
    assert dict(device.gpu.log)["hub.MMU_CTL"] & s.MMU_ON == s.MMU_ON


@pytest.mark.parametrize(
    ("damage", "status"),
    [
        (lambda p: p.slot(0, "address", 0), "RANGE"),  # not mapped
        (lambda p: p.slot(0, "strides", 4 << 32 | 0x5000), "RANGE"),  # leaves the mapping with its second row
        (lambda p: p.slot(0, "address", (s.VA + 4) * PAGE - 8), "RANGE"),  # in the middle of a row
        (lambda p: p.slot(0, "kind", 2), "ACTION"),  # an output that goes in
        (lambda p: p.action(0, b=0, flags=MAP_READ), "RANGE"),  # the slot's memory is the image
    ],
)
def test_a_slot_that_reaches_outside_stops_the_replay(
    device: Device, damage: Callable[[Parts], Parts], status: str
) -> None:
    # the image takes up the pages that the last case maps
    sample = trace(image=bytes(4 * PAGE))
    sample = sample.with_(slots=s.slots())
    device.replayer.load(damage(Parts.of(sample)).signed(), s.KEY)
    before = bytes(device.memory)
    data = INPUT.copy()
    device.replayer.bind(0, data)
    with pytest.raises(ReplayError) as error:
        device.replayer.run()
    assert error.value.report.name == status
    assert before[: 4 * PAGE] == device.memory[: 4 * PAGE], "the image is as it was"
    assert device.gpu.resets == 2, "no second try"


@pytest.mark.parametrize(
    ("live", "allowed"), [(0x060D0C01, True), (0x060D0C00, False), (0x160D0C01, False), (0, False)]
)
def test_a_kept_value_obeys_the_policy(device: Device, live: int, allowed: bool) -> None:
    sample = trace(
        action(Op.REG_READ_KEEP, register=register("hub.MMU_HIT"), keep=2),
        action(Op.REG_WRITE_KEPT, register=register("hub.MMU_CTL"), keep=2),
    )
    device.gpu.set("hub.MMU_HIT", live)
    if allowed:
        device.replayer.load(signed(sample), s.KEY)
        device.replayer.run()
        assert ("hub.MMU_CTL", live) in device.gpu.log
    else:
        assert failure(device, signed(sample)).name == "REGISTER"
        assert ("hub.MMU_CTL", live) not in device.gpu.log


def test_a_masked_write_keeps_the_other_bits(device: Device) -> None:
    device.gpu.set("hub.MMU_CTL", s.MMU_ON | 0x80)  # bit 7 is the hardware's own
    device.replayer.load(signed(trace(write("hub.MMU_CTL", 0x4, mask=0x4))), s.KEY)
    device.replayer.run()
    assert ("hub.MMU_CTL", s.MMU_ON | 0x4) in device.gpu.log
    device.gpu.set("hub.MMU_CTL", 0)
    with pytest.raises(ReplayError):  # what must be set is not
        device.replayer.run()


def test_an_input_without_a_value_must_be_bound(device: Device) -> None:
    device.replayer.load(signed(trace(slots=s.slots(bound=False))), s.KEY)
    with pytest.raises(ReplayError, match="given no data: slot 0"):
        device.replayer.run()
    assert device.gpu.log == []
    device.replayer.bind(0, INPUT.copy())
    device.replayer.run()


def test_a_buffer_of_another_size_is_not_bound(device: Device) -> None:
    device.replayer.load(signed(trace()), s.KEY)
    for slot, size in ((0, 23), (0, 25), (2, 24), (HUGE, 24)):
        with pytest.raises(ReplayError):
            device.replayer.bind(slot, bytearray(size))


def test_nothing_runs_without_a_loaded_trace(device: Device) -> None:
    with pytest.raises(ReplayError, match="no trace is loaded"):
        device.replayer.run()
    device.replayer.load(signed(trace()), s.KEY)
    device.replayer.unload()
    with pytest.raises(ReplayError, match="no trace is loaded"):
        device.replayer.run()
    assert device.gpu.log == []


@pytest.mark.parametrize("retries", [0, 1, 5, 1000])
def test_a_divergence_is_tried_again_then_reported(device: Device, retries: int) -> None:
    sample = trace(
        *s.PROLOGUE, action(Op.JOB, number=0), read("core0.INT_STS", 0x80, 0xFF), meta={"retry_limit": retries}
    )
    device.gpu.set("core0.INT_STS", 0x105)
    report = failure(device, signed(sample))
    assert report.name == "DIVERGED"
    assert report.action == len(s.PROLOGUE) + 1
    assert report.offset == s.GPU.register("core0.INT_STS").offset
    assert (report.expected, report.seen, report.jobs) == (0x80, 0x05, 1)
    assert report.retries == min(retries, 8), "a compiled limit holds, too"
    text = report.describe(s.GPU)
    assert "action 6: RegReadOnce core0.INT_STS: expected 0x80, found 0x5" in text


def test_a_second_try_may_succeed(device: Device) -> None:
    def recover(name: str, _value: int) -> None:
        if name == "bridge.SW_INIT_1" and device.gpu.resets == 2:
            device.gpu.set("core0.INT_STS", 0x80)

    device.gpu.on_write = recover
    device.replayer.load(signed(trace(*s.PROLOGUE, read("core0.INT_STS", 0x80))), s.KEY)
    report = device.replayer.run()
    assert (report.retries, report.actions) == (1, 2 * len(s.PROLOGUE) + 1)


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (
            action(Op.REG_READ_WAIT, register=register("core0.INT_STS"), expected=1, mask=1, timeout_us=500),
            "TIMEOUT",
        ),
        (action(Op.WAIT_IRQ, timeout_us=500), "NO_IRQ"),
    ],
)
@pytest.mark.parametrize("fault", [False, True])
def test_a_wait_ends(device: Device, last: Action, status: str, fault: bool) -> None:
    if fault:
        status = "FAULT"
        device.gpu.on_write = lambda name, value: device.gpu.set(
            "hub.MMU_CTL", value | 0x00100000 if name == "hub.MMU_CTL" else device.gpu.values.get(0x1200, 0)
        )
    report = failure(device, signed(trace(*s.PROLOGUE, last)))
    assert (report.name, report.retries, report.action) == (status, 2, len(s.PROLOGUE))
    assert report.seen == (0x00100000 if fault else 0)


@pytest.mark.parametrize(
    "endless",
    [
        action(Op.REG_READ_WAIT, register=register("core0.INT_STS"), expected=1, mask=1, timeout_us=HUGE),
        action(Op.WAIT_IRQ, timeout_us=HUGE),
        action(Op.INTERVAL, us=HUGE),
    ],
)
def test_the_time_budget_ends_everything(device: Device, endless: Action) -> None:
    report = failure(device, signed(trace(endless, meta={"time_budget_us": 3000})))
    assert (report.name, report.retries) == ("BUDGET", 0)
    assert 3000 <= report.replay_us < 4000


def test_an_interval_passes(device: Device) -> None:
    device.replayer.load(signed(trace(action(Op.INTERVAL, us=700))), s.KEY)
    assert device.replayer.run().replay_us >= 700


def test_waiting_ends_when_the_interrupt_comes(device: Device) -> None:
    device.gpu.interrupt = True
    device.replayer.load(
        signed(trace(action(Op.WAIT_IRQ, timeout_us=1), action(Op.IRQ_ENTER), action(Op.IRQ_EXIT))), s.KEY
    )
    assert device.replayer.run().actions == 3


@settings(max_examples=60)
@given(st.data())
def test_strided_slots(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)))
    strides: tuple[int, ...] = ()
    inner = 4
    for n in reversed(shape):
        step = inner + 4 * data.draw(st.integers(0, 3))
        strides = (step, *strides)
        inner = step * n
    if inner > 3 * PAGE:
        return
    sample = trace(slots=s.slots(shape, strides))
    device = Device()
    device.replayer.load(signed(sample), s.KEY)
    given_ = np.random.default_rng(0).random(shape).astype("<f4")
    out = np.zeros_like(given_)
    device.replayer.bind(0, given_.copy())
    device.replayer.bind(1, out)
    device.replayer.run()
    assert np.array_equal(out, given_)
    memory = np.frombuffer(device.memory, np.uint8, inner, (s.MEMORY_PAGE + 1) * PAGE)
    assert np.array_equal(np.lib.stride_tricks.as_strided(memory.view("<f4"), shape, strides), given_)
    assert np.count_nonzero(memory.view("<f4")) <= given_.size, "nothing between the elements"
