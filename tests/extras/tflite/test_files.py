# SPDX-License-Identifier: BSD-2-Clause
"""Files of TensorFlow Lite's: what they say of names, sizes and variables, and malformed ones."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from host_tools.extras.tflite.choose import translated
from host_tools.record import onnx_model
from host_tools.record.preflight import NetworkError
from tests.support.tflite_file import File
from tests.support.tflite_networks import network
from trace_format.errors import GramophoneError


def refused(path: Path, **shapes: tuple[int, ...]) -> str:
    with pytest.raises(NetworkError) as error:
        translated(path, shapes)
    return str(error.value)


def test_what_is_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "n.tflite"
    path.write_bytes(bytes(40))
    assert refused(path) == (
        "at offset 0x4: not a TensorFlow Lite file: expected b'TFL3', found b'\\x00\\x00\\x00\\x00'"
    )
    path.write_bytes(b"")
    assert "found b''" in refused(path)


def test_every_cut_and_a_thousand_flips(tmp_path: Path) -> None:
    """A damaged file is refused in a sentence, or is another network: never a traceback."""
    data, _ = network(5)
    path = tmp_path / "n.tflite"
    random = np.random.default_rng(1)
    damaged = [data[:size] for size in range(8, len(data), max(1, len(data) // 12))]
    for _ in range(12):
        changed = bytearray(data)
        for at in random.integers(8, len(data), 3):
            changed[at] ^= 1 << random.integers(0, 8)
        damaged.append(bytes(changed))
    for content in damaged:
        path.write_bytes(content)
        with contextlib.suppress(GramophoneError):
            translated(path, {})


def relu(file: File, shape: tuple[int, ...] = (1, 4)) -> tuple[int, int]:
    x, y = file.tensor(shape), file.tensor(shape)
    file.add("RELU", [x], [y])
    return x, y


def test_names_of_a_signature(tmp_path: Path) -> None:
    file = File()
    x, y = relu(file)
    one = schema.SignatureDefT()
    one.signatureKey, one.subgraphIndex = b"serving_default", 0
    one.inputs, one.outputs = [schema.TensorMapT()], [schema.TensorMapT()]
    one.inputs[0].name, one.inputs[0].tensorIndex = b"sound", x
    one.outputs[0].name, one.outputs[0].tensorIndex = b"word", y
    file.model.signatureDefs = [one]
    model = translated(file.write(tmp_path / "n.tflite", [x], [y]), {}).model
    assert (list(model.inputs), model.outputs) == (["sound"], ("word",))


def test_open_sizes(tmp_path: Path) -> None:
    """The batch is 1 by itself; another open size must be given, and all tensors follow it."""
    file = File()
    x, y = relu(file, (1, 1, 4))
    file.graph.tensors[x].shapeSignature = [-1, -1, 4]
    path = file.write(tmp_path / "n.tflite", [x], [y])
    assert refused(path) == "input t0 has the shape ?x?x4: give --shape t0=... for what is open"
    assert refused(path, t0=(1, 7, 5)) == "input t0: expected a shape like ?x?x4, found 1x7x5"
    assert refused(path, other=(1,)) == "no input 'other'; the network has t0"
    assert translated(path, {"t0": (1, 7, 4)}).model.inputs == {"t0": (1, 7, 4)}


def test_what_has_no_translation(tmp_path: Path) -> None:
    file = File()
    x, y = file.tensor((1, 4)), file.tensor((1, 4))
    file.add("HASHTABLE_LOOKUP", [x], [y])
    file.add("UNIQUE", [x], [y])
    path = file.write(tmp_path / "n.tflite", [x], [y])
    assert refused(path) == ("operators of TensorFlow Lite's that have no translation: HASHTABLE_LOOKUP, UNIQUE")


def test_what_an_operator_does_not_take(tmp_path: Path) -> None:
    """The operator's number, kind and first result are named, with what is wrong."""
    file = File()
    x, axes, y = file.tensor((1, 4)), file.tensor((1,), "int32"), file.tensor((1,))
    file.add("MEAN", [x, axes], [y], "ReducerOptions")
    found = refused(file.write(tmp_path / "n.tflite", [x, axes], [y]))
    assert found == "operator 0 (MEAN, t2): input 1 (t1) is computed, and is taken as a constant only"


def test_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    file = File()
    x, y = relu(file)
    file.graph.operators[0].inputs = [99]
    found = refused(file.write(tmp_path / "n.tflite", [x], [y]))
    assert found == "a damaged file: operator RELU has tensor 99 of 2"


def test_a_constant_that_is_cut_off(tmp_path: Path) -> None:
    file = File()
    x, y = file.tensor((1, 4)), file.tensor((1, 4))
    other = file.constant(np.ones(4, np.float32))
    file.graph.tensors[other].shape = [5]
    file.add("ADD", [x, other], [y], "AddOptions")
    found = refused(file.write(tmp_path / "n.tflite", [x], [y]))
    assert found == "a damaged file: tensor t2: expected 5 numbers, found 4"


def counter(path: Path) -> Path:
    """A network that adds its input to a variable, which begins as 5."""
    file = File()
    handle, x, old, y = (file.tensor(()), *(file.tensor((1, 2)) for _ in range(3)))
    file.graph.tensors[handle].type = schema.TensorType.RESOURCE
    named: dict[str, Any] = {"options": "VarHandleOptions", "sharedName": b"sum"}
    file.add("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    file.add("VAR_HANDLE", [], [handle], **named)
    file.add("READ_VARIABLE", [handle], [old], "ReadVariableOptions")
    file.add("ADD", [old, x], [y], "AddOptions")
    file.add("ASSIGN_VARIABLE", [handle, y], [], "AssignVariableOptions")
    main, file.graph = file.graph, schema.SubGraphT()
    file.graph.tensors, file.graph.operators, file.graph.inputs, file.graph.outputs = [], [], [], []
    file.model.subgraphs.append(file.graph)
    inner = file.tensor(())
    file.graph.tensors[inner].type = schema.TensorType.RESOURCE
    first = file.constant(np.full((1, 2), 5, np.float32))
    file.add("VAR_HANDLE", [], [inner], **named)
    file.add("ASSIGN_VARIABLE", [inner, first], [], "AssignVariableOptions")
    file.graph = main
    return file.write(path, [x], [y])


def test_a_variable_is_state(tmp_path: Path) -> None:
    found = translated(counter(tmp_path / "n.tflite"), {})
    assert found.states == {"sum": "sum_next"}
    assert found.first["sum"].tolist() == [[5, 5]]
    values = {"t1": np.array([[1, 2]], np.float32), "sum": found.first["sum"]}
    for expected in ([[6, 7]], [[7, 9]]):
        made = onnx_model.run(found.model, values)
        assert made["t3"].tolist() == expected
        values["sum"] = made["sum_next"]


def test_sparse_weights(tmp_path: Path) -> None:
    """Rows in compressed form (schema.fbs's example of one), and what LiteRT makes of it."""
    file = File()
    x, dense, y = file.tensor((1, 4)), file.tensor((3, 4)), file.tensor((1, 3))
    content = file.constant(np.array([1, 2, 3], np.float32))
    tensor = file.graph.tensors[content]
    tensor.shape, tensor.sparsity = [3, 4], schema.SparsityParametersT()
    tensor.sparsity.traversalOrder = [0, 1]
    rows, columns = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    rows.format, rows.denseSize = schema.DimensionType.DENSE, 3
    columns.format = schema.DimensionType.SPARSE_CSR
    columns.arraySegmentsType = columns.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    columns.arraySegments, columns.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    columns.arraySegments.values, columns.arrayIndices.values = [0, 1, 1, 3], [2, 0, 3]
    tensor.sparsity.dimMetadata = [rows, columns]
    file.add("DENSIFY", [content], [dense], "DensifyOptions")
    file.add("FULLY_CONNECTED", [x, dense, -1], [y], "FullyConnectedOptions")
    model = translated(file.write(tmp_path / "n.tflite", [x], [y]), {}).model
    (found,) = onnx_model.run(model, {"t0": np.array([[1, 10, 100, 1000]], np.float32)}).values()
    assert found.tolist() == [[100, 0, 3002]]
