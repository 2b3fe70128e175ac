# SPDX-License-Identifier: BSD-2-Clause
"""Layouts for a search: the same results as ONNX Runtime's, and what kernels they leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.extras.speed.kernels import candidates
from host_tools.extras.speed.kernels.search import COMPILER
from host_tools.record import onnx_model
from host_tools.record.compiled import runner
from host_tools.record.compiled.network import ready
from host_tools.record.differences import relative_difference
from host_tools.support import plain
from tests.support.onnx_graphs import graph, node

SIDE, CHANNELS = 9, 6
LIMIT = 1e-5


def checked(nodes: list[Any], weights: Mapping[str, tuple[int, ...]], folder: Path) -> list[candidates.Kernel]:
    """The kernels of a network whose output `y` is as ONNX Runtime has it, on lavapipe."""
    generator = np.random.default_rng(3)
    constants = {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in weights.items()}
    inputs = {"x": ("float32", [1, CHANNELS, SIDE, SIDE])}
    path = graph(folder / "net.onnx", nodes, inputs, {"y": "float32"}, constants)
    left = folder / "left"
    left.mkdir()
    layout, shaders = ready(COMPILER.plan(path.read_bytes(), left))
    given = {"x": generator.normal(0, 1, (1, CHANNELS, SIDE, SIDE)).astype(np.float32)}
    expected = onnx_model.run(onnx_model.read(path), given)["y"]
    found: NDArray[Any] = runner.judged(layout, shaders, given)["y"]
    assert relative_difference(found.reshape(expected.shape), expected) <= LIMIT
    kernels: list[candidates.Kernel] = plain.loads(
        list[candidates.Kernel], (left / candidates.DESCRIBED).read_bytes()
    )
    return kernels


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((5, CHANNELS, 3, 3), {"pads": [1] * 4}),
        ((5, CHANNELS, 3, 3), {"pads": [0, 1, 2, 0], "strides": [2, 2]}),
        ((8, CHANNELS, 1, 1), {}),
        ((5, CHANNELS, 5, 1), {"pads": [2, 0, 2, 0], "dilations": [1, 2]}),
        ((CHANNELS, 1, 3, 3), {"group": CHANNELS, "pads": [1] * 4}),
        ((4, CHANNELS // 2, 3, 3), {"group": 2, "pads": [1] * 4}),
        ((4, CHANNELS, 2, 2), {"auto_pad": "SAME_UPPER"}),
    ],
)
def test_a_convolution(shape: tuple[int, ...], settings: dict[str, Any], tmp_path: Path) -> None:
    checked([node("Conv", "x w", "y", **settings)], {"w": shape}, tmp_path)


def test_padded_pictures_are_kernels_of_their_own(tmp_path: Path) -> None:
    kernels = checked([node("Conv", "x w", "y", pads=[1] * 4)], {"w": (4, CHANNELS, 3, 3)}, tmp_path)
    sizes = [[axis.size for axis in kernel.nest.axes] for kernel in kernels if kernel.nest]
    assert [CHANNELS, SIDE + 2, 12] in sizes  # rows of 11, to a multiple of four


def test_what_is_joined_or_added_is_computed_once(tmp_path: Path) -> None:
    """No kernel has the sums of two layers."""
    nodes = [
        node("Conv", "x v", "a"),
        node("Relu", "a", "b"),
        node("Conv", "b w", "c", pads=[1] * 4),
        node("Conv", "b v", "d"),
        node("Concat", "c d", "e", axis=1),
        node("Add", "d c", "f"),
        node("Concat", "e f", "y", axis=1),
    ]
    shapes = {"v": (CHANNELS, CHANNELS, 1, 1), "w": (CHANNELS, CHANNELS, 3, 3)}
    kernels = checked(nodes, shapes, tmp_path)
    assert all(sum(axis.summed for axis in kernel.nest.axes) <= 4 for kernel in kernels if kernel.nest)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("settings", [{"pads": [1] * 4}, {"auto_pad": "SAME_LOWER"}])
def test_what_a_pool_pads_is_computed_first(settings: dict[str, Any], tmp_path: Path) -> None:
    """The convolution's kernel has its own sizes, not those of the picture padded with minus infinity."""
    nodes = [
        node("Conv", "x w", "a"),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "y", kernel_shape=[3, 3], strides=[2, 2], **settings),
    ]
    kernels = checked(nodes, {"w": (8, CHANNELS, 1, 1)}, tmp_path)
    sizes = [[axis.size for axis in kernel.nest.axes if not axis.summed] for kernel in kernels if kernel.nest]
    assert [8, SIDE, SIDE] in sizes or [8, SIDE * SIDE] in sizes
