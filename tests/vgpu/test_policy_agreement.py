# SPDX-License-Identifier: BSD-2-Clause
"""The signer's program and the device judge register accesses alike: trace_format.policy against the C core."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tee_replayer.generator.status import ReplayError, Report
from tests.support import replayer_samples as s
from tests.support.replayer_samples import Device, Registers
from tests.support.sampling import SomeOf
from trace_format import policy, profile
from trace_format.actions import ACTION_DTYPE, ALL_BITS, MAP_EXECUTE, MAP_READ, Action, Op, action
from trace_format.profile import Profile
from trace_format.registers import Register
from trace_format.trace import Trace

GPUS = [profile.load(name) for name in s.IDENT]
gpus = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)


def trace(gpu: Profile, *actions: Action) -> Trace:
    rows = np.array(list(actions), dtype=ACTION_DTYPE)
    sizes = {"carveout_bytes": 16 * s.PAGE, "va_bytes": 32 * s.PAGE}
    return Trace(gpu.name, rows, s.IMAGE, slots=[], meta={"name": "small"}, **sizes)  # type: ignore[arg-type]


def by_host(sample: Trace) -> str:
    """Why the signer's program refuses it; "" when it does not."""
    try:
        policy.check(sample)
    except policy.PolicyError as error:
        return str(error)
    return ""


def by_device(gpu: Profile, sample: Trace) -> Report:
    """What the device says of it, at the latest when it runs."""
    device = Device(Registers(gpu), 1 << 20)
    try:
        device.replayer.load(s.signed(sample), s.KEY)
        return device.replayer.run()
    except ReplayError as error:
        return error.report


def accesses(index: int) -> Iterator[Action]:
    """All that an action can do to a register without saying which bits."""
    yield action(Op.REG_READ_ONCE, register=index, expected=0, mask=0, flags=1)
    yield action(Op.REG_READ_WAIT, register=index, expected=0, mask=0, timeout_us=1)
    yield action(Op.REG_READ_KEEP, register=index, keep=0)
    yield action(Op.REG_WRITE_KEPT, register=index, keep=0)


def writes(register: Register) -> Iterator[Action]:
    """Writes at the limits of what a trace may do to a register."""
    bits, always = register.may_set, register.replay_set
    for value, mask in (
        (bits, ALL_BITS),
        (always, ALL_BITS),
        (0, ALL_BITS),
        (ALL_BITS, ALL_BITS),
        *((bits | 1 << bit, ALL_BITS) for bit in range(32)),
        *((always & ~(1 << bit), ALL_BITS) for bit in range(32)),
        (always, always or 1),
        (ALL_BITS, bits or 1),
        (1 << 31, 1),
        (ALL_BITS, ALL_BITS >> 1),
    ):
        yield action(Op.REG_WRITE, register=register.index, value=value, mask=mask)


def everything(gpu: Profile) -> list[Action]:
    known = list(gpu.by_offset.values())
    window = range(gpu.window_bytes // 4)
    found = [access for index in window for access in accesses(index)]
    return found + [write for register in known for write in writes(register)]


@gpus
def test_what_the_host_refuses_the_device_refuses(gpu: Profile, some_of: SomeOf) -> None:
    rows = everything(gpu)
    refused = [rows[index] for index in np.flatnonzero(policy.refused(trace(gpu, *rows)))]
    assert len(refused) > 1000
    for row in some_of(refused, 60):
        sample = trace(gpu, row)
        report = by_device(gpu, sample)
        assert report.name == "REGISTER", (row, report)
        assert by_host(sample).startswith(report.describe(gpu)), (by_host(sample), report.describe(gpu))


@gpus
def test_what_the_host_allows_the_device_loads(gpu: Profile) -> None:
    """All of it in one trace: one refusal would refuse all."""
    rows = everything(gpu)
    allowed = [rows[index] for index in np.flatnonzero(~policy.refused(trace(gpu, *rows)))]
    assert len(allowed) > 200
    device = Device(Registers(gpu), 4 << 20)
    device.replayer.load(s.signed(trace(gpu, *allowed)), s.KEY)


@gpus
def test_the_first_refused_action_is_named(gpu: Profile) -> None:
    reset = gpu.register("gpu.COMMAND" if gpu.driver == "mali_g71" else "bridge.SW_INIT_1").index
    good = action(Op.REG_READ_ONCE, register=gpu.identity.index, expected=0, mask=0, flags=1)
    bad = action(Op.REG_WRITE, register=reset, value=ALL_BITS, mask=ALL_BITS)
    found = by_host(trace(gpu, good, good, bad, bad))
    assert "the register policy does not allow this access, action 2: RegWrite" in found


def test_only_the_image_is_executable_where_page_tables_can_say_so() -> None:
    """A Mali's can, a V3D's cannot."""
    last = -(-len(s.IMAGE) // s.PAGE) - 1
    for frame, pages, good in ((0, last + 1, True), (last, 1, True), (last, 2, False), (last + 1, 1, False)):
        row = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_EXECUTE, pages=pages, frame=frame, arg=0, a=0)
        v3d, mali = (trace(profile.load(name), row) for name in ("v3d42", "mali_g71"))
        assert by_host(v3d) == ""
        assert by_device(v3d.profile, v3d).ok
        assert (by_host(mali) == "") == good
        report = by_device(mali.profile, mali)
        assert (report.name == "RANGE") == (not good)
        assert good or by_host(mali).startswith(report.describe(mali.profile).partition(": MapGpuMem")[0])
