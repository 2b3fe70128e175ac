# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies in the emulated secure world: the named cases that the same firmware judges, and a replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.machine.boot import QEMU
from host_tools.passes.pipeline import build
from signing.delivery import Delivery
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_trust import ON_DEVICES
from tests.support.trust_samples import DEVICE_ID, PLATFORM, TRACERS, policy, rule
from trace_format.trace import Trace

CASES = {
    name: case
    for name, case in ON_DEVICES.items()
    if case.root in (policy(), t.hybrid_policy()) and case.where.device_id == DEVICE_ID
}


@pytest.fixture(autouse=True)
def needs() -> None:
    require(QEMU, "qemu-system-arm")
    require(COMPILER, "gcc-aarch64-linux-gnu")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CASES)
def test_a_named_case(name: str) -> None:
    case = CASES[name]
    found = runners.run("qemu", Delivery(case.make()), case.root, gpu="v3d42", device_id=DEVICE_ID)
    assert found.report.name == case.status.name


def test_lenet_is_replayed_under_a_policy() -> None:
    """With a newer policy in front of it: the bytes of the firmware with one key."""
    trace = build(Trace.read(RAW)).build()
    root = policy(rule(platform=PLATFORM, devices=frozenset([DEVICE_ID])))
    newer = t.signed_policy(replace(root, version=2))
    signed = t.join(trace, t.signatures(trace, TRACERS[1:]), [newer])
    inputs = {"data": load_digits()[:1].inputs()[0]}
    found = runners.run("qemu", Delivery(signed), root, inputs, device_id=DEVICE_ID)
    assert found.ok, found.error
    alone = t.join(trace, t.signatures(trace))
    expected = runners.run("vgpu", Delivery(alone), policy(), inputs)
    assert found.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()
    assert np.ptp(found.outputs["prob"]) > 0
    elsewhere = runners.run("qemu", Delivery(signed), root, inputs)
    assert elsewhere.report.name == "TRUST_DEVICE"
