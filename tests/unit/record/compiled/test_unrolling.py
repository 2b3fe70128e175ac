# SPDX-License-Identifier: BSD-2-Clause
"""How far kernels are unrolled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.record.compiled import schedule, unrolling
from tests.support.onnx_graphs import model, node

from tinygrad.codegen.opt import heuristic  # isort: skip - after schedule, which sets what it reads


def most_live(
    choose: Callable[[Any], Any], channels: int, size: int, path: Path, patch: pytest.MonkeyPatch
) -> int:
    """Most registers of a convolution's kernels, by a choice of optimisations."""
    seen = []

    def spy(kernel: Any) -> Any:
        made = choose(kernel)
        seen.append(unrolling.live(made))
        return made

    patch.setattr(heuristic, "hand_coded_optimizations", spy)
    weights = {"w": np.ones((channels, channels, size, size), np.float32)}
    nodes = [node("Conv", "x w", "y", pads=[size // 2] * 4)]
    inputs = {"x": ("float32", [1, channels, 28, 28])}
    found = model(path, nodes, inputs, {"y": "float32"}, weights)
    path.write_bytes(found.data)
    schedule.compiled(path)
    return max(seen)


def test_a_convolution_fits_into_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tinygrad unrolls a sum over 32 channels wholly, one over 64 four times; a 3 by 3 kernel stays as it is."""
    ours = heuristic.hand_coded_optimizations
    own = ours.__wrapped__
    path = tmp_path / "net.onnx"
    assert most_live(own, 32, 1, path, monkeypatch) > unrolling.REGISTERS
    # Of other numbers of channels, since tinygrad remembers what it has made of a kernel.
    assert most_live(ours, 24, 1, path, monkeypatch) <= unrolling.REGISTERS
    assert most_live(own, 64, 1, path, monkeypatch) == most_live(ours, 128, 1, path, monkeypatch)
    assert most_live(own, 16, 3, path, monkeypatch) == most_live(ours, 32, 3, path, monkeypatch)
