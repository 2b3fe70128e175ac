# SPDX-License-Identifier: BSD-2-Clause
"""tinygrad as a compiler: an ONNX file whose shapes are fixed becomes a `Plan`.

Run as a program, since tinygrad takes its settings when it is imported:
`python -m host_tools.record.compiled.schedule [--wide] MODEL.onnx PLAN`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# Tensors that the front end itself computes with (axes, sizes) are few: tinygrad's interpreter needs no compiler.
os.environ["DEV"] = "PYTHON"
os.environ["PARALLEL"] = "0"  # it starts no processes
os.environ["CACHELEVEL"] = "0"  # nothing of its own is kept between networks
os.environ["NO_MEMORY_PLANNER"] = "1"  # layout.py plans memory, once constants have been prepared

from tinygrad import Tensor, dtypes
from tinygrad.codegen import to_program
from tinygrad.codegen.opt import heuristic
from tinygrad.engine.realize import get_call_arg_uops
from tinygrad.helpers import Context
from tinygrad.nn.onnx import Domain, OnnxRunner, OpSetId, onnx_ops, required_input_python_consts
from tinygrad.uop.ops import Ops, UOp, buffers

from host_tools.record.compiled import (
    exponentials,
    grams,
    grouped,
    lookup,
    loops,
    recurrent,
    resized,
    rounding,
    sampled,
    scan,
    spectrum,
    training,
)
from host_tools.record.compiled.compilers import program_of
from host_tools.record.compiled.glsl import MAX_BINDINGS, Glsl
from host_tools.record.compiled.operators import OPERATORS
from host_tools.record.compiled.pieces import settled
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from host_tools.record.compiled.refusals import saying_where, saying_which
from host_tools.record.compiled.unrolling import within_registers
from host_tools.record.rewriting.eight_bits import ROUNDING
from host_tools.record.rewriting.table import TABLE

REDUCTIONS = (
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceL2",
)

heuristic.hand_coded_optimizations = within_registers(heuristic.hand_coded_optimizations)


def front_end(model: Path, more: Mapping[str, Any] | None = None) -> OnnxRunner:
    """tinygrad's reader of an ONNX file, with our operators in place of its own, and more in place of ours."""
    runner = OnnxRunner(model)
    runner.onnx_ops = {**operators(runner), **(more or {})}
    return runner


def operators(runner: OnnxRunner) -> dict[str, Any]:
    """tinygrad's operators of ONNX by name, and ours."""
    found = {
        **onnx_ops,
        **OPERATORS,
        "LogSoftmax": exponentials.log_softmax,
        "Softmax": {
            OpSetId(Domain.ONNX, 1): exponentials.softmax_1,
            OpSetId(Domain.ONNX, 13): exponentials.softmax,
        },
        **grams.OPERATORS,
        **grouped.OPERATORS,
        **lookup.OPERATORS,
        **resized.OPERATORS,
        **rounding.OPERATORS,
        **sampled.OPERATORS,
        **spectrum.OPERATORS,
        **training.OPERATORS,
        "DynamicQuantizeLSTM": recurrent.quantized_lstm,
        **scan.within(runner),
    }
    return found | {name: loops.apart(found[name]) for name in REDUCTIONS}


def operator_names() -> list[str]:
    """Names of all that there are: no file is read, as they only keep the reader that they are given."""
    own = operators(OnnxRunner.__new__(OnnxRunner)).keys() - lookup.OPERATORS.keys()
    return sorted(own.union(*TABLE.values()))


def compiled(
    model: Path,
    *,
    wide: bool = False,
    more: Mapping[str, Any] | None = None,
    program: Callable[[UOp, int], UOp] | None = None,
) -> Plan:
    """The plan of a network.

    Args:
        model: an ONNX file with weights inside and shapes fixed.
        wide: kernels load and store vectors (`Family.loads_vectors`).
        more: operators in place of ours.
        program: makes the kernel of the plan's call with a number; None: tinygrad does, as it optimises itself.

    Raises:
        NotImplementedError: what is not compiled, in words for users.
        Exception: of tinygrad's, where it is no node's and no kernel's.
    """
    runner = front_end(model, more)
    settings = {
        node.inputs[at]
        for node in runner.graph_nodes
        for at in required_input_python_consts.get(node.op, ())
        if at < len(node.inputs)
    }
    for name, value in runner.graph_values.items():
        # tinygrad reads settings, and whole numbers that are indices: by a C compiler unless they have memory.
        read = isinstance(value, Tensor) and (name in settings or dtypes.is_int(value.dtype))
        if read and value.uop.device is None:
            runner.graph_values[name] = value.clone(os.environ["DEV"])
    weights = [value for value in runner.graph_values.values() if isinstance(value, Tensor)]
    weights += [value for node in runner.graph_nodes for value in node.opts.values() if isinstance(value, Tensor)]
    if weights:
        weights[0].realize(*weights[1:])
    inputs = {
        name: Tensor.zeros(*spec.shape, dtype=spec.dtype).contiguous().realize()
        for name, spec in runner.graph_inputs.items()
    }
    with Context(MAX_KERNEL_BUFFERS=MAX_BINDINGS), saying_where(runner, model), settled() as linear:
        left = runner(inputs)
    # A copy of its own for each: an output may be an input, a constant, or another output.
    outputs = {name: left[name].clone() for name in runner.graph_outputs}
    if without := [name for name, tensor in outputs.items() if 0 in tensor.shape]:
        raise NotImplementedError(f"output {without[0]} has no elements")
    with Context(MAX_KERNEL_BUFFERS=MAX_BINDINGS):
        first, *others = outputs.values()
        linear += first.schedule_linear(*others).src
        held = _rounded(runner)
        return _plan(linear, inputs, outputs, held, program or partial(_program, renderer=Glsl(wide)))


def _rounded(runner: OnnxRunner) -> dict[str, Tensor]:
    """What was rounded to 8 bits and lies in memory as the network has it, by name."""
    names = (name for node in runner.graph_nodes if node.op in ROUNDING for name in node.outputs if name)
    values = {name: runner.graph_values[name] for name in names}
    return {
        name: value
        for name, value in values.items()
        if value.uop.has_buffer_identity() and not _is_known(value.uop.base)
    }


def _is_known(base: UOp) -> bool:
    """Whether a buffer's content is there before anything runs."""
    held = buffers.get(base)
    return held is not None and held.is_allocated()


def _program(ast: UOp, _: int, renderer: Glsl) -> UOp:
    return to_program(ast, renderer)


def _plan(
    linear: Sequence[UOp],
    inputs: dict[str, Tensor],
    outputs: dict[str, Tensor],
    held: dict[str, Tensor],
    program_of_call: Callable[[UOp, int], UOp],
) -> Plan:
    named = {tensor.uop.base: (Kind.WORK, name, tensor) for name, tensor in held.items()}
    named |= {tensor.uop.base: (Kind.INPUT, name, tensor) for name, tensor in inputs.items()}
    named |= {tensor.uop.base: (Kind.OUTPUT, name, tensor) for name, tensor in outputs.items()}
    numbers: dict[UOp, int] = {}
    kernels: dict[str, int] = {}
    calls: list[Call] = []

    def view(argument: UOp) -> View:
        whole = argument.contiguous_view()
        base, offset = whole if whole is not None else (argument, 0)
        at = numbers.setdefault(base, len(numbers))
        return View(at, offset * base.dtype.itemsize, argument.max_numel() * argument.dtype.itemsize)

    for item in linear:
        if item.src[0].op is not Ops.SINK:
            raise NotImplementedError(f"{item.src[0].op.name.lower()} between kernels")
        with saying_which(len(calls), len(linear)):
            program = program_of_call(item.src[0], len(calls))
        source = next(str(part.arg) for part in program.src if part.op is Ops.SOURCE)
        rounds = loops.rounds(next(part.src for part in program.src if part.op is Ops.LINEAR))
        if rounds > loops.JUDGED:
            name = plain_name(program.arg.name)
            raise NotImplementedError(f"kernel {name} goes round loops {rounds} times, lavapipe {loops.JUDGED}")
        info = program.arg
        if info.vars:
            raise NotImplementedError("sizes that are known when it runs only")
        arguments = get_call_arg_uops(item)
        x, y, z = (*(int(size) for size in info.global_size), 1, 1)[:3]
        views = tuple(view(arguments[at]) for at in info.globals)
        writes = tuple(sorted(info.globals.index(at) for at in info.outs))
        calls.append(
            Call(kernels.setdefault(source, len(kernels)), (x, y, z), views, writes, plain_name(info.name))
        )
    # It cuts kernels with more buffers than it is told, but not at each operator.
    if (most := max((len(call.views) for call in calls), default=0)) > MAX_BINDINGS:
        raise NotImplementedError(f"a kernel with {most} buffers, where the driver has {MAX_BINDINGS}")
    for base in (tensor.uop.base for tensor in (*inputs.values(), *outputs.values())):  # an input may be unread
        numbers.setdefault(base, len(numbers))
    return Plan([_buffer(base, named.get(base)) for base in numbers], list(kernels), calls)


def plain_name(name: str) -> str:
    """A kernel's name without the colours that terminals are told."""
    return "".join(part.split("m", 1)[-1] if at else part for at, part in enumerate(name.split("\x1b[")))


def _buffer(base: UOp, known: Any) -> Buffer:
    size = base.max_numel() * base.dtype.itemsize
    if known is not None:
        kind, name, tensor = known
        return Buffer(kind, size, b"", name, numpy_name(tensor.dtype), tuple(map(int, tensor.shape)))
    if _is_known(base):
        return Buffer(Kind.CONSTANT, size, bytes(buffers[base].as_memoryview()))
    return Buffer(Kind.WORK, size)


def numpy_name(of: Any) -> str:
    """NumPy's name of an element type."""
    dtype = "bool" if of == dtypes.bool else str(of).removeprefix("dtypes.")
    numpy = {"float": "float32", "half": "float16", "int": "int32", "long": "int64", "double": "float64"}
    unsigned = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "uint": "uint32"}
    return (numpy | unsigned).get(dtype, dtype)


if __name__ == "__main__":
    sys.exit(program_of(compiled))
