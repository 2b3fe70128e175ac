# SPDX-License-Identifier: BSD-2-Clause
"""A small network whose kernels tests search: its plan, and what the compiler leaves for a search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from host_tools.extras.speed.kernels import candidates
from host_tools.extras.speed.kernels.candidates import Kernel
from host_tools.extras.speed.kernels.prediction import predicted
from host_tools.extras.speed.kernels.search import COMPILER
from host_tools.gpus.v3d.timing import KERNEL_COSTS as V3D_COSTS
from host_tools.record.compiled.plan import Plan
from host_tools.support import plain
from tests.support.onnx_graphs import graph, node

SIDE, CHANNELS = 8, 16
cost = partial(predicted, costs=V3D_COSTS)


@dataclass(frozen=True)
class Searched:
    """A network in its folder.

    Attributes:
        model: the ONNX file.
        plan: the compiler's own.
        folder: with the kernels.
        kernels: described, those with sums.
    """

    model: Path
    plan: Plan
    folder: Path
    kernels: list[Kernel]


def convolutions(path: Path) -> Path:
    """3 by 3, and pointwise."""
    generator = np.random.default_rng(7)
    weights = {
        "w": generator.normal(0, 0.2, (CHANNELS, 4, 3, 3)).astype(np.float32),
        "v": generator.normal(0, 0.2, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4),
        node("Relu", "a", "b"),
        node("Conv", "b v", "y"),
    ]
    return graph(path, nodes, {"x": ("float32", [1, 4, SIDE, SIDE])}, {"y": "float32"}, weights)


def searched(folder: Path) -> Searched:
    """The network compiled."""
    model = convolutions(folder / "net.onnx")
    left = folder / "left"
    left.mkdir()
    plan = COMPILER.plan(model.read_bytes(), left)
    kernels = plain.loads(list[Kernel], (left / candidates.DESCRIBED).read_bytes())
    sums = [kernel for kernel in kernels if kernel.nest and any(axis.summed for axis in kernel.nest.axes)]
    return Searched(model, plan, left, sums)
