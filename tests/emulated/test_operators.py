# SPDX-License-Identifier: BSD-2-Clause
"""Operators in firmware: what they compute on AArch64 is what the same C computes here, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools import runners
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_devices import compiled
from tests.support.hostile_operators import ALL
from tests.support.operator_samples import GAP, OPERANDS, empty, numbers, on_core, slots_of, trace_of
from trace_format.operators import Operator
from trace_format.schema import SlotKind

Array = NDArray[Any]


def test_there_are_operands_for_every_operator() -> None:
    assert set(OPERANDS) == set(ALL)


def check(operator: Operator, arrays: Sequence[Array], gap: int = GAP) -> None:
    """Compare what firmware writes with what the host's library does."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    slots = slots_of(operator, arrays, gap=gap)
    trace = trace_of(operator, slots)
    inputs = {x.name: array for x, array in zip(slots, arrays, strict=True) if x.kind == SlotKind.INPUT}
    firmware = compiled("v3d42", 0, ALL)
    delivery = Delivery(s.signed(trace))
    found = runners.run("unicorn", delivery, s.KEY, inputs, gpu="v3d42", firmware=firmware.folder)
    assert found.report.ok, found.report
    expected = on_core(trace, inputs)
    assert all(np.array_equal(found.outputs[name], array) for name, array in expected.items())
    assert any(array.any() for array in expected.values())


@pytest.mark.parametrize("operator", OPERANDS)
def test_firmware_computes_the_same(operator: Operator) -> None:
    check(operator, OPERANDS[operator])


@pytest.mark.parametrize("pixels", [1, 3, 5, 7, 13, 48, 49, 50, 51])
def test_pictures_without_gaps(pixels: int) -> None:
    """Rows of a pointwise convolution's pictures begin at any number."""
    shapes = ((11, 9), (9, pixels), (11,))
    arrays = [empty(11, pixels), *(numbers(*shape) for shape in shapes), np.array([0, 6], np.float32)]
    check(Operator.CONV1X1, arrays, gap=0)
