# SPDX-License-Identifier: BSD-2-Clause
"""The ways to record a network: as ncnn's files, which pnnx makes of it, or as what a compiler makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from host_tools.families.speed import speed_of
from host_tools.machine.errors import RecordError
from host_tools.record.compiled.compilers import NCNN, Compiler, Kernels
from host_tools.record.differences import relative_difference
from host_tools.record.foreseen import Foreseen, by_ncnn, of_plan
from host_tools.record.inputs import INPUT_SEEDS, random_inputs
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn import dispatches, pnnx
from host_tools.record.ncnn.network import program_options, record_network
from host_tools.record.ncnn.pnnx import Converted, Shape, UnconvertedError
from host_tools.record.needs import BY_COMPILER, BY_NCNN, Need
from host_tools.record.preflight import Checked, NetworkError, preflight
from host_tools.record.tolerances import default_tolerance
from host_tools.support.progress import phase
from trace_format import limits
from trace_format.errors import listed
from trace_format.files import read_file
from trace_format.trace import Trace

if TYPE_CHECKING:
    from host_tools.record.onnx_model import OnnxModel


class Way(Protocol):
    """A way to record one network."""

    @property
    def name(self) -> str:
        """Who makes GPU code of it."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Programs that it needs."""

    def foreseen(self, gpu: str) -> Foreseen:
        """What recording it will be. Raises as `record`, where that is known before anything boots."""

    def record(self, *, gpu: str, timeout: float, snapshot: str, **how: Any) -> Trace:
        """Record it; arguments as for `record_network`, without those that the way has."""


@dataclass(frozen=True)
class ByNcnn:
    """A network that was converted to ncnn's files, which compute what they should.

    Attributes:
        path: its own file.
        converted: ncnn's files.
        checked: what ncnn says of them; None: it was not asked yet.
        tolerance, fp16, values: as for `record_network`.
    """

    path: Path
    converted: Converted
    checked: Checked | None
    tolerance: float | None
    fp16: bool
    values: Mapping[str, NDArray[np.float32]]

    name = NCNN
    needs = BY_NCNN

    def foreseen(self, gpu: str) -> Foreseen:
        """As `Way`."""
        files = self.converted
        checked = self.checked or preflight(files.param, files.weights, files.shapes)
        return foreseen_ncnn(files.param, checked, files.shapes, self.fp16)

    def record(self, **how: Any) -> Trace:
        """As `Way`."""
        files = self.converted
        trace = record_network(
            files.param,
            files.weights,
            files.shapes,
            checked=self.checked,
            tolerance=self.tolerance,
            fp16=self.fp16,
            values=self.values,
            **how,
        )
        return trace.with_(notes={**trace.notes, **_file_notes(self.path, pnnx.VERSION)})


@dataclass(frozen=True)
class ByCompiler:
    """A network that a compiler is asked to compile when it is recorded.

    Attributes:
        path: its file.
        model: what is in it.
        shapes: of all inputs.
        compiler: who compiles it.
        values: of inputs, for the recorded run.
        tolerance: as `compile_onnx`.
        kernels: who chooses kernels; None: the compiler.
    """

    path: Path
    model: OnnxModel
    shapes: Mapping[str, Shape]
    compiler: Compiler
    values: Mapping[str, NDArray[Any]]
    tolerance: float | None
    kernels: Kernels | None

    @property
    def name(self) -> str:
        """As `Way`."""
        return self.compiler.name

    needs = BY_COMPILER

    def foreseen(self, gpu: str) -> Foreseen:
        """As `Way`: it is compiled, which recording then need not do again."""
        from host_tools.record.compiled import network, simplified
        from host_tools.record.compiled.plan import Kind

        _, data, _ = simplified.simplified(self.model, self.shapes)
        layout = network.foreseen(self.compiler.plan(data, wide=speed_of(gpu).loads_vectors), self.compiler.name)
        constants, *work = layout.sizes
        plan = layout.plan
        given = (plan.buffers[at] for at in plan.named(Kind.INPUT).values())
        inputs = {buffer.name: (buffer.dtype, buffer.shape) for buffer in given}
        return Foreseen(self.name, inputs, len(plan.calls), constants, sum(work), of_plan(plan))

    def record(self, *, gpu: str, timeout: float, snapshot: str, **how: Any) -> Trace:
        """As `Way`."""
        from host_tools.record.compiled import network

        wide = speed_of(gpu).loads_vectors
        where: dict[str, Any] = {"gpu": gpu, "timeout": timeout, "snapshot": snapshot}
        planned = partial(self.kernels.planned, self.compiler, wide=wide, **where) if self.kernels else None
        compiled = network.compile_onnx(
            self.model,
            self.shapes,
            compiler=self.compiler,
            values=self.values,
            tolerance=self.tolerance,
            planned=planned,
            wide=wide,
        )
        notes = _file_notes(self.path, self.compiler.version)
        return network.record_compiled(compiled, notes=notes, **where, **how)


def converted(
    path: Path,
    model: OnnxModel,
    shapes: Mapping[str, Shape],
    tolerance: float | None,
    values: Mapping[str, NDArray[Any]],
) -> tuple[Converted, Checked, dict[str, NDArray[np.float32]]]:
    """An ONNX network as ncnn's files, what ncnn says of them, and values by the names and shapes that these have.

    Args:
        path: its file.
        model: what is in it.
        shapes: of all inputs.
        tolerance: largest difference of what was converted to ONNX Runtime's result, both on the CPU; None: as
            `record_network`.
        values: of inputs; the others are random.

    Raises:
        NetworkError: an input is not of float32, or ncnn does not take a layer.
        RecordError: what was converted computes something else.
    """
    from host_tools.record import onnx_model

    for name, kind in model.types.items():
        if kind != "float32":
            raise NetworkError(f"input {name}: ncnn takes float32, found {kind}")
    inputs = random_inputs(shapes, INPUT_SEEDS[0])
    inputs |= values
    with phase("computing the network with ONNX Runtime"):
        expected = onnx_model.run(model, inputs)
    blobs = {f"in{at}": name for at, name in enumerate(shapes)}
    blobs |= {f"out{at}": name for at, name in enumerate(model.outputs)}
    try:
        files = pnnx.convert(model.data, ".onnx", list(shapes.values()), blobs)
    except UnconvertedError as error:
        types = {layer.type for layer in error.layers} & model.operators.keys()
        nodes = [f"{name} ({kind})" for kind in sorted(types) for name in model.operators[kind]]
        more = f"; nodes of these types in the file: {listed(nodes, pnnx.NAMED)}" if nodes else ""
        raise NetworkError(f"{error}{more}") from None
    checked = preflight(files.param, files.weights, files.shapes)  # ncnn may crash on what follows otherwise
    tolerance = default_tolerance((), checked.halves) if tolerance is None else tolerance
    with phase("computing what was converted"):
        given = for_ncnn(inputs, shapes, files)
        found = ncnn_cpu.run_files((files.param, files.weights), given)
    for at, name in enumerate(model.outputs):
        value = found[files.names.get(f"out{at}", f"out{at}")]
        same = value.size == expected[name].size  # a batch dimension of 1 is all that ncnn's shape may lack
        difference = relative_difference(value.reshape(-1), expected[name].reshape(-1)) if same else float("inf")
        if not difference <= tolerance:
            raise RecordError(
                f"{path}: what {pnnx.VERSION} made of the network computes output {name} otherwise: it differs "
                f"from ONNX Runtime's result by {difference:.2e} of its largest value, tolerance {tolerance:.0e}"
            )
    return files, checked, for_ncnn(values, shapes, files)


def foreseen_ncnn(param: bytes, checked: Checked, shapes: Mapping[str, Shape], fp16: bool = False) -> Foreseen:
    """What recording ncnn's files will be; arguments as for `record_network`."""
    weights = checked.weights
    options = program_options(weights, fp16)
    jobs, macs = dispatches.counted((param, weights.data), shapes, checked.end.asked, options)
    inputs = {name: ("float32", tuple(shape)) for name, shape in shapes.items()}
    seconds = None if jobs is None else by_ncnn(jobs, macs)
    return Foreseen(NCNN, inputs, jobs, len(weights.data), None, seconds)


def for_ncnn(
    values: Mapping[str, NDArray[Any]], shapes: Mapping[str, Shape], files: Converted
) -> dict[str, NDArray[np.float32]]:
    """Values of inputs by the names and in the shapes that these have in ncnn's files.

    Args:
        values: by the network's names.
        shapes: of the network's inputs, all of them in their order.
        files: what the network was converted to.
    """
    blobs = dict(zip(shapes, files.shapes, strict=True))
    return {
        blobs[name]: value.astype(np.float32).reshape(files.shapes[blobs[name]]) for name, value in values.items()
    }


def _file_notes(path: Path, converter: str) -> dict[str, Any]:
    """What a trace's notes say of the file, and of who made GPU code of it."""
    digest = hashlib.sha256(read_file(path, limits.MODEL_BYTES)).hexdigest()
    return {"model": {"file_sha256": digest, "converter": converter}}
