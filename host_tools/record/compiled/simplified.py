# SPDX-License-Identifier: BSD-2-Clause
"""An ONNX file as a compiler's front end likes it: fixed shapes, constants folded, types that slots have.

ONNX Runtime's own optimizer folds what follows from the shapes and the weights: `If` with a constant condition,
shapes that are computed, prepared weights. What it writes is standard ONNX at this level.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from host_tools.record import onnx_model
from host_tools.record.onnx_model import OnnxModel, Shape
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.table import rewritten
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox

# Slots have no 64-bit elements: callers give and get 32 bits, and the network converts.
NARROWER = {
    onnx.TensorProto.INT64: onnx.TensorProto.INT32,
    onnx.TensorProto.UINT64: onnx.TensorProto.UINT32,
    onnx.TensorProto.DOUBLE: onnx.TensorProto.FLOAT,
}
NARROWER_NAMES = {"int64": "int32", "uint64": "uint32", "float64": "float32"}  # the same, NumPy's names
# ONNX defines these by others of its operators, which the compiler has; ONNX Runtime may lack them, too.
FUNCTIONS = [
    ("", "CausalConvWithState"),
    ("", "LinearAttention"),
    ("", "SwiGLU"),
    ("ai.onnx.preview", "FlexAttention"),
]

# With a constant of no elements as shape, axes, counts or starts: the operator that does the same without.
BY_EMPTY = {"Reshape": "Squeeze", "Squeeze": "Identity"}
BY_EMPTY |= dict.fromkeys(("Expand", "Slice", "Tile", "Unsqueeze"), "Identity")


def simplified(model: OnnxModel, shapes: Mapping[str, Shape]) -> tuple[bytes, bytes, bool]:
    """The network with these shapes of its inputs: as the file has it otherwise, and simplified.

    Args:
        model: from `onnx_model.read`.
        shapes: of all inputs, batch and all.

    Returns:
        The two files, and whether it computes with halves, which a compiler may keep in float32 on the way.

    Raises:
        NetworkError: ONNX Runtime cannot load it so, it keeps operators that are not ONNX's, or an output has no
            elements.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        path = Path(name) / "simplified.onnx"
        allowed = Sandbox(writes=(path.parent,))
        return contained.call(
            "ONNX Runtime", lambda: _simplified(model, shapes, path), tuple[bytes, bytes, bool], allowed
        )


def _simplified(model: OnnxModel, shapes: Mapping[str, Shape], path: Path) -> tuple[bytes, bytes, bool]:
    network = fixed(model.data, shapes)
    reference = bytes(network.SerializeToString())
    network = onnx_model.optimized(network, path)
    halves = _has_halves(network)
    return reference, for_compiler(network), halves


def fixed(data: bytes, shapes: Mapping[str, Shape]) -> Any:
    """ONNX's message of a file with these shapes of its inputs, and no types of 64 bits outside."""
    network = onnx.load_model_from_string(data)
    _fix(network, shapes)
    if {(node.domain, node.op_type) for node in network.graph.node} & set(FUNCTIONS):
        # Its inliner asks for the type of each input, of one that is left out, too.
        network.graph.value_info.append(onnx.helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None))
        network = onnx.inliner.inline_selected_functions(network, FUNCTIONS, inline_schema_functions=True)
        del network.graph.value_info[:]
    _narrow(network)
    return network


def for_compiler(network: Any) -> bytes:
    """The file of a network without what the front end cannot read: other domains, empty constants, doubles."""
    rewritten(network)
    used = {node.domain for node in network.graph.node} | {""}
    kept = [item for item in network.opset_import if item.domain in used]
    del network.opset_import[:]
    network.opset_import.extend(kept)
    _without_empty(network)
    _without_doubles(network.graph)
    return bytes(network.SerializeToString())


def _without_doubles(graph: Any) -> None:
    """Compute in float32 what is double: the GPUs have no doubles."""
    double, single = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    for item in (*graph.input, *graph.output, *graph.value_info):
        if item.type.tensor_type.elem_type == double:
            item.type.tensor_type.elem_type = single
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == double:
                attribute.i = single
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            if attribute.HasField("g"):
                _without_doubles(attribute.g)
    for tensor in tensors:
        if tensor.data_type == double:
            values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))


def _has_halves(network: Any) -> bool:
    kinds = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    casts = (item.i for node in network.graph.node if node.op_type == "Cast" for item in node.attribute)
    values = (item.data_type for item in network.graph.initializer)
    given = (item.type.tensor_type.elem_type for item in network.graph.input)
    return any(kind in kinds for kind in (*casts, *values, *given))


def _fix(network: Any, shapes: Mapping[str, Shape]) -> None:
    """Fix the inputs' shapes; what else the file says of shapes may contradict them."""
    for item in network.graph.input:
        if item.name in shapes:
            sizes = item.type.tensor_type.shape.dim
            for size, value in zip(sizes, shapes[item.name], strict=True):
                size.ClearField("dim_param")
                size.dim_value = value
    del network.graph.value_info[:]
    for item in network.graph.output:
        item.type.tensor_type.ClearField("shape")


def _narrow(network: Any) -> None:
    """Give inputs and outputs of 64-bit elements elements of 32, and convert inside."""
    graph = network.graph
    weights = {item.name for item in graph.initializer}
    casts = []
    for item in graph.input:
        kind = item.type.tensor_type
        if item.name in weights or kind.elem_type not in NARROWER:
            continue
        inner = f"{item.name}/wide"
        _rename(graph, item.name, inner)
        casts.append(onnx.helper.make_node("Cast", [item.name], [inner], name=inner, to=kind.elem_type))
        kind.elem_type = NARROWER[kind.elem_type]
    for node in reversed(casts):
        graph.node.insert(0, node)
    for item in graph.output:
        kind = item.type.tensor_type
        if kind.elem_type not in NARROWER:
            continue
        inner = f"{item.name}/wide"
        _rename(graph, item.name, inner)
        kind.elem_type = NARROWER[kind.elem_type]
        graph.node.append(onnx.helper.make_node("Cast", [inner], [item.name], name=item.name, to=kind.elem_type))


def _rename(graph: Any, old: str, new: str) -> None:
    """Rename a value wherever nodes read or make it, in branches and bodies, too."""
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
        for attribute in node.attribute:
            _rename(attribute.g, old, new)
            for item in attribute.g.output:  # a branch may hand on what is outside of it
                item.name = new if item.name == old else item.name


def _without_empty(network: Any) -> None:
    """Leave out optional inputs that are constants of no elements, which means the same (Resize's scales,
    axes of sums), and such pieces of what is joined; write otherwise what they do elsewhere."""
    empty = {item.name for item in network.graph.initializer if 0 in item.dims}
    for node in network.graph.node:
        is_empty = any(0 in item.t.dims for item in node.attribute if item.HasField("t"))
        hands_on = node.op_type in ("Cast", "CastLike", "Identity") and node.input[0] in empty
        if (node.op_type == "Constant" and is_empty) or hands_on:
            empty.update(node.output)
    for node in network.graph.node:
        if node.op_type in ("Resize", "Upsample", "Clip") or node.op_type.startswith("Reduce"):
            node.input[:] = ["" if name in empty else name for name in node.input]
        if node.op_type == "Concat" and not set(node.input) <= empty:
            node.input[:] = [name for name in node.input if name not in empty]
        if any(name in empty for name in node.input[1:]) and node.op_type in BY_EMPTY:
            node.op_type = BY_EMPTY[node.op_type]
            del node.input[1:], node.attribute[:]
    if without := [item.name for item in network.graph.output if item.name in empty]:
        raise NetworkError(f"output {without[0]} has no elements")
    kept = [item for item in network.graph.initializer if item.name not in empty]
    del network.graph.initializer[:]
    network.graph.initializer.extend(kept)
    nodes = [node for node in network.graph.node if not set(node.output) & empty]
    del network.graph.node[:]
    network.graph.node.extend(nodes)
