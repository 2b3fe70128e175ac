# SPDX-License-Identifier: BSD-2-Clause
"""Recording networks of other frameworks: converted to ncnn's files, and recorded as those are."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from host_tools.families.speed import speed_of
from host_tools.machine.boot import BOOT_TIMEOUT_S
from host_tools.machine.errors import RecordError
from host_tools.record.compiled import compilers
from host_tools.record.compiled.compilers import Compiler
from host_tools.record.differences import default_tolerance, relative_difference
from host_tools.record.fastest import fastest
from host_tools.record.inputs import INPUT_SEEDS, random_inputs
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn import pnnx
from host_tools.record.ncnn.network import record_network
from host_tools.record.ncnn.pnnx import Converted, Shape, UnconvertedError
from host_tools.record.preflight import NetworkError, preflight, refuse_without_ncnn
from host_tools.record.pytorch import program
from host_tools.record.pytorch.script import Taken, inputs_of
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from trace_format import limits
from trace_format.files import open_regular, read_file
from trace_format.trace import Trace

if TYPE_CHECKING:
    from host_tools.record.compiled.search import Step
    from host_tools.record.onnx_model import OnnxModel

NCNN, TINYGRAD = "ncnn", compilers.TINYGRAD.name
FASTEST = "fastest"
COMPILERS = ("auto", NCNN, *compilers.COMPILERS, FASTEST)


@dataclass(frozen=True)
class SearchFor:
    """What is asked of a search for faster kernels; fields as those of `compiled.search.Search`."""

    minutes: float
    rounds: int | None = None
    follow: Callable[[Sequence[Step]], None] | None = None
    cpu_gflops: float | None = None


def record_onnx(
    path: Path,
    shapes: Mapping[str, Shape],
    *,
    compiler: str = "auto",
    values: Mapping[str, NDArray[Any]] | None = None,
    constants: Mapping[str, NDArray[Any]] | None = None,
    tolerance: float | None = None,
    external: Collection[Path] = (),
    fp16: bool = False,
    search: SearchFor | None = None,
    **how: Any,
) -> Trace:
    """Record one inference of an ONNX file's network. Inputs and outputs keep the file's names.

    ncnn's kernels are for convolutional networks of float32 and take inputs that a caller can change in size; what
    ncnn does not run on the GPU, but for layers at the end, tinygrad compiles. With the compiler "ncnn" layers on
    the CPU may stand anywhere. "fastest" records by both and keeps what takes less time by the model.

    Args:
        path: the file; what it refers to lies beside it.
        shapes: of inputs, batch and all, where the file leaves them open.
        compiler: of COMPILERS.
        values: of inputs, for the recorded run; only what tinygrad compiles can be recorded with them.
        constants: values of inputs that the recording is not to have.
        tolerance: largest difference of what was converted to ONNX Runtime's result, both on the CPU (None: as
            `record_network`); and as for `record_network`.
        external: files beside it that may be weights, whatever they are called.
        search: look for faster kernels of what tinygrad compiles; "auto" is then "fastest", or tinygrad if there
            are values.
        fp16, how: as for `record_network`; of tinygrad's networks, not `fp16`.

    Raises:
        NetworkError: the file is not ONNX, or damaged; a shape is missing or another; what cannot be converted.
        RecordError: what was converted computes something else, or as `record_network`.
        OSError: the file cannot be read.
    """
    from host_tools.record import onnx_model  # needs packages that only ONNX files need

    model = onnx_model.read(path, external)
    if constants:
        model = onnx_model.with_constants(model, constants)
    return _record_model(
        path,
        model,
        shapes,
        compiler=compiler,
        values=values or {},
        tolerance=tolerance,
        fp16=fp16,
        search=search,
        **how,
    )


def _record_model(
    path: Path,
    model: OnnxModel,
    shapes: Mapping[str, Shape],
    *,
    compiler: str,
    values: Mapping[str, NDArray[Any]],
    tolerance: float | None,
    fp16: bool,
    search: SearchFor | None = None,
    **how: Any,
) -> Trace:
    """Record a network of ONNX's, by who takes it."""
    if search is not None and compiler not in (*compilers.COMPILERS, FASTEST):
        if compiler == NCNN:
            raise NetworkError(f"--search: ncnn's kernels are fixed; --compiler {TINYGRAD} or {FASTEST}")
        compiler = TINYGRAD if values else FASTEST
    if compiler == FASTEST:
        if values:
            raise NetworkError(f"--compiler {FASTEST} takes no --input: ncnn records with values of its own")

        def record(by: str) -> Trace:
            only = search if by == TINYGRAD else None
            return _record_model(
                path, model, shapes, compiler=by, values={}, tolerance=tolerance, fp16=fp16, search=only, **how
            )

        return fastest(record, (NCNN, TINYGRAD), how.get("gpu", DEFAULT_GPU))
    full = model.shapes(shapes)
    said = ""
    if compiler not in compilers.COMPILERS and not values:
        try:
            refuse_without_ncnn(how.get("gpu", DEFAULT_GPU))
            converted = _converted(path, model, full, tolerance, between=compiler == NCNN)
            return _recorded(path, converted, tolerance=tolerance, fp16=fp16, **how)
        except RecordError as error:
            if compiler == NCNN or fp16:
                raise
            said = f"{error}; and "
            LOG.info("not by ncnn: %s; compiling it with %s", error, TINYGRAD)
    if fp16:
        raise NetworkError("--fp16: compiled networks keep the precision that the file has")
    by = compilers.COMPILERS.get(compiler, compilers.TINYGRAD)
    try:
        return _compiled(path, model, full, by, values, tolerance, search, **how)
    except NetworkError as error:
        raise NetworkError(f"{said}{error}") from None


def _compiled(
    path: Path,
    model: OnnxModel,
    shapes: Mapping[str, Shape],
    by: Compiler,
    values: Mapping[str, NDArray[Any]],
    tolerance: float | None,
    search: SearchFor | None,
    **how: Any,
) -> Trace:
    from host_tools.record.compiled import network
    from host_tools.record.compiled.search import Search

    settings = None
    gpu = how.setdefault("gpu", DEFAULT_GPU)
    if search is not None:
        settings = Search(
            search.minutes,
            gpu,
            how.get("timeout", BOOT_TIMEOUT_S),
            how.get("snapshot", ""),
            search.rounds,
            search.follow,
            cpu_gflops=search.cpu_gflops,
        )
    wide = speed_of(gpu).loads_vectors
    compiled = network.compile_onnx(
        model, shapes, compiler=by, values=values, tolerance=tolerance, how=settings, wide=wide
    )
    return network.record_compiled(compiled, notes=_file_notes(path, by.version), **how)


def convert_onnx(
    path: Path, shapes: Mapping[str, Shape], *, tolerance: float | None = None, external: Collection[Path] = ()
) -> Converted:
    """The part of `record_onnx` before the recording, by ncnn."""
    from host_tools.record import onnx_model

    model = onnx_model.read(path, external)
    return _converted(path, model, model.shapes(shapes), tolerance)


def _converted(
    path: Path, model: OnnxModel, full: Mapping[str, Shape], tolerance: float | None, *, between: bool = True
) -> Converted:
    """The network as ncnn's; `between`: the CPU may compute layers between the GPU's jobs."""
    from host_tools.record import onnx_model

    for name, kind in model.types.items():
        if kind != "float32":
            raise NetworkError(f"input {name}: ncnn takes float32, found {kind}")
    inputs = random_inputs(full, INPUT_SEEDS[0])
    with phase("computing the network with ONNX Runtime"):
        expected = onnx_model.run(model, inputs)
    blobs = {f"in{at}": name for at, name in enumerate(full)}
    blobs |= {f"out{at}": name for at, name in enumerate(model.outputs)}
    try:
        converted = pnnx.convert(model.data, ".onnx", list(full.values()), blobs)
    except UnconvertedError as error:
        types = {layer.type for layer in error.layers} & model.operators.keys()
        nodes = ", ".join(f"{name} ({kind})" for kind in sorted(types) for name in model.operators[kind])
        raise NetworkError(
            f"{error}" + (f"; nodes of these types in the file: {nodes}" if nodes else "")
        ) from None
    # ncnn may crash on what follows otherwise
    checked = preflight(converted.param, converted.weights, converted.shapes)
    if checked.end.between.steps and not between:
        place = checked.end.between.steps[0].layer.place
        raise NetworkError(
            f"ncnn computes {place}, on the CPU, between others on the GPU ('--compiler ncnn' takes it)"
        )
    tolerance = default_tolerance((), checked.halves) if tolerance is None else tolerance
    found = _on_cpu(converted, dict(zip(converted.shapes, inputs.values(), strict=True)))
    for at, name in enumerate(model.outputs):
        blob = converted.names.get(f"out{at}", f"out{at}")
        value = found[blob]
        same = value.size == expected[name].size  # a batch dimension of 1 is all that ncnn's shape may lack
        difference = relative_difference(value.reshape(-1), expected[name].reshape(-1)) if same else float("inf")
        if not difference <= tolerance:
            raise RecordError(
                f"{path}: what {pnnx.VERSION} made of the network computes output {name} otherwise: it differs "
                f"from ONNX Runtime's result by {difference:.2e} of its largest value, tolerance {tolerance:.0e}"
            )
    return converted


def record_pytorch(
    path: Path,
    shapes: Mapping[str, Shape],
    *,
    compiler: str = "auto",
    values: Mapping[str, NDArray[Any]] | None = None,
    tolerance: float | None = None,
    fp16: bool = False,
    search: SearchFor | None = None,
    **how: Any,
) -> Trace:
    """Record one inference of a file of PyTorch's: a program of torch.export, or TorchScript.

    A program's inputs keep the names that forward has for them, its outputs are out0, out1, ..; TorchScript's
    inputs are in0, in1, .. The one becomes an ONNX network here (`record.pytorch`), the other is for ncnn only.

    Args:
        path: what `torch.export.save` or `torch.jit.save` wrote.
        shapes: of TorchScript, those of all inputs by name, batch and all; a program has them.
        compiler, values, tolerance, fp16, search, how: as for `record_onnx`.

    Raises:
        NetworkError: the file is neither, or damaged; shapes of other inputs; what cannot be converted.
        RecordError: as `record_onnx`.
        OSError: the file cannot be read.
    """
    if program.is_program(path):
        from host_tools.record.pytorch.convert import read_program  # needs packages, as ONNX files do

        return _record_model(
            path,
            read_program(path),
            shapes,
            compiler=compiler,
            values=values or {},
            tolerance=tolerance,
            fp16=fp16,
            search=search,
            **how,
        )
    if search is not None:
        raise NetworkError(f"--search is for {TINYGRAD}, which takes what torch.export.save writes")
    if compiler in (*compilers.COMPILERS, FASTEST) or values:
        raise NetworkError(f"TorchScript is for ncnn: {compiler} takes what torch.export.save writes")
    _check_shapes(_checked_torchscript(path), shapes)
    refuse_without_ncnn(how.get("gpu", DEFAULT_GPU))
    try:
        return _recorded(path, convert_pytorch(path, shapes), tolerance=tolerance, fp16=fp16, **how)
    except NetworkError as error:
        raise NetworkError(f"{error}; {TINYGRAD} may take it, from a file of torch.export.save") from None


def convert_pytorch(path: Path, shapes: Mapping[str, Shape]) -> Converted:
    """The part of `record_pytorch` before the recording, of TorchScript."""
    _check_shapes(None, shapes)
    model = read_file(path, limits.MODEL_BYTES)
    return pnnx.convert(model, ".pt", [shapes[f"in{at}"] for at in range(len(shapes))])


def _check_shapes(taken: Sequence[Taken] | None, shapes: Mapping[str, Shape]) -> None:
    """Whether each input has a shape. TorchScript files say which inputs there are, and no shapes of them.

    Args:
        taken: what forward takes; None: that is not known.
        shapes: what was given.
    """
    names = [f"in{at}" for at in range(len(shapes if taken is None else taken))]
    if sorted(shapes) == sorted(names):
        return
    found = ", ".join(shapes) or "none"
    if taken is None:
        raise NetworkError(f"inputs are called in0, in1, .. in the order of forward; found {found}")
    inputs = ", ".join(f"{one.name}: {one.type}" for one in taken)
    needed = " ".join(f"--shape {name}=..." for name in names) or "no --shape"
    raise NetworkError(
        f"forward takes ({inputs}), whose shapes TorchScript does not keep: expected {needed}, batch and all, "
        f"in this order; found {found}"
    )


def _checked_torchscript(path: Path) -> tuple[Taken, ...] | None:
    """What forward takes. TorchScript is a zip archive of code and data; PyTorch's other files lack the code."""
    try:
        with open_regular(path, limits.MODEL_BYTES) as file, zipfile.ZipFile(file) as archive:
            members = archive.namelist()
            content = sum(member.file_size for member in archive.infolist())
            limits.check("content of the archive in bytes", content, limits.MODEL_BYTES)
            damaged = archive.testzip()
            taken = inputs_of(archive) if not damaged else None
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise NetworkError(f"not a TorchScript file, or one that was cut off: {error}") from None
    if damaged:
        raise NetworkError(f"a damaged TorchScript file: {damaged} in it has another checksum")
    if not any(name.endswith("/constants.pkl") for name in members):
        raise NetworkError(
            "neither a program nor TorchScript: it has no code; "
            "torch.export.save(torch.export.export(net, inputs), FILE) writes one"
        )
    return taken


def _on_cpu(converted: Converted, inputs: Mapping[str, ncnn_cpu.Float32]) -> dict[str, ncnn_cpu.Float32]:
    with phase("computing what was converted"):
        shaped = {blob: np.reshape(value, converted.shapes[blob]) for blob, value in inputs.items()}
        return ncnn_cpu.run_files((converted.param, converted.weights), shaped)


def _recorded(path: Path, converted: Converted, **how: Any) -> Trace:
    trace = record_network(converted.param, converted.weights, converted.shapes, **how)
    return trace.with_(notes={**trace.notes, **_file_notes(path, pnnx.VERSION)})


def _file_notes(path: Path, converter: str) -> dict[str, Any]:
    """What a trace's notes say of the file, and of who made GPU code of it."""
    digest = hashlib.sha256(read_file(path, limits.MODEL_BYTES)).hexdigest()
    return {"model": {"file_sha256": digest, "converter": converter}}
