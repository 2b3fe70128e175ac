# SPDX-License-Identifier: BSD-2-Clause
"""Who takes a network: decided once, from the network's operators, before anything boots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from host_tools.machine.boot import BOOT_TIMEOUT_S
from host_tools.machine.errors import RecordError
from host_tools.model.noted_states import NOTE
from host_tools.record.compiled import compilers
from host_tools.record.compiled.compilers import Kernels
from host_tools.record.fastest import chip_with_times, fastest
from host_tools.record.inputs import check_values
from host_tools.record.needs import require
from host_tools.record.preflight import NetworkError, refuse_without_ncnn
from host_tools.record.ways import ByCompiler, ByNcnn, Way, converted
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.messages import LOG
from trace_format.trace import Trace

if TYPE_CHECKING:
    from host_tools.record.ncnn.pnnx import Shape
    from host_tools.record.onnx_model import OnnxModel

TINYGRAD = compilers.TINYGRAD.name
AUTO, NCNN, FASTEST, COMPILERS = compilers.AUTO, compilers.NCNN, compilers.FASTEST, compilers.CHOICES


@dataclass(frozen=True)
class Asked:
    """What a caller asks of a network's recording.

    Attributes:
        compiler: of COMPILERS.
        values: of inputs, for the recorded run; the others are random.
        tolerance, fp16: as for `record_network`.
        kernels: who chooses kernels of what a compiler compiles; "auto" is then "fastest".
        gpu, timeout, snapshot: as for `record_network`.
    """

    compiler: str = AUTO
    values: Mapping[str, NDArray[Any]] | None = None
    tolerance: float | None = None
    fp16: bool = False
    kernels: Kernels | None = None
    gpu: str = DEFAULT_GPU
    timeout: float = BOOT_TIMEOUT_S
    snapshot: str = ""


@dataclass(frozen=True)
class Choice:
    """Who records a network.

    Attributes:
        how: NCNN, the name of a compiler, or FASTEST.
        why: a sentence.
        ways: one; of several the recording is kept that takes less time.
        asked: what was asked.
        states: input -> output with its next value, for `build` to keep as state; the network's file says so.
    """

    how: str
    why: str
    ways: tuple[Way, ...]
    asked: Asked
    states: Mapping[str, str] = field(default_factory=dict)

    def record(self, *, name: str, check: bool = True, expected_to: Path | None = None) -> Trace:
        """Record; arguments as for `record_network`.

        Raises:
            RecordError: as `record_network`; programs are missing, all of which are named.
        """
        LOG.info("by %s: %s", self.how, self.why)
        require(*(need for way in self.ways for need in way.needs))
        trace = self._recorded(name=name, check=check, expected_to=expected_to)
        return trace.with_(notes={**trace.notes, NOTE: dict(self.states)}) if self.states else trace

    def _recorded(self, **how: Any) -> Trace:
        ways = {way.name: way for way in self.ways}
        asked = self.asked

        def record(by: str) -> Trace:
            return ways[by].record(gpu=asked.gpu, timeout=asked.timeout, snapshot=asked.snapshot, **how)

        if self.how == FASTEST:
            return fastest(record, tuple(ways), asked.gpu)
        try:
            return record(self.how)
        except RecordError as error:
            if self.how != NCNN or asked.compiler != AUTO or asked.fp16:
                raise
            kind = NetworkError if isinstance(error, NetworkError) else RecordError
            raise kind(f"{error}; '--compiler {TINYGRAD}' may take it") from error


def choose(path: Path, model: OnnxModel, shapes: Mapping[str, Shape], asked: Asked) -> Choice:
    """Decide who takes a network. It is converted for ncnn at most once, and a compiler is not asked.

    ncnn's kernels are for convolutional networks of float32 and take inputs that a caller can change in size; what
    ncnn does not run on the GPU, but for layers at the end, tinygrad compiles. With the compiler "ncnn" layers on
    the CPU may stand anywhere. "fastest" records by both and keeps what takes less time by the model.

    Args:
        path: the network's file.
        model: what is in it.
        shapes: of inputs, batch and all, where the file leaves them open.
        asked: what the caller asks.

    Raises:
        NetworkError: what is asked contradicts itself, or ncnn is asked for and does not take the network.
        RecordError: what was converted for ncnn computes something else.
    """
    full = model.shapes(shapes)
    check_values(asked.values or {}, full, model.types)
    compiler = _compiler(asked)

    def chosen(how: str, why: str, *ways: Way) -> Choice:
        return Choice(how, why, ways, asked)

    def by_ncnn() -> ByNcnn:
        refuse_without_ncnn(asked.gpu)
        files, checked, values = converted(path, model, full, asked.tolerance, asked.values or {})
        return ByNcnn(path, files, checked, asked.tolerance, asked.fp16, values)

    if compiler == NCNN:
        return chosen(NCNN, "it was asked for", by_ncnn())
    if asked.fp16:
        return chosen(NCNN, "it alone computes with weights of half precision", by_ncnn())
    by = compilers.COMPILERS.get(compiler, compilers.TINYGRAD)
    compiled = ByCompiler(path, model, full, by, asked.values or {}, asked.tolerance, asked.kernels)
    if compiler == by.name:
        return chosen(by.name, "it was asked for", compiled)
    try:
        other = by_ncnn()
    except RecordError as error:
        return chosen(by.name, f"ncnn does not take it: {error}", compiled)
    assert other.checked is not None
    end = other.checked.end
    if end.between.steps:
        place = end.between.steps[0].layer.place
        why = f"ncnn computes {place}, on the CPU, between others on the GPU ('--compiler ncnn' takes it)"
        return chosen(by.name, why, compiled)
    if compiler != FASTEST:
        return chosen(NCNN, "it runs all of the network on the GPU, but for layers at its end", other)
    if end.steps:
        why = "the time model does not know the layers that ncnn computes on the CPU"
        return chosen(by.name, why, compiled)
    return chosen(FASTEST, "both take it", compiled, other)


def _compiler(asked: Asked) -> str:
    """The compiler that is asked for, once the other options have said what they mean for it."""
    compiler = asked.compiler
    if asked.kernels is not None and compiler == NCNN:
        raise NetworkError(f"{asked.kernels.option}: ncnn's kernels are fixed; --compiler {TINYGRAD} or {FASTEST}")
    if asked.kernels is not None and compiler == AUTO:
        compiler = FASTEST
    if asked.fp16 and compiler in compilers.COMPILERS:
        raise NetworkError("--fp16: compiled networks keep the precision that the file has")
    if compiler == FASTEST:
        chip_with_times(asked.gpu)
    return compiler
