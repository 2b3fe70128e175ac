# SPDX-License-Identifier: BSD-2-Clause
"""Small networks as ONNX and TorchScript files, with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tests.support import torchscript

Float32 = npt.NDArray[np.float32]
OPSET = 17
SHAPE = (1, 3, 16, 16)
CLASSES = 10
TORCHSCRIPT = """    y = torch.relu(torch.conv2d(x, self.w1, self.b1, [2, 2], [1, 1], [1, 1], 1))
    y = torch.relu(torch.conv2d(y, self.w2, self.b2, [1, 1], [1, 1], [1, 1], 8))
    y = torch.flatten(torch.max_pool2d(y, [2, 2], [2, 2], [0, 0], [1, 1], False), 1, -1)
    return torch.softmax(torch.linear(y, self.w3, self.b3), 1)
"""


def classifier(path: Path, *, shape: Sequence[int | str] = SHAPE, last: str = "Softmax") -> Path:
    """Convolutions, one of them by channel, pooling, a dense layer: input "image", output "scores".

    Args:
        path: of the file.
        shape: of the input; texts are dimensions that the file leaves open.
        last: type of the last operator.
    """
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "first", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "first_relu"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "second", group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "second_relu"),
        helper.make_node("MaxPool", ["r2"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["d"], "dense", transB=1),
        helper.make_node(last, ["d"], ["scores"], "last"),
    ]
    return _save(path, nodes, {"image": shape}, ("scores", [shape[0], CLASSES]), weights())


def residual(path: Path) -> Path:
    """Two inputs, a branch, batch normalisation, hardswish, a mean: inputs "left", "right", output "495"."""
    generator = np.random.default_rng(7)
    values = {
        "w1": generator.normal(0, 0.2, (12, 4, 3, 3)),
        "scale": generator.uniform(0.5, 1.5, 12),
        "shift": generator.normal(0, 0.3, 12),
        "mean": generator.normal(0, 0.3, 12),
        "variance": generator.uniform(0.5, 1.5, 12),
        "w2": generator.normal(0, 0.2, (12, 12, 1, 1)),
        "w3": generator.normal(0, 0.4, (7, 12)),
    }
    nodes = [
        helper.make_node("Add", ["left", "right"], ["sum"]),
        helper.make_node("Conv", ["sum", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("HardSwish", ["n"], ["a"]),
        helper.make_node("Conv", ["a", "w2"], ["c2"]),
        helper.make_node("Add", ["c2", "a"], ["2"]),  # what pnnx calls a blob of its own
        helper.make_node("GlobalAveragePool", ["2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["495"], transB=1),
    ]
    inputs = {"left": (1, 4, 12, 12), "right": (1, 4, 12, 12)}
    return _save(path, nodes, inputs, ("495", [1, 7]), {k: v.astype(np.float32) for k, v in values.items()})


def attention(path: Path) -> Path:
    """A layer of attention over pixels, between convolutions: products of matrices that are both computed."""
    generator = np.random.default_rng(11)
    shapes = {"w1": (24, 3, 1, 1), "w2": (8, 8, 3, 3), "w3": (CLASSES, 8)}
    values: dict[str, Any] = {name: generator.normal(0, 0.3, shape) for name, shape in shapes.items()}
    values = {name: value.astype(np.float32) for name, value in values.items()}
    values |= {"flat": np.array([1, 24, 64]), "square": np.array([1, 8, 8, 8])}
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"]),
        helper.make_node("Reshape", ["c1", "flat"], ["r"]),
        helper.make_node("Split", ["r"], ["query", "key", "value"], axis=1, num_outputs=3),
        helper.make_node("Transpose", ["query"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["turned", "key"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=1),
        helper.make_node("MatMul", ["value", "weights"], ["seen"]),
        helper.make_node("Reshape", ["seen", "square"], ["picture"]),
        helper.make_node("Conv", ["picture", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["classes"], transB=1),
    ]
    return _save(path, nodes, {"image": (1, 3, 8, 8)}, ("classes", [1, CLASSES]), values, opset=18)


def pointwise(path: Path) -> Path:
    """Pointwise convolutions with ReLU and ReLU6, and a fully connected layer: what the CPU can share."""
    generator = np.random.default_rng(13)
    shapes = {"w1": (64, 16, 1, 1), "b1": (64,), "w2": (128, 64, 1, 1), "w3": (96, 128), "b3": (96,)}
    values: dict[str, Any] = {name: generator.normal(0, 0.3, shape) for name, shape in shapes.items()}
    values = {name: value.astype(np.float32) for name, value in values.items()}
    values |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"]),
        helper.make_node("Clip", ["c2", "low", "high"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["classes"], transB=1),
    ]
    return _save(path, nodes, {"image": (1, 16, 16, 16)}, ("classes", [1, 96]), values)


def of_operator(path: Path, kind: str, **attributes: Any) -> Path:
    """A ReLU called "begin" and an operator of one input called "odd" after it: 4x8x8 throughout."""
    nodes = [
        helper.make_node("Relu", ["image"], ["r"], "begin"),
        helper.make_node(kind, ["r"] * (2 if kind == "MatMul" else 1), ["scores"], "odd", **attributes),
    ]
    return _save(path, nodes, {"image": (1, 4, 8, 8)}, ("scores", [1, 4, 8, 8]), {})


def scripted_classifier(path: Path) -> Path:
    """The classifier as TorchScript."""
    torchscript.write(path, TORCHSCRIPT, weights())
    return path


def weights() -> dict[str, Float32]:
    """The classifier's."""
    generator = np.random.default_rng(5)
    shapes = {
        "w1": (8, 3, 3, 3),
        "b1": (8,),
        "w2": (8, 1, 3, 3),
        "b2": (8,),
        "w3": (CLASSES, 128),
        "b3": (CLASSES,),
    }
    return {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def _save(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    output: tuple[str, Sequence[int | str]],
    values: Mapping[str, npt.NDArray[Any]],
    opset: int = OPSET,
) -> Path:
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(name, float32, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output[0], float32, output[1])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path
