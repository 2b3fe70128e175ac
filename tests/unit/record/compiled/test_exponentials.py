# SPDX-License-Identifier: BSD-2-Clause
"""Softmax over many classes: small terms beside a large one count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.record.compiled import network, runner, schedule
from tests.support.onnx_graphs import model, node

Float64 = NDArray[np.float64]


def softmax(x: Float64, axis: int) -> Float64:
    terms = np.exp(x - x.max(axis, keepdims=True))
    return np.array(terms / terms.sum(axis, keepdims=True))


def computed(path: Path, kind: str, x: NDArray[np.float32], axis: int) -> Float64:
    found = model(path, [node(kind, "x", "y", axis=axis)], {"x": ("float32", [*x.shape])}, {"y": "float32"}, {})
    path.write_bytes(found.data)
    layout, shaders = network.ready(schedule.compiled(path))
    return np.asarray(runner.judged(layout, shaders, {"x": x})["y"], np.float64).reshape(x.shape)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("shape", "axis"), [((1, 40, 6625), -1), ((300, 3), 0), ((2, 257, 2), 1), ((4, 10), 1)])
def test_one_class_of_many_is_likely(shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    """The others, of 4e-8 each, were lost: added one by one to 1, where a float32 has steps of 1e-7."""
    x = np.random.default_rng(3).normal(-17, 0.5, shape).astype(np.float32)
    at = [slice(None)] * x.ndim
    at[axis] = slice(0, 1)
    x[tuple(at)] = 0
    expected = softmax(x.astype(np.float64), axis)
    np.testing.assert_allclose(computed(tmp_path / "net.onnx", "Softmax", x, axis), expected, rtol=0, atol=4e-6)
    found = computed(tmp_path / "log.onnx", "LogSoftmax", x, axis)
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-6, atol=4e-6)
