# SPDX-License-Identifier: BSD-2-Clause
"""Who records a file of PyTorch's: a program of torch.export, or TorchScript."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from host_tools.extras.pytorch import program
from host_tools.extras.pytorch.script import Taken, inputs_of
from host_tools.record.choosing import AUTO, NCNN, TINYGRAD, Asked, Choice, choose
from host_tools.record.inputs import check_values
from host_tools.record.ncnn import pnnx
from host_tools.record.ncnn.pnnx import Converted, Shape
from host_tools.record.other_files import HEAD_BYTES, instead
from host_tools.record.preflight import NetworkError, preflight, refuse_without_ncnn
from host_tools.record.ways import ByNcnn, for_ncnn
from trace_format import limits
from trace_format.files import open_regular, read_file


def choose_pytorch(path: Path, shapes: Mapping[str, Shape], **asked: Any) -> Choice:
    """Who records a file of PyTorch's: a program of torch.export, or TorchScript.

    A program's inputs keep the names that forward has for them, its outputs are out0, out1, ..; TorchScript's
    inputs are in0, in1, .. The one becomes an ONNX network here (`convert`), the other is for ncnn only.

    Args:
        path: what `torch.export.save` or `torch.jit.save` wrote.
        shapes: of TorchScript, those of all inputs by name, batch and all; a program has them.
        asked: as `Asked`.

    Raises:
        NetworkError: the file is neither, or damaged; shapes of other inputs; what cannot be converted.
        RecordError: as `choose`.
        OSError: the file cannot be read.
    """
    if program.is_program(path):
        from host_tools.extras.pytorch.convert import read_program  # needs packages, as ONNX files do

        return choose(path, read_program(path), shapes, Asked(**asked))
    what = Asked(**asked)
    if what.kernels is not None:
        raise NetworkError(f"{what.kernels.option} is for {TINYGRAD}, which takes what torch.export.save writes")
    if what.compiler not in (AUTO, NCNN):
        raise NetworkError(f"TorchScript is for ncnn: {what.compiler} takes what torch.export.save writes")
    _check_shapes(_checked_torchscript(path), shapes)
    check_values(what.values or {}, shapes)
    refuse_without_ncnn(what.gpu)
    try:
        files = convert_pytorch(path, shapes)
        checked = preflight(files.param, files.weights, files.shapes)
    except NetworkError as error:
        raise NetworkError(f"{error}; {TINYGRAD} may take it, from a file of torch.export.save") from None
    way = ByNcnn(path, files, checked, what.tolerance, what.fp16, for_ncnn(what.values or {}, shapes, files))
    return Choice(NCNN, "TorchScript is for ncnn", (way,), what)


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
        with open_regular(path, limits.MODEL_BYTES) as file:
            other = instead(file.read(HEAD_BYTES))
        raise NetworkError(f"not a TorchScript file, or one that was cut off: {error}{other}") from None
    if damaged:
        raise NetworkError(f"a damaged TorchScript file: {damaged} in it has another checksum")
    if not any(name.endswith("/constants.pkl") for name in members):
        raise NetworkError(
            "neither a program nor TorchScript: it has no code; "
            "torch.export.save(torch.export.export(net, inputs), FILE) writes one"
        )
    return taken
