# SPDX-License-Identifier: BSD-2-Clause
"""QONNX's Quant as ONNX's operators, by ONNX Runtime, against the operator's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.record import onnx_model
from host_tools.record.preflight import NetworkError
from tests.support.onnx_graphs import model, node

X = np.random.default_rng(1).normal(0, 1, (4, 6)).astype(np.float32)


def quant(source: str, target: str, bits: str = "bits", domain: str = "onnx.brevitas", **how: Any) -> Any:
    return node("Quant", f"{source} scale zero {bits}", target, domain=domain, **how)


def network(path: Path, item: Any, bits: float, zero: float = 0, scale: Any = 0.11) -> onnx_model.OnnxModel:
    constants = {"scale": scale, "zero": zero, "bits": bits}
    values = {name: np.array(value, np.float32) for name, value in constants.items()} | {"w": X}
    nodes = [item, node("Add", f"{item.output[0]} x", "y")] if item.input[0] == "w" else [item]
    return model(path, nodes, {"x": ("float32", [4, 6])}, {"y": "float32"}, values)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
def test_activations(bits: int, signed: int, narrow: int, tmp_path: Path) -> None:
    found = network(tmp_path / "n.onnx", quant("x", "y", signed=signed, narrow=narrow), bits, zero=1)
    least = narrow - 2 ** (bits - 1) if signed else 0
    most = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    wanted = (np.rint(np.clip(X / np.float32(0.11) + 1, least, most)) - 1) * np.float32(0.11)
    np.testing.assert_allclose(onnx_model.run(found, {"x": X})["y"], wanted, atol=1e-6)


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO"])
def test_weights_of_a_scale_a_row(mode: str, tmp_path: Path) -> None:
    scale = np.linspace(0.1, 0.4, 4, dtype=np.float32).reshape(4, 1)
    item = quant("w", "q", domain="qonnx.custom_op.general", signed=1, rounding_mode=mode)
    found = network(tmp_path / "n.onnx", item, 3, scale=scale)
    how = {"ROUND": np.rint, "CEIL": np.ceil, "FLOOR": np.floor, "ROUND_TO_ZERO": np.trunc}[mode]
    wanted = how(np.clip(X / scale, -4, 3)) * scale
    np.testing.assert_allclose(onnx_model.run(found, {"x": np.zeros_like(X)})["y"], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("how", "given", "said"),
    [
        ({}, {"bits": 16}, "activations of more than 8 bits"),
        ({"rounding_mode": "FLOOR"}, {"bits": 8}, "rounded otherwise"),
        ({}, {"bits": 8, "scale": [0.1] * 6}, "of several scales"),
        ({"bits": "x"}, {"bits": 8}, "a width that is computed"),
    ],
)
def test_variants_that_are_not_taken(
    how: dict[str, Any], given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(NetworkError, match=rf"node y \(Quant\): .*{said}"):
        network(tmp_path / "n.onnx", quant("x", "y", **how), **given)
