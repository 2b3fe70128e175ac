# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies in OP-TEE's core: the named cases that one pseudo-TA judges; and a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.passes.pipeline import build
from host_tools.runners import libraries
from host_tools.runners.replay import ReplayRequest
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import trust_samples as t
from tests.support.hostile_trust import ON_DEVICES
from tests.support.trust_samples import DEVICE_ID, policy
from trace_format.schema.report import Status
from trace_format.trace import Trace

CASES = {
    name: case for name, case in ON_DEVICES.items() if case.root == policy() and case.where.device_id == DEVICE_ID
}


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pseudo-TA with a policy."""
    folder = tmp_path_factory.mktemp("trust") / "pta"
    options = Options(
        "v3d42",
        platform_of(boards.load("optee")),
        policy(),
        libraries.source(),
        any_client=True,
        device_id=DEVICE_ID,
    )
    return generate(options, folder)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CASES)
def test_a_named_case(name: str, trusting: Path) -> None:
    case = CASES[name]
    found = runners.run("optee", ReplayRequest(Delivery(case.make()), case.root, gpu="v3d42", firmware=trusting))
    assert found.report.name == case.status.name


def test_lenet_is_replayed_under_a_policy(trusting: Path) -> None:
    trace = build(Trace.read(RAW)).build()
    inputs = {"data": load_digits()[:1].inputs()[0]}
    outputs = []
    for signers, status in ((t.TRACERS[:2], Status.OK), (t.TRACERS[:1], Status.THRESHOLD)):
        signed = t.join(trace, t.signatures(trace, signers))
        found = runners.run("optee", ReplayRequest(Delivery(signed), policy(), inputs, firmware=trusting))
        assert found.report.name == status.name
        outputs.append(found.outputs)
    assert outputs[0]["prob"].any()
    assert not outputs[1]
