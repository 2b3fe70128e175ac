# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's own tests of its operators, a node or a few each: made, compiled, and their results judged.

What they are made by is `onnx.backend.test.case.node`, of the package `onnx`; nothing of them is kept here.
"""

from __future__ import annotations

import enum
import functools
import gc
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.compiled import network, runner, schedule, simplified
from host_tools.record.compiled.layout import Layout, PlanError
from host_tools.record.compiled.plan import Kind, Plan
from host_tools.record.preflight import NetworkError

# isort: split
from tinygrad import Tensor  # after schedule, which sets what it reads when it is imported
from tinygrad.nn.onnx import required_input_python_consts

TIME_S = 60  # of the processor, for one case
NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
READ = {
    **required_input_python_consts,
    "Col2Im": (1, 2),
    "CumProd": (1,),
    "DFT": (1, 2),
    "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
}  # inputs that decide shapes
SHAPES_ONLY = ("Shape", "Size")  # operators whose results do not depend on values
# Operators whose kernels take seconds to compile, up to half a minute.
SLOW = {"Attention", "FlexAttention", "GRU", "GridSample", "LSTM", "LinearAttention", "RNN", "Scan"}
Tensors = dict[str, NDArray[Any]]
T = TypeVar("T")


class Why(enum.Enum):
    """What came of a case, in words."""

    PASSED = "passed"
    OPERATOR = "operator that tinygrad has not"
    COMPILER = "the compiler refuses it"
    PLAN = "the plan cannot be run"
    TIME = f"more than {TIME_S} s, or a crash"
    RANGE = "values that have no 32 bits"
    WRONG = "wrong result"


@dataclass(frozen=True)
class NodeCase:
    """A test: its model, with the inputs that say shapes or axes as constants, and what it is to compute.

    Attributes:
        name: ONNX's.
        model: the ONNX file.
        inputs, outputs: values by name.
        rtol, atol: ONNX's tolerance for this case, as NumPy's assert_allclose has it.
    """

    name: str
    model: bytes
    inputs: Tensors
    outputs: Tensors
    rtol: float
    atol: float

    def problem(self, found: Mapping[str, NDArray[Any]]) -> str:
        """What is wrong with a result; empty: nothing. Of types only the values count: slots have 32 bits."""
        for name, expected in self.outputs.items():
            value = found[name]
            if value.size != expected.size:
                return f"{name}: expected shape {expected.shape}, found {value.shape}"
            if expected.dtype.kind != "f":
                value, rtol, atol = value.astype(expected.dtype), 0.0, 0.0
            else:
                rtol, atol = self.rtol, self.atol
            value = value.reshape(expected.shape)
            if not np.allclose(value, expected, rtol, atol, equal_nan=expected.dtype.kind == "f"):
                with np.errstate(all="ignore"):
                    worst = np.nanmax(np.abs(value.astype(np.float64) - expected.astype(np.float64)))
                return f"{name}: differs by up to {worst:.3g}"
        return ""


@functools.cache
def collect() -> tuple[list[NodeCase], list[str]]:
    """Make ONNX's cases: those whose inputs and outputs are numbers, and the names of the others."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = sorted(collect_testcases(None), key=lambda case: str(case.name))
    cases, others = [], []
    for case in made:
        if (found := _numeric(case)) is None:
            others.append(str(case.name))
        else:
            cases.append(found)
    return cases, others


def _numeric(case: Any) -> NodeCase | None:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    given, expected = case.data_sets[0]
    graph = model.graph
    values = {item.name: _array(value) for item, value in zip(graph.input, given, strict=False)}
    results = {item.name: _array(value) for item, value in zip(graph.output, expected, strict=False)}
    tensors = [item.type.HasField("tensor_type") for item in (*graph.input, *graph.output)]
    arrays = [*values.values(), *results.values()]
    if not all(tensors) or any(array is None or array.dtype.name not in NUMBERS for array in arrays):
        return None
    constant = _read_as_constants(graph)
    inputs = [item for item in graph.input if item.name not in constant]
    graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in sorted(constant))
    del graph.input[:]
    graph.input.extend(inputs)
    kept = {item.name: values[item.name] for item in inputs}
    return NodeCase(case.name, model.SerializeToString(), kept, results, float(case.rtol), float(case.atol))  # type: ignore[arg-type]


def _array(value: Any) -> NDArray[Any] | None:
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None


def _read_as_constants(graph: Any) -> set[str]:
    """Inputs whose values decide shapes: a compiler of one static schedule takes them when it compiles."""
    wanted = _decide(graph.node, set())
    return {item.name for item in graph.input if item.name in wanted}


def _decide(nodes: Sequence[Any], wanted: set[str]) -> set[str]:
    """Names whose values decide shapes, and those that wanted ones follow from; in branches and bodies, too."""
    for node in reversed(nodes):
        if wanted & set(node.output) and node.op_type not in SHAPES_ONLY:
            wanted |= _read_by(node)
        places = READ.get(node.op_type, ())
        wanted |= {name for at, name in enumerate(node.input) if at in places}
        for attribute in node.attribute:
            wanted |= _decide(attribute.g.node, wanted)
    return wanted


def _read_by(node: Any) -> set[str]:
    """Names that a node reads, those in its branches and bodies among them."""
    inner = [item for attribute in node.attribute for item in attribute.g.node]
    return set(node.input).union(*map(_read_by, inner))


def effort(case: NodeCase) -> tuple[bool, int]:
    """For sorting: cases that compile in a moment come first."""
    wide = {np.dtype(np.int64), np.dtype(np.uint64)} & {value.dtype for value in case.inputs.values()}
    nodes = onnx.load_model_from_string(case.model).graph.node
    return bool(SLOW & {node.op_type for node in nodes}), len(nodes) + 2 * len(wide)


@dataclass(frozen=True)
class Prepared:
    """A case that is ready to run: the plan with its places, and SPIR-V of its kernels."""

    case: NodeCase
    layout: Layout
    shaders: list[bytes]
    inputs: Tensors


def prepared(case: NodeCase, wide: bool = False) -> Prepared | tuple[Why, str]:
    """Compile a case, with vectors if `wide`; what fails is said why, and in the words of what failed."""
    try:
        with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
            plan = schedule.compiled(_simplified(case, folder), wide=wide)
        inputs = _narrowed(case, plan)
        if inputs is None:
            return Why.RANGE, "an input"
        layout, shaders = network.ready(plan)
    except (PlanError, RecordError) as error:
        return Why.PLAN, str(error)
    except Exception as error:  # whatever a front end raises for what it does not know
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    else:
        return Prepared(case, layout, shaders, inputs)
    return (Why.OPERATOR if "is not supported" in text else Why.COMPILER), text


def _narrowed(case: NodeCase, plan: Plan) -> Tensors | None:
    """Inputs as the plan's slots have them; None: one has values that do not fit."""
    found: Tensors = {}
    for name, at in plan.named(Kind.INPUT).items():
        with np.errstate(all="ignore"):
            found[name] = case.inputs[name].astype(plan.buffers[at].dtype)
        if case.inputs[name].dtype.kind in "iu" and not np.array_equal(found[name], case.inputs[name]):
            return None
    return found


def _simplified(case: NodeCase, folder: str) -> Path:
    """The case's file as the front end gets it; by ONNX Runtime if that knows it, as `record onnx` demands."""
    path = Path(folder) / "model.onnx"
    path.write_bytes(case.model)
    shapes = {name: value.shape for name, value in case.inputs.items()}
    try:
        data = simplified.simplified(onnx_model.read(path), shapes)[1]
    except NetworkError:
        data = simplified.for_compiler(simplified.fixed(case.model, shapes))
    path.write_bytes(data)
    return path


def interpreted(case: NodeCase) -> tuple[Why, str]:
    """The same by tinygrad's own interpreter, whose operators are those of Python."""
    try:
        with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
            front = schedule.front_end(_simplified(case, folder))
        given = {name: Tensor(case.inputs[name], dtype=of.dtype) for name, of in front.graph_inputs.items()}
        left = front(given)
        return judged(case, {name: left[name].numpy() for name in case.outputs})
    except Exception as error:
        return Why.COMPILER, f"{type(error).__name__}: {' '.join(str(error).split())}"


def on_lavapipe(ready: Prepared) -> tuple[Why, str]:
    """Run a case on this machine and judge its result."""
    try:
        found = runner.judged(ready.layout, ready.shaders, ready.inputs)
    except RecordError as error:
        return Why.PLAN, str(error)
    return judged(ready.case, found)


def judged(case: NodeCase, found: Mapping[str, NDArray[Any]]) -> tuple[Why, str]:
    """Whether a case's results are right; wrong ones that have no 32 bits are told apart."""
    said = case.problem(found)
    if not said:
        return Why.PASSED, ""
    wide = [value for value in case.outputs.values() if value.dtype in (np.int64, np.uint64)]
    lost = any(np.any(value.astype(np.int64) != value.astype(np.int64).astype(np.int32)) for value in wide)
    return (Why.RANGE if lost else Why.WRONG), said


def run(case: NodeCase, wide: bool = False) -> tuple[Why, str]:
    """Compile a case, to kernels with vectors if `wide`, and run it on lavapipe."""
    ready = prepared(case, wide)
    return on_lavapipe(ready) if isinstance(ready, Prepared) else ready


def apart(work: Callable[[NodeCase], T], case: NodeCase) -> T | tuple[Why, str]:
    """What `work` makes of a case in a process of its own, within `TIME_S`: a crash ends no other case."""
    context = multiprocessing.get_context("fork")
    gc.freeze()  # what all processes share need not be looked at by each
    answer, said = context.Pipe(duplex=False)
    process = context.Process(target=lambda: said.send(work(case)))
    process.start()
    said.close()
    try:
        if not answer.poll(TIME_S):
            return Why.TIME, f"more than {TIME_S} s"
        return answer.recv()  # type: ignore[no-any-return]
    except EOFError:
        process.join()
        return Why.TIME, f"ended with status {process.exitcode}"
    finally:
        process.kill()
        process.join()
        answer.close()
