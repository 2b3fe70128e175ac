# SPDX-License-Identifier: BSD-2-Clause
"""A .tflite file: a flatbuffer of subgraphs, tensors, operators and constants.

The format: TensorFlow's tensorflow/compiler/mlir/lite/schema/schema.fbs (version 3). LiteRT's package brings its
classes. Nothing in the file is run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from host_tools.record.other_files import HEAD_BYTES, instead
from host_tools.record.preflight import NetworkError
from trace_format import limits
from trace_format.errors import printable
from trace_format.files import read_file

IDENTIFIER, IDENTIFIER_AT = b"TFL3", 4
TYPES = [
    "FLOAT32",
    "FLOAT16",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BOOL",
    "COMPLEX64",
]
COMPLEX = "complex64"
DTYPES = {getattr(schema.TensorType, name): name.lower() for name in TYPES}
RESOURCE = "resource"  # a variable's handle
KINDS = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
CUSTOM = "CUSTOM"
# What reading a damaged flatbuffer may raise: its offsets point anywhere.
ODD = (struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Steps:
    """What whole numbers stand for: (number - zero) * scale.

    Attributes:
        scale: one, or one for each index of `axis`.
        zero: as many, of the numbers' own type.
        axis: of the tensor.
    """

    scale: NDArray[np.float32]
    zero: NDArray[Any]
    axis: int


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes:
        name: the file's.
        shape: sizes; for one that the file leaves open, mostly 1.
        dtype: NumPy's name, or RESOURCE.
        constant: its content, if the file has it.
        steps: of a quantised one.
        is_open: by dimension: whether the file leaves its size open.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: NDArray[Any] | None
    steps: Steps | None
    is_open: tuple[bool, ...]


@dataclass(frozen=True)
class Operator:
    """An operator of a subgraph.

    Attributes:
        kind: schema.fbs's name, or CUSTOM with the operator's own name behind a colon.
        inputs, outputs: numbers of values; an input that is left out is -1.
        options: the schema's object; None: the file has none.
        custom: options of an operator that is not in the schema.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    custom: bytes


@dataclass(frozen=True)
class Subgraph:
    """A graph of operators, in the order in which they run.

    Attributes:
        values: all tensors, by number.
        inputs, outputs: name, as the signature has it or else the tensor -> number of the value.
        operators: in order.
    """

    values: tuple[Value, ...]
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    operators: tuple[Operator, ...]


def read(path: Path) -> tuple[Subgraph, ...]:
    """The subgraphs of a file; the first is the network.

    Raises:
        NetworkError: it is no TensorFlow Lite file, or damaged, or has tensors of types that are not taken.
        OSError: it cannot be read.
    """
    data = read_file(path, limits.MODEL_BYTES)
    found = data[IDENTIFIER_AT : IDENTIFIER_AT + len(IDENTIFIER)]
    if found != IDENTIFIER:
        raise NetworkError(
            f"at offset {IDENTIFIER_AT:#x}: not a TensorFlow Lite file: expected {IDENTIFIER!r}, found {found!r}"
            f"{instead(data[:HEAD_BYTES])}"
        )
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        graphs = tuple(_subgraph(model, number) for number in range(len(model.subgraphs or ())))
    except ODD as error:
        raise NetworkError(f"a damaged TensorFlow Lite file: {printable(str(error))[:200]}") from None
    if not graphs or not graphs[0].operators:
        raise NetworkError("a TensorFlow Lite file without operators")
    return graphs


def _subgraph(model: Any, number: int) -> Subgraph:
    graph = model.subgraphs[number]
    values = tuple(_value(model, tensor) for tensor in _list(graph.tensors))
    operators = tuple(_operator(model, one) for one in _list(graph.operators))
    limits.check("operators of the network", len(operators), limits.OPERATORS)
    for operator in operators:
        for least, numbers in ((-1, operator.inputs), (0, operator.outputs)):
            if wrong := [at for at in numbers if not least <= at < len(values)]:
                kind = printable(operator.kind)
                raise NetworkError(f"a damaged file: operator {kind} has tensor {wrong[0]} of {len(values)}")
    signature = next((one for one in _list(model.signatureDefs) if one.subgraphIndex == number), None)
    inputs, outputs = (_list(getattr(signature, which, None)) for which in ("inputs", "outputs"))
    named = _named(graph.inputs, inputs, values), _named(graph.outputs, outputs, values)
    return Subgraph(values, *named, operators)


def _list(vector: Any) -> list[Any]:
    return [] if vector is None else list(vector)


def _named(numbers: Any, maps: list[Any], values: tuple[Value, ...]) -> dict[str, int]:
    names = {int(one.tensorIndex): one.name.decode() for one in maps}
    found: dict[str, int] = {}
    for number in map(int, _list(numbers)):
        name = names.get(number) or values[number].name.removesuffix(":0")
        while name in found:
            name += "_"
        found[name] = number
    return found


def _value(model: Any, tensor: Any) -> Value:
    shape = tuple(map(int, _list(tensor.shape)))
    is_open = tuple(int(size) < 0 for size in _list(tensor.shapeSignature)) or (False,) * len(shape)
    name = (tensor.name or b"").decode()
    if tensor.type == schema.TensorType.RESOURCE:
        return Value(name, shape, RESOURCE, None, None, is_open)
    dtype = DTYPES.get(tensor.type)
    if dtype is None:
        kind = next(
            (name for name, number in vars(schema.TensorType).items() if number == tensor.type), tensor.type
        )
        raise NetworkError(f"tensor {printable(name)} of the type {kind}, which is not taken")
    if min(shape, default=1) < 0:
        raise NetworkError(f"tensor {printable(name)} has a negative size")
    constant = _constant(model, tensor, shape, dtype)
    if constant is not None and dtype == COMPLEX:
        raise NetworkError(f"tensor {printable(name)} is a constant of complex numbers, which is not taken")
    return Value(name, shape, dtype, constant, _steps(tensor, dtype), is_open)


def _steps(tensor: Any, dtype: str) -> Steps | None:
    quantized = tensor.quantization
    scale = _list(quantized.scale) if quantized else []
    if not scale or np.dtype(dtype).kind == "f":
        return None
    zero = _list(quantized.zeroPoint) or [0] * len(scale)
    if len(zero) == 1:
        zero *= len(scale)
    if len(zero) != len(scale):
        raise NetworkError(f"a damaged file: {len(scale)} scales and {len(zero)} zero points")
    return Steps(np.array(scale, np.float32), np.array(zero, dtype), int(quantized.quantizedDimension))


def _constant(model: Any, tensor: Any, shape: tuple[int, ...], dtype: str) -> NDArray[Any] | None:
    if not tensor.buffer:
        return None
    data = model.buffers[tensor.buffer].data
    if data is None or len(data) == 0:
        return None
    content = np.frombuffer(np.asarray(data, np.uint8).tobytes(), dtype)
    if tensor.sparsity is not None:
        return _dense(content, tensor.sparsity, shape)
    if content.size != int(np.prod(shape, dtype=np.int64)):
        name, count = printable(tensor.name.decode()), int(np.prod(shape, dtype=np.int64))
        raise NetworkError(f"a damaged file: tensor {name}: expected {count} numbers, found {content.size}")
    return content.reshape(shape)


def _dense(content: NDArray[Any], sparsity: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A sparse constant with its zeros (schema.fbs, SparsityParameters)."""
    blocks = [int(at) for at in _list(sparsity.blockMap)]
    order = [int(at) for at in sparsity.traversalOrder]
    levels = sparsity.dimMetadata
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise NetworkError("a damaged file: a sparse tensor whose dimensions are not those of its shape")
    inner = {order.index(rank + at): dim for at, dim in enumerate(blocks)}
    sizes = {dim: int(levels[level].denseSize) for level, dim in inner.items()}
    made = np.zeros(shape, content.dtype)
    places = iter(_places(levels, 0, 0, []))
    for value, place in zip(content, places, strict=True):
        index = [0] * rank
        for level, at in enumerate(place):
            dim = order[level]
            if dim < rank:
                index[dim] += at * sizes.get(dim, 1)
            else:
                index[blocks[dim - rank]] += at
        made[tuple(index)] = value
    return made


def _places(levels: Any, level: int, parent: int, place: list[int]) -> Iterator[list[int]]:
    """Indices of the stored elements, in the order in which they are stored."""
    if level == len(levels):
        yield place
        return
    one = levels[level]
    if one.format == schema.DimensionType.DENSE:
        for at in range(int(one.denseSize)):
            yield from _places(levels, level + 1, parent * int(one.denseSize) + at, [*place, at])
        return
    segments, indices = one.arraySegments.values, one.arrayIndices.values
    for number in range(int(segments[parent]), int(segments[parent + 1])):
        yield from _places(levels, level + 1, number, [*place, int(indices[number])])


def _operator(model: Any, operator: Any) -> Operator:
    code = model.operatorCodes[operator.opcodeIndex]
    kind = KINDS.get(max(code.builtinCode, code.deprecatedBuiltinCode), "of an unknown number")
    if kind == CUSTOM:
        kind = f"{CUSTOM}:{(code.customCode or b'').decode()}"
    inputs, outputs = (tuple(map(int, _list(part))) for part in (operator.inputs, operator.outputs))
    options = operator.builtinOptions or getattr(operator, "builtinOptions2", None)
    custom = bytes(bytearray(_list(operator.customOptions)))
    return Operator(kind, inputs, outputs, options, custom)
