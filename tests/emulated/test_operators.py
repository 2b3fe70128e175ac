# SPDX-License-Identifier: BSD-2-Clause
"""Operators in firmware: what they compute on AArch64 is what the same C computes here, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.runners import unicorn
from host_tools.runners.replay import ReplayRequest
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_devices import compiled
from tests.support.hostile_operators import ALL
from tests.support.operator_samples import OPERANDS, on_core, slots_of, trace_of
from trace_format.operators import Operator
from trace_format.schema import SlotKind


def test_there_are_operands_for_every_operator() -> None:
    assert set(OPERANDS) == set(ALL)


@pytest.mark.parametrize("operator", OPERANDS)
def test_firmware_computes_the_same(operator: Operator) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    arrays = OPERANDS[operator]
    slots = slots_of(operator, arrays)
    trace = trace_of(operator, slots)
    inputs = {x.name: array for x, array in zip(slots, arrays, strict=True) if x.kind == SlotKind.INPUT}
    firmware = compiled("v3d42", 0, ALL)
    found = unicorn.replay(
        ReplayRequest(Delivery(s.signed(trace)), s.KEY, inputs, "v3d42", firmware=firmware.folder)
    )
    assert found.report.ok, found.report
    expected = on_core(trace, inputs)
    assert all(np.array_equal(found.outputs[name], array) for name, array in expected.items())
    assert any(array.any() for array in expected.values())
