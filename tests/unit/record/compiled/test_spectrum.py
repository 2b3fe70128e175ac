# SPDX-License-Identifier: BSD-2-Clause
"""STFT and DFT with and without what they may be given, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from host_tools.record.compiled import spectrum
from host_tools.record.compiled.network import compile_onnx
from tests.support.onnx_graphs import model, node

WINDOW = np.hanning(8).astype(np.float32)
STEP, LENGTH = np.array(3), np.array(8)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("given", "parts", "onesided"), [("x step window", 1, 1), ("x step - length", 1, 0), ("x step window", 2, 0)]
)
def test_frames_of_a_sound(given: str, parts: int, onesided: int, tmp_path: Path) -> None:
    constants = {"step": STEP, "window": WINDOW, "length": LENGTH}
    net = model(
        tmp_path / "n.onnx",
        [node("STFT", given, "y", onesided=onesided)],
        {"x": ("float32", [2, 21, parts])},
        {"y": "float32"},
        {name: value for name, value in constants.items() if name in given.split()},
    )
    found = compile_onnx(net, {})
    assert found.cases[0][1]["y"].shape == (2, 5, 5 if onesided else 8, 2)
    assert found.differences["y"] < 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "length", "attributes"),
    [
        ([2, 7, 1], None, {}),
        ([2, 7, 2], None, {"inverse": 1}),
        ([2, 7, 1], 10, {"onesided": 1}),
        ([2, 7, 1], 4, {"onesided": 1}),
        ([7, 3, 2], None, {"axis": 0}),
    ],
)
def test_a_transform(shape: list[int], length: int | None, attributes: dict[str, Any], tmp_path: Path) -> None:
    constants = {} if length is None else {"length": np.array(length)}
    nodes = [node("DFT", "x length" if constants else "x", "y", **attributes)]
    found = compile_onnx(
        model(tmp_path / "n.onnx", nodes, {"x": ("float32", shape)}, {"y": "float32"}, constants), {}
    )
    assert found.differences["y"] < 1e-6


@pytest.mark.parametrize(("bins", "length"), [(5, None), (5, 9), (5, 6), (3, 8)])
def test_half_a_spectrum_back(bins: int, length: int | None) -> None:
    """Against NumPy, for ONNX Runtime's own has no such transform."""
    x = np.random.default_rng(bins).normal(0, 1, (2, bins, 2)).astype(np.float32)
    y = spectrum._dft17(Tensor(x), length, inverse=1, onesided=1).numpy()
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=1)
    assert y.shape == (*expected.shape, 1)
    assert np.abs(y[..., 0] - expected).max() < 1e-6


def test_what_is_not_computed() -> None:
    with pytest.raises(spectrum.SpectrumError, match="without a window and without a length"):
        spectrum.stft(Tensor.zeros(1, 8, 1), 2)
