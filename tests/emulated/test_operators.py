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
from tests.support.operator_samples import Array, on_core, slots_of, trace_of
from trace_format.schema import Operator, SlotKind

generator = np.random.default_rng(5)


def numbers(*shape: int) -> Array:
    return generator.normal(0, 1.5, shape).astype(np.float32)


def empty(*shape: int, dtype: str = "float32") -> Array:
    return np.zeros(shape, dtype)


COUNT = empty(1, dtype="int32")
INDICES = np.array([3, -1, 99], np.int32)
HEADS = [numbers(2, 8, 3, 4), np.abs(numbers(2, 2)), numbers(2, 8, 2, 2), np.abs(numbers(2, 2))]
YOLO = [empty(9, 6), COUNT, empty(32, 7), np.array([0.2, 0.45], np.float32), *HEADS]
PRIORS = np.abs(numbers(2, 30, 4))
SSD = [
    empty(9, 6),
    COUNT,
    empty(30, 7),
    np.array([0.3, 0.45, 20], np.float32),
    numbers(30, 4),
    np.abs(numbers(30, 4)) / 4,
    PRIORS,
]
OPERANDS: dict[Operator, list[Array]] = {
    Operator.COPY: [empty(6, 5), numbers(3, 2, 5)],
    Operator.DETECTION_OUTPUT: SSD,
    Operator.YOLO_DETECTION_OUTPUT: YOLO,
    Operator.YOLOV3_DETECTION_OUTPUT: YOLO,
    Operator.MATMUL: [empty(5, 7), numbers(5, 9), numbers(9, 7), numbers(7)],
    Operator.EMBED: [empty(3, 4), INDICES, numbers(6, 4), numbers(4)],
    Operator.ARGMAX: [empty(4, dtype="int32"), numbers(20)],
}


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
