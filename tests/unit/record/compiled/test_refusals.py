# SPDX-License-Identifier: BSD-2-Clause
"""What tinygrad does not compile is said in words of ours, with the node; and constants of no elements compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.record.compiled.compilers import TINYGRAD
from host_tools.record.compiled.network import compile_onnx
from host_tools.record.preflight import NetworkError
from tests.support.onnx_graphs import graph, model, node

NONE = np.zeros(0, np.int64)
MISSING = "tinygrad cannot compile it: "


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node("Relu", "gone", "y")], "node y (Relu): it has no code for it with inputs none"),
        ([node("Add", "x w", "y")], "node y (Add): it has no code for it with inputs float[2, 3], float[5]"),
        ([node("Nonsense", "x", "y")], "node y (Nonsense): there is no such operator"),
        ([node("Relu", "x", "r"), node("Relu", "gone", "y", name="head/Relu")], "node head/Relu (Relu): it has"),
    ],
)
def test_what_tinygrad_raises_is_no_sentence(nodes: list[object], said: str, tmp_path: Path) -> None:
    """Files that ONNX Runtime would have refused stand for whatever tinygrad stumbles over."""
    path = graph(
        tmp_path / "n.onnx", nodes, {"x": ("float32", [2, 3])}, {"y": "float32"}, {"w": np.zeros(5, np.float32)}
    )
    with pytest.raises(NetworkError) as error:
        TINYGRAD.plan(path.read_bytes())
    assert str(error.value).startswith(MISSING + said)
    assert "Error" not in str(error.value)


def test_a_file_that_it_cannot_even_read() -> None:
    with pytest.raises(NetworkError, match=r"it fails on this network, for a reason that only '--verbose' says$"):
        TINYGRAD.plan(b"\x0a\xff nothing")


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([node("ReduceMax", "x", "m"), node("Reshape", "m none", "c"), node("Mul", "x c", "y")], [2, 3]),
        ([node("Reshape", "x none", "y")], [1, 1]),
        ([node("Expand", "x none", "e"), node("Relu", "e", "y")], [2, 3]),
        ([node("Squeeze", "x none", "y")], [1, 3]),
        ([node("Unsqueeze", "x none", "u"), node("Relu", "u", "y")], [2, 3]),
        ([node("Slice", "x none none", "s"), node("Relu", "s", "y")], [2, 3]),
        ([node("Squeeze", "x", "q"), node("Tile", "q none", "t"), node("Relu", "t", "y")], [1, 1]),
    ],
)
def test_a_constant_of_no_elements(nodes: list[object], shape: list[int], tmp_path: Path) -> None:
    net = model(tmp_path / "n.onnx", nodes, {"x": ("float32", shape)}, {"y": "float32"}, {"none": NONE})
    assert compile_onnx(net, {}).differences == {"y": 0.0}
