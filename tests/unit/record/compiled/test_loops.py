# SPDX-License-Identifier: BSD-2-Clause
"""How often threads go round loops: sums over sums, and what lavapipe cannot judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.record.compiled import loops, network, runner, schedule
from tests.support.onnx_graphs import model, node


def pooled(path: Path, channels: int, size: int) -> Path:
    """A pointwise convolution and the mean of each of its channels."""
    weights = {"w": np.linspace(-1, 1, 8 * channels, dtype=np.float32).reshape(8, channels, 1, 1)}
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("GlobalAveragePool", "r", "y")]
    found = model(path, nodes, {"x": ("float32", [1, channels, size, size])}, {"y": "float32"}, weights)
    path.write_bytes(found.data)
    return path


@pytest.mark.parametrize(("channels", "size", "kernels"), [(16, 4, 1), (512, 13, 2)])
def test_a_mean_of_long_sums_has_a_kernel_of_its_own(
    channels: int, size: int, kernels: int, tmp_path: Path
) -> None:
    assert len(schedule.compiled(pooled(tmp_path / "net.onnx", channels, size)).calls) == kernels


def test_lavapipe_does_all_rounds(tmp_path: Path) -> None:
    """The mean of 13 by 13 sums of 512, as in SqueezeNet, was wrong: 86,528 rounds in one kernel."""
    layout, shaders = network.ready(schedule.compiled(pooled(tmp_path / "net.onnx", 512, 13)))
    x = np.random.default_rng(1).random((1, 512, 13, 13), np.float32)
    w = np.linspace(-1, 1, 8 * 512).reshape(8, 512)
    expected = np.maximum(w @ x[0].reshape(512, 169), 0).mean(1)
    found = np.asarray(runner.judged(layout, shaders, {"x": x})["y"], np.float32)
    np.testing.assert_allclose(found.reshape(8), expected, rtol=1e-5)


def test_a_kernel_that_lavapipe_would_break_off_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lower here: a network that reaches it has weights of megabytes."""
    monkeypatch.setattr(loops, "JUDGED", 1)
    with pytest.raises(NotImplementedError, match=r"goes round loops [0-9]+ times, lavapipe 1"):
        schedule.compiled(pooled(tmp_path / "net.onnx", 512, 14))
