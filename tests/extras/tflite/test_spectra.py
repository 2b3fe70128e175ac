# SPDX-License-Identifier: BSD-2-Clause
"""Spectra in TensorFlow Lite files, translated: compared with LiteRT as they are read, and with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.tflite.choose import translated
from host_tools.record import onnx_model
from host_tools.record.preflight import NetworkError
from tests.support.tflite_file import File


def spectrum(file: File, shape: tuple[int, ...], lengths: tuple[int, int]) -> tuple[int, int]:
    """Numbers of a tensor and of its spectrum."""
    x = file.tensor(shape)
    made = file.tensor((*shape[:-2], lengths[0], lengths[1] // 2 + 1), "complex64")
    file.add("RFFT2D", [x, file.constant(np.array(lengths, np.int32))], [made], "Rfft2dOptions")
    return x, made


@pytest.mark.parametrize(
    ("shape", "lengths"), [((2, 1, 16), (1, 16)), ((1, 1, 10), (1, 16)), ((1, 1, 20), (1, 8)), ((3, 8, 4), (8, 4))]
)
@pytest.mark.parametrize("kind", ["COMPLEX_ABS", "REAL", "IMAG", "CAST"])
def test_a_spectrum(kind: str, shape: tuple[int, ...], lengths: tuple[int, int], tmp_path: Path) -> None:
    """Of rows, shorter and longer than the transformation, and of a picture; LiteRT computes the same."""
    file = File()
    x, made = spectrum(file, shape, lengths)
    flat = (shape[0], lengths[0] * (lengths[1] // 2 + 1))
    moved = file.tensor(flat, "complex64")
    y = file.tensor(flat)
    file.add("RESHAPE", [made, file.constant(np.array(flat, np.int32))], [moved], "ReshapeOptions")
    file.add(kind, [moved], [y])
    model = translated(file.write(tmp_path / "n.tflite", [x], [y]), {}).model
    value = np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)
    wanted = np.fft.rfft2(value, lengths).reshape(flat)
    (found,) = onnx_model.run(model, {"t0": value}).values()
    expected = {"COMPLEX_ABS": abs(wanted), "IMAG": wanted.imag}.get(kind, wanted.real)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_complex_numbers_elsewhere(tmp_path: Path) -> None:
    file = File()
    x, made = spectrum(file, (1, 1, 8), (1, 8))
    twice = file.tensor((1, 1, 5), "complex64")
    file.add("MUL", [made, made], [twice], "MulOptions")
    with pytest.raises(NetworkError, match=r"operator 1 \(MUL, t3\): of complex numbers"):
        translated(file.write(tmp_path / "n.tflite", [x], [twice]), {})
    file.graph.operators.pop()
    with pytest.raises(NetworkError, match="t1 is of complex numbers, which slots have not"):
        translated(file.write(tmp_path / "n.tflite", [x], [made]), {})
