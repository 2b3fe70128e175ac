# SPDX-License-Identifier: BSD-2-Clause
"""What LiteRT's reference kernels compute of a file, and whether its translation computes the same.

Outputs of float32 are compared at the end. Each operator of a quantised network is compared by itself, on what
LiteRT rounded before it, because the operators that follow would carry on a difference of one step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from flatbuffers import Builder
from numpy.typing import NDArray

from host_tools.extras.tflite.convert import Converted
from host_tools.extras.tflite.file import IDENTIFIER, Subgraph, Value
from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.preflight import NetworkError
from host_tools.record.tolerances import TOLERANCE
from trace_format.errors import printable

Numbers = NDArray[Any]
SEED = 3
LEAST = 1e-2  # a value below is compared absolutely: a last bit of a sigmoid is 5 % of 1e-6
SPREAD = 4  # times as far as LiteRT's kernels are apart, a translation may be off
STEPS = 1  # by which LiteRT's fixed-point products may round otherwise than a product of numbers
RUNS = 3  # of a network that keeps variables
BIASED = b"Convolution2DTransposeBias"


class Judge:
    """LiteRT, with a file.

    Args:
        data: the file.
        shapes: of inputs whose sizes the file leaves open, by position.
        is_reference: whether to use LiteRT's reference kernels, or those that it would use.

    Raises:
        NetworkError: LiteRT does not take the file.
    """

    def __init__(self, data: bytes, shapes: Mapping[int, tuple[int, ...]], is_reference: bool = True) -> None:
        kernels = OpResolverType.BUILTIN_REF if is_reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        how = {"experimental_preserve_all_tensors": True, "num_threads": 1}
        try:
            self._interpreter = Interpreter(
                model_content=_standard(data), experimental_op_resolver_type=kernels, **how
            )
            for at, detail in enumerate(self._interpreter.get_input_details()):
                if at in shapes:
                    self._interpreter.resize_tensor_input(detail["index"], shapes[at], strict=True)
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise NetworkError(f"LiteRT cannot load it: {printable(' '.join(str(error).split())[:300])}") from None

    def run(self, inputs: Mapping[int, Numbers]) -> None:
        """Run the network once more; its variables stay. NetworkError: LiteRT cannot."""
        try:
            for number, value in inputs.items():
                self._interpreter.set_tensor(number, value)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise NetworkError(f"LiteRT cannot run it: {printable(' '.join(str(error).split())[:300])}") from None

    def tensor(self, number: int) -> Numbers:
        """A tensor of the last run."""
        found: Numbers = self._interpreter.get_tensor(number)
        return found

    def shapes(self) -> dict[int, tuple[int, ...]]:
        """The shapes of all tensors in the last run."""
        details = self._interpreter.get_tensor_details()
        return {int(one["index"]): tuple(map(int, one["shape"])) for one in details}


def _standard(data: bytes) -> bytes:
    """The file with MediaPipe's transposed convolution as TensorFlow Lite's own, which LiteRT knows."""
    if BIASED not in data:
        return data
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    codes = [at for at, code in enumerate(model.operatorCodes) if code.customCode == BIASED]
    for at in codes:
        code = model.operatorCodes[at]
        code.customCode, code.version = None, 3  # the first with a bias
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TRANSPOSE_CONV
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.opcodeIndex in codes:
                _make_standard(model, graph, operator)
    builder = Builder(len(data))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def _make_standard(model: Any, graph: Any, operator: Any) -> None:
    padding, width, height = struct.unpack_from("<3i", bytes(bytearray(operator.customOptions)))
    options = schema.TransposeConvOptionsT()
    options.padding, options.strideW, options.strideH = padding - 1, width, height
    operator.builtinOptionsType = schema.BuiltinOptions.TransposeConvOptions
    operator.builtinOptions, operator.customOptions = options, None
    buffer, tensor = schema.BufferT(), schema.TensorT()
    buffer.data = np.frombuffer(np.asarray(graph.tensors[operator.outputs[0]].shape, "<i4").tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor.shape, tensor.type, tensor.buffer = [4], schema.TensorType.INT32, len(model.buffers) - 1
    tensor.name = b"sizes"
    graph.tensors.append(tensor)
    data, weights, bias = operator.inputs
    operator.inputs = [len(graph.tensors) - 1, weights, data, bias]


def random_values(graph: Subgraph, generator: np.random.Generator) -> dict[int, Numbers]:
    """Values for the inputs of a subgraph, by number; numbers from 0 to 1, quantised ones over all that
    their type has."""
    found = {}
    for number in graph.inputs.values():
        value = graph.values[number]
        kind = np.dtype(value.dtype)
        if kind.kind == "b":
            found[number] = generator.integers(0, 2, value.shape).astype(bool)
        elif kind.kind in "iu" and value.steps is not None:
            info = np.iinfo(kind)
            found[number] = generator.integers(info.min, info.max + 1, value.shape).astype(kind)
        elif kind.kind in "iu":
            found[number] = generator.integers(0, 2, value.shape).astype(kind)
        else:
            found[number] = generator.random(value.shape).astype(kind)
    return found


def compare(judge: Judge, other: Callable[[], Judge], graph: Subgraph, made: Converted, cut: Converted) -> None:
    """Compare what was translated with LiteRT, for random inputs.

    Args:
        judge: LiteRT's reference kernels with the file.
        other: LiteRT's other kernels with it, which are asked where the first differ.
        graph: its first subgraph, all of whose sizes are known.
        made: the network.
        cut: the same, cut behind each rounding.

    Raises:
        RecordError: something is computed otherwise; names the first tensor, by how much, and both values.
    """
    generator = np.random.default_rng(SEED)
    runs = onnx_model.session(onnx_model.described(made.model))
    pieces = onnx_model.session(onnx_model.described(cut.model)) if cut.probes else None
    states = dict(made.first)
    for _ in range(RUNS if made.states else 1):
        given = random_values(graph, generator)
        judge.run(given)
        named = {name: given[number] for name, number in graph.inputs.items()}
        found = runs(named | states)
        if pieces is not None:
            cuts = {name: judge.tensor(number) for number, name in cut.cuts.items()}
            cuts |= {name: judge.tensor(number) for name, number in cut.reads.items()}
            parts = pieces(named | cuts)
            for number, name in cut.probes.items():
                if error := _difference(graph.values[number], parts[name], judge.tensor(number)):
                    raise RecordError(error)
        else:
            for name, number in graph.outputs.items():
                value, expected = graph.values[number], judge.tensor(number)
                if error := _difference(value, found[name], expected):
                    own = SPREAD * _spread(other(), given, number, expected)
                    if (error := _difference(value, found[name], expected, own)) is not None:
                        raise RecordError(error)
        states = {name: found[after] for name, after in made.states.items()}


def _spread(other: Judge, given: Mapping[int, Numbers], number: int, expected: Numbers) -> float:
    """By how much LiteRT's own kernels differ in a tensor: a network may make much of a last bit."""
    other.run(given)
    return float(np.abs(other.tensor(number).astype(np.float64) - expected).max(initial=0))


def _difference(value: Value, found: Numbers, expected: Numbers, own: float = 0) -> str | None:
    """What is wrong with a tensor, if it differs by more than rounding, or than `own`, explains."""
    name = printable(value.name)
    if found.shape != expected.shape:
        return f"tensor {name}: LiteRT makes the shape {expected.shape}, what was translated {found.shape}"
    if not expected.size:
        return None
    differences = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    differences = np.where((found == expected) | (np.isnan(found) & np.isnan(expected)), 0, differences)
    if value.steps is not None:
        most = float(STEPS)
    else:
        whole = expected.dtype.kind in "biu"
        largest = max(float(np.abs(expected).max()), LEAST)
        most = 0.0 if whole else max(TOLERANCE * largest, own)
    if differences.max() <= most:
        return None
    at = np.unravel_index(int(np.argmax(differences)), differences.shape)
    return (
        f"tensor {name} at {[*map(int, at)]}: LiteRT's reference kernels compute {expected[at]}, what was "
        f"translated {found[at]}"
    )
