# SPDX-License-Identifier: BSD-2-Clause
"""ONNX files: what they say of inputs, and what they compute. Needs the packages of gramophone[onnx]."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # importing it else makes a data base in the home folder
import onnxruntime
from google.protobuf.message import DecodeError

from host_tools.machine.errors import RecordError
from host_tools.record import exact_sigmoids, exact_sums
from host_tools.record.inputs import check_fits, no_input
from host_tools.record.onnx_answers import numbers_only
from host_tools.record.onnx_messages import nodes_of, tensors_of
from host_tools.record.other_files import HEAD_BYTES, instead
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.qonnx import without_quant
from host_tools.record.rewriting.table import TABLE
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.errors import printable
from trace_format.files import check_size, read_file

Numbers = npt.NDArray[Any]
Shape = tuple[int, ...]
OWN_DOMAINS = ("", "ai.onnx")
# What ONNX Runtime's quantizer writes, and is compiled as ONNX's own are.
RUNTIME_OPERATORS = {("com.microsoft", "DynamicQuantizeLSTM")}
REWRITTEN = {(domain, kind) for domain, kinds in TABLE.items() for kind in kinds}
OPTIMISED, LESS_OPTIMISED = "ORT_ENABLE_ALL", ("ORT_ENABLE_BASIC", "ORT_DISABLE_ALL")
BRANCHING = ("If", "Loop")
MOVES = frozenset(
    ("Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
)
WEIGHTS = (".data", ".onnx_data", ".bin", ".weights", ".weight", ".bias", ".raw")  # what exporters call them


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX file.

    Attributes:
        data: it, with what lay in other files beside it.
        inputs: by name, in order: size of each dimension, or None where the file leaves it open.
        types: of inputs, NumPy's names.
        outputs: names.
        operators: type -> names of the nodes that are of it.
        sigmoids, rounded: outputs that are made by a Sigmoid of float32, or a QuantizeLinear, and moved at most.
    """

    data: bytes
    inputs: dict[str, tuple[int | None, ...]]
    types: dict[str, str]
    outputs: tuple[str, ...]
    operators: dict[str, list[str]]
    sigmoids: tuple[str, ...]
    rounded: tuple[str, ...]

    def shapes(self, given: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shape of every input: the file's own, or the given one.

        Raises:
            NetworkError: an input's shape is open and not given, or given otherwise than the file has it.
        """
        if unknown := sorted(given.keys() - self.inputs.keys()):
            raise NetworkError(no_input(unknown[0], self.inputs))
        found, left = {}, {}
        for name, sizes in self.inputs.items():
            shape = given.get(name, tuple(size or 0 for size in sizes))
            text = "x".join(str(size or "?") for size in sizes)
            if 0 in shape:
                left[name] = f"input {name} has the shape {text}"
                continue
            if len(shape) != len(sizes) or any(b not in (None, a) for a, b in zip(shape, sizes, strict=True)):
                size = "x".join(map(str, shape))
                raise NetworkError(f"input {name}: expected a shape like {text}, batch and all, found {size}")
            found[name] = shape
        if left:
            options = " ".join(f"--shape {name}=..." for name in left)
            raise NetworkError(f"{', '.join(left.values())}: give {options} for what is open")
        return found


def read(path: Path, external: Collection[Path] = ()) -> OnnxModel:
    """Read an ONNX file.

    Args:
        path: the file.
        external: files beside it that it may name as weights, whatever they are called.

    Raises:
        NetworkError: it is none, it is damaged, it names a file as weights that is not called so, or it has
            operators that ONNX does not know or inputs that are no tensors.
        OSError: it cannot be read.
    """
    allowed = weights(path, external)
    return contained.call(
        "ONNX's reader", lambda: _read(path), OnnxModel, Sandbox(reads=(path, *allowed), cpu_s=limits.READ_S)
    )


def weights(path: Path, external: Collection[Path] = ()) -> list[Path]:
    """Files that an ONNX file names as its weights; errors as of `read`."""
    sandbox = Sandbox(reads=(path,), cpu_s=limits.READ_S)
    found = contained.call("ONNX's reader", lambda: _named(path), list[tuple[str, str]], sandbox)
    return _check_external(found, path, external)


def _load(path: Path) -> Any:
    data = read_file(path, limits.MODEL_BYTES)
    other = instead(data[:HEAD_BYTES])
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise NetworkError(f"not an ONNX file, or one that was cut off: {error}{other}") from None
    if not model.graph.node:
        raise NetworkError(f"not an ONNX file: it has no graph of operators{other}")
    return model


def _named(path: Path) -> list[tuple[str, str]]:
    """Tensors whose values lie in other files, and the names of these."""
    return [
        (tensor.name, next((entry.value for entry in tensor.external_data if entry.key == "location"), ""))
        for tensor in tensors_of(_load(path))
        if onnx.external_data_helper.uses_external_data(tensor)
    ]


def _read(path: Path) -> OnnxModel:
    model = _load(path)
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(path.parent))
        numbers_only(model)
        without_quant(model)
        check_domains(model)
    except (onnx.checker.ValidationError, ValueError, FileNotFoundError) as error:
        raise NetworkError(f"weights in another file: {' '.join(str(error).split())}") from None
    return described(model)


def described(model: Any) -> OnnxModel:
    """What a network's message says of it; its weights are inside.

    Raises:
        LimitError: it has too many operators.
    """
    limits.check("operators of the network", sum(1 for _ in nodes_of(model)), limits.OPERATORS)
    constants = {item.name for item in model.graph.initializer}
    operators: dict[str, list[str]] = {}
    for node in model.graph.node:
        operators.setdefault(node.op_type, []).append(_name(node))
    given = [item for item in model.graph.input if item.name not in constants]
    outputs = tuple(item.name for item in model.graph.output)
    single = onnx.TensorProto.FLOAT
    floats = {item.name for item in model.graph.output if item.type.tensor_type.elem_type == single}
    return OnnxModel(
        model.SerializeToString(),
        {item.name: _sizes(item) for item in given},
        {item.name: _type(item) for item in given},
        outputs,
        operators,
        tuple(name for name in _made_by("Sigmoid", model) if name in floats),
        _made_by("QuantizeLinear", model),
    )


def _made_by(kind: str, model: Any) -> tuple[str, ...]:
    """Outputs that have an operator's values only, moved or not; a file has nodes in the order of their use."""
    found: set[str] = set()
    for node in model.graph.node:
        moved = node.input if node.op_type == "Concat" else node.input[:1]
        if node.op_type == kind or (node.op_type in MOVES and found.issuperset(moved)):
            found.update(node.output)
    return tuple(item.name for item in model.graph.output if item.name in found)


def with_constants(model: OnnxModel, values: Mapping[str, Numbers]) -> OnnxModel:
    """The network with inputs that are constants from now on, and without what these decide: an `If` becomes the
    branch that it takes, whatever the shapes in the other.

    Args:
        model: from `read`.
        values: of the inputs, by name; converted to the type that the file has.

    Raises:
        NetworkError: there is no such input, the value is of another shape or type, no input is left, or ONNX
            Runtime cannot load the network so.
    """
    for name, value in values.items():
        if name not in model.inputs:
            raise NetworkError(no_input(name, model.inputs))
        sizes = model.inputs[name]
        if len(sizes) != value.ndim or any(a not in (None, b) for a, b in zip(sizes, value.shape, strict=True)):
            text, found = ("x".join(str(size or "?") for size in of) or "a number" for of in (sizes, value.shape))
            raise NetworkError(f"input {name}: expected a value of shape {text}, found {found}")
        check_fits(name, value, model.types[name])
    if len(values) == len(model.inputs):
        raise NetworkError(f"all of its inputs are constants: {', '.join(values)}")
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        path = Path(folder) / "network.onnx"
        return contained.call(
            "ONNX Runtime",
            lambda: _with_constants(model, values, path),
            OnnxModel,
            Sandbox(writes=(path.parent,)),
        )


def _with_constants(model: OnnxModel, values: Mapping[str, Numbers], path: Path) -> OnnxModel:
    network = onnx.load_model_from_string(model.data)
    graph = network.graph
    for name, value in values.items():
        constant = np.asarray(value, np.dtype(model.types[name]))
        graph.initializer.append(onnx.numpy_helper.from_array(constant, name))
    left = [item for item in graph.input if item.name not in values]
    del graph.input[:]
    graph.input.extend(left)
    return described(optimized(network, path))


def optimized(network: Any, path: Path) -> Any:
    """What ONNX Runtime's optimizer leaves of a network: ONNX's own operators, with all folded that is constant.

    Args:
        network: a ModelProto.
        path: a file that it may write.

    Raises:
        NetworkError: ONNX Runtime cannot load it, or it keeps operators that are not ONNX's.
    """
    options = _options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    before = None
    while before != len(network.graph.node):
        before = len(network.graph.node)
        try:
            onnxruntime.InferenceSession(network.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common class but this
            raise NetworkError(f"ONNX Runtime cannot load it: {' '.join(str(error).split())[:300]}") from None
        network = onnx.load_model_from_string(read_file(path, limits.MODEL_BYTES))
        if not any(node.op_type in BRANCHING for node in network.graph.node):
            break  # else what decides may follow from shapes that only this pass has found
    check_domains(network)
    return network


def run(model: OnnxModel, inputs: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """What ONNX Runtime computes of it on the CPU.

    Args:
        model: from `read`.
        inputs: by name, in the shapes that the file has.

    Returns:
        The outputs by name.

    Raises:
        RecordError: it cannot run the network.
    """
    return contained.call("ONNX Runtime", lambda: session(model)(inputs), dict[str, Numbers])


def session(
    model: OnnxModel, level: str = OPTIMISED, nudge: float = 0.0
) -> Callable[[Mapping[str, Numbers]], dict[str, Numbers]]:
    """What runs a network as `run` does, again and again, in this process: for files that are trusted.

    Args:
        model: from `read`.
        level: how much ONNX Runtime optimises: OPTIMISED, or one of LESS_OPTIMISED.
        nudge: as `exact_sums.exact`.

    Raises:
        RecordError: it cannot load the network.
    """
    options = _options()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    # It would compute products with weights of 8 bits by rounding the other side to 8 bits, too: off by 4e-3,
    # where ONNX's DequantizeLinear says that these are products of float32.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Without VNNI, its products of 8 bits add pairs in 16 bits, which overflow (docs of ONNX Runtime, "Quantize
    # ONNX models": U8S8 on AVX2): another result on another processor. This asks for the exact products.
    options.add_session_config_entry("session.x64quantprecision", "1")
    data = exact_sums.exact(model.data, nudge) if exact_sums.KIND in model.operators else model.data
    if model.sigmoids:
        data = exact_sigmoids.exact(data, model.sigmoids, MOVES)
    with _failing():
        try:
            loaded = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            # Its optimizer makes operators for channels last that it has no code for (QLinearConv of uint8).
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            loaded = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def again(inputs: Mapping[str, Numbers]) -> dict[str, Numbers]:
        with _failing():
            values = loaded.run(list(model.outputs), dict(inputs))
        return dict(zip(model.outputs, values, strict=True))

    return again


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its exceptions have no common class but this
        raise RecordError(f"ONNX Runtime cannot run the network: {' '.join(str(error).split())}") from None


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def _check_external(named: Sequence[tuple[str, str]], path: Path, external: Collection[Path]) -> list[Path]:
    """The files that a model names as weights. It may name any file beside it, and is refused those that are
    neither given for it nor called so."""
    allowed = {os.path.realpath(file) for file in external}
    for name, location in named:
        if (
            Path(location).suffix.lower() not in WEIGHTS
            and os.path.realpath(path.parent / location) not in allowed
        ):
            raise NetworkError(
                f"weights in another file: tensor {printable(name)} names {printable(location)!r}, which is not "
                f"called as weights are (*{', *'.join(WEIGHTS)}); --external-data FILE allows it"
            )
        if (file := path.parent / location).exists():  # what is missing, ONNX names
            check_size(file, limits.MODEL_BYTES)
    return [path.parent / location for _, location in named]


def _name(node: Any) -> str:
    return str(node.name or node.output[0])


def check_domains(model: Any) -> None:
    """Refuse operators that are neither ONNX's own nor rewritten as such.

    Raises:
        NetworkError: names them.
    """
    own = RUNTIME_OPERATORS | REWRITTEN | {(function.domain, function.name) for function in model.functions}
    wrong = [
        f"{_name(node)} ({':'.join(filter(None, (node.domain, node.op_type)))})"
        for node in model.graph.node
        if (node.domain, node.op_type) not in own
        and not (node.domain in OWN_DOMAINS and onnx.defs.has(node.op_type))
    ]
    if wrong:
        raise NetworkError(
            f"operators that are not taken, of ONNX {onnx.__version__} or beside it: {', '.join(wrong)}"
        )


def _sizes(item: Any) -> tuple[int | None, ...]:
    # Some exporters write -1 for a size that is open.
    sizes = item.type.tensor_type.shape.dim
    return tuple(size.dim_value if size.dim_value > 0 else None for size in sizes)


def _type(item: Any) -> str:
    kind = item.type.tensor_type.elem_type
    if not kind:
        raise NetworkError(f"input {item.name}: expected a tensor, found {item.type.WhichOneof('value')}")
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name)
