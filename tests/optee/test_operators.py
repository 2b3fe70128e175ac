# SPDX-License-Identifier: BSD-2-Clause
"""Operators in the pseudo-TA: the same bytes as from the core on this machine, two replays in a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.runners.needs import what_helps
from host_tools.support.tensors import boxes_found
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import detector
from tests.support.operator_samples import OPERANDS, slots_of, trace_of
from tests.support.programs import MIN_SECURITY_VERSION
from tests.support.signing_samples import ES256
from trace_format.actions import Op
from trace_format.operators import Operator
from trace_format.schema import SlotKind
from trace_format.trace import Trace

PICTURE = 12


def test_boxes_come_out_of_a_pseudo_ta(pta: Path) -> None:
    """`pta` is requested so that without OP-TEE the test is skipped with its reason."""
    assert pta.is_dir()
    trace = build(Trace.read(detector.RAW))
    delivery, inputs = Delivery(sign_trace(trace.build(), ES256)), {"data": detector.picture(PICTURE)[0]}
    here, there = (runners.run(on, delivery, ES256.public, inputs, repeat=2) for on in ("vgpu", "optee"))
    assert there.ok, there.error
    assert (there.jobs, there.retries) == (here.jobs, 0)
    assert len(boxes_found(trace, there.outputs)["boxes"]) > 1
    for name, array in here.outputs.items():
        assert there.outputs[name].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "operator", [Operator.CONV1X1, pytest.param(Operator.DENSE, marks=pytest.mark.exhaustive)]
)
def test_products_are_the_same_to_the_bit(operator: Operator, pta: Path) -> None:
    """By NEON, which OP-TEE lends its core for that long."""
    assert pta.is_dir()
    arrays = OPERANDS[operator]
    slots = slots_of(operator, arrays)
    inputs = {s.name: a for s, a in zip(slots, arrays, strict=True) if s.kind is SlotKind.INPUT}
    delivery = Delivery(sign_trace(trace_of(operator, slots).build(), ES256))
    here, there = (runners.run(on, delivery, ES256.public, inputs, repeat=2) for on in ("vgpu", "optee"))
    assert there.ok, there.error
    for name, array in here.outputs.items():
        assert array.any()
        assert there.outputs[name].tobytes() == array.tobytes()


def test_a_pseudo_ta_without_operators_refuses(pta: Path) -> None:
    trace = build(Trace.read(detector.RAW))
    trace = trace.with_(meta={**trace.meta, "security_version": MIN_SECURITY_VERSION})
    delivery = Delivery(sign_trace(trace.build(), ES256))
    result = runners.run("optee", delivery, ES256.public, firmware=pta)
    assert not result.ok
    assert (result.report.name, result.report.op) == ("ACTION", Op.OPERATE)
    assert "yolov3_detection_output" in what_helps(delivery, result.report)
