# SPDX-License-Identifier: BSD-2-Clause
"""Small networks that each stress one thing that takes time on a GPU: for `calibrate`, and for a first replay.

| name | what it stresses |
|---|---|
| launch | starting jobs: many, each of which does next to nothing |
| store | memory that is written: a matrix of short sums, read twice |
| load | memory that is read: the same matrix, read six times |
| gemm | arithmetic: products of matrices that caches hold |
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from trace_format.trace import Trace

OPSET = 17
SEED = 20261127
LAUNCHES, SMALL = 32, 16  # jobs; numbers that each of them computes
SIDE, SUMMED = 1024, 4  # of the matrix, 4 MiB; terms of each of its numbers
PRODUCTS, EDGE = 3, 256
Shapes = dict[str, Sequence[int]]
Made = tuple[list[Any], Shapes, Shapes, dict[str, Any]]  # nodes, inputs, outputs, constants


def _products(count: int, rows: int, edge: int) -> Made:
    """One matrix after the other, of constants."""
    from onnx import helper

    generator = np.random.default_rng(SEED)
    constants, nodes = {}, []
    for at in range(count):
        constants[f"w{at}"] = generator.normal(0, edge**-0.5, (edge, edge)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [f"x{at}" if at else "x", f"w{at}"], [f"x{at + 1}"]))
    return nodes, {"x": (rows, edge)}, {f"x{count}": (rows, edge)}, constants


def _launch() -> Made:
    return _products(LAUNCHES, 1, SMALL)


def _reduced(*kinds: tuple[str, int]) -> Made:
    """What is made of the matrix along its axes; more than one of them, so that it goes to memory."""
    from onnx import helper

    nodes: list[Any] = [helper.make_node("MatMul", ["a", "b"], ["m"])]
    names = []
    for kind, axis in kinds:
        names.append(f"{kind.lower()}{axis}")
        nodes.append(helper.make_node(f"Reduce{kind}", ["m"], names[-1:], axes=[axis], keepdims=0))
    return nodes, {"a": (SIDE, SUMMED), "b": (SUMMED, SIDE)}, dict.fromkeys(names, (SIDE,)), {}


def _store() -> Made:
    return _reduced(("Max", 0), ("Max", 1))


def _load() -> Made:
    return _reduced(("Max", 0), ("Max", 1), ("Min", 0), ("Min", 1), ("L1", 0), ("L1", 1))


def _gemm() -> Made:
    return _products(PRODUCTS, EDGE, EDGE)


NETWORKS: dict[str, Callable[[], Made]] = {"launch": _launch, "store": _store, "load": _load, "gemm": _gemm}


def network(name: str) -> bytes:
    """The network as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, inputs, outputs, constants = NETWORKS[name]()
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in inputs.items()],
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in outputs.items()],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


def record_self_test(name: str, gpu: str, **how: Any) -> Trace:
    """Record one of NETWORKS; `how` and errors as `record_onnx`."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(network(name))
        return record_onnx(path, {}, compiler=TINYGRAD, name=name, gpu=gpu, **how)
