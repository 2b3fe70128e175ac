# SPDX-License-Identifier: BSD-2-Clause
"""Small random networks (onnx_drawing.py) that ONNX Runtime's quantizer has rounded to 8 bits: weights only, with
activations by their own range, as pairs of QuantizeLinear and DequantizeLinear, or by operators of its own.

`python -m tests.support.random_stretches quantised` judges them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import quantization

from host_tools.record import onnx_model
from tests.support.onnx_drawing import drawn

ROUNDS, INDICES = 3, 256  # runs by which the quantizer chooses ranges; whole numbers of inputs are below
WAYS = ("dynamic", quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator)
Tensors = dict[str, NDArray[Any]]


class UndrawnError(Exception):
    """ONNX Runtime itself does not take what was drawn."""


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: onnx_model.OnnxModel, random: np.random.Generator) -> None:
        self._given = iter([inputs(model, random) for _ in range(ROUNDS)])

    def get_next(self) -> Mapping[str, NDArray[Any]] | None:
        return next(self._given, None)


def inputs(model: onnx_model.OnnxModel, random: np.random.Generator) -> Tensors:
    """Values for the inputs of a network whose shapes are known."""
    found = {}
    for name, shape in model.shapes({}).items():
        whole = model.types[name] != "float32"
        value = random.integers(0, INDICES, shape) if whole else random.normal(0, 0.8, shape)
        found[name] = value.astype(model.types[name])
    return found


def quantised(seed: int, folder: Path) -> onnx_model.OnnxModel:
    """A network, rounded in a way that the seed draws.

    Raises:
        UndrawnError: the quantizer fails.
    """
    random = np.random.default_rng([20261130, seed])
    given, path = folder / "given.onnx", folder / "quantised.onnx"
    given.write_bytes(drawn([seed]))
    way = WAYS[seed % len(WAYS)]
    kinds = (quantization.QuantType.QInt8, quantization.QuantType.QUInt8)
    how: dict[str, Any] = {"per_channel": bool(random.integers(2)), "weight_type": kinds[int(random.integers(2))]}
    logging.disable(logging.WARNING)
    try:
        if isinstance(way, str):
            quantization.quantize_dynamic(given, path, **how)
        else:
            reader = _Reader(onnx_model.read(given), random)
            quantization.quantize_static(given, path, reader, quant_format=way, **how)
    except Exception as error:  # whatever it raises
        raise UndrawnError(str(error)) from error
    finally:
        logging.disable(logging.NOTSET)
    return onnx_model.read(path)
