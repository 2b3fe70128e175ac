# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone check`: what `record` will do with a network, before it does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.record_models import COMPILER, CONSTANTS, EXTERNAL, SHAPES, VALUES, arrays
from host_tools.commands.record_options import FP16, GPU, TOLERANCE, check_network
from host_tools.support.results import Count, Result


class InputFacts(Result):
    """An input.

    Attributes:
        dtype: As the recording has it: of at most 32 bits.
        shape: As the recording has it: by ncnn without the batch.
    """

    dtype: str
    shape: tuple[int, ...]


class Checked(Result):
    """What a recording will be.

    Attributes:
        compiler: ncnn, tinygrad, or fastest, which records by both.
        why: Why it is that one.
        jobs: Of the GPU, in one inference; by fastest, those of tinygrad.
        constant_bytes: Weights and other constants, most of the recording's size.
        secure_bytes: Memory that a device needs, about; by ncnn known after `build` only.
        seconds: Until the recording is there, about, if this machine stays as busy as it is.
        missing: Programs that this machine lacks, by the names of their packages.
    """

    compiler: str
    why: str
    inputs: dict[str, InputFacts]
    jobs: Count | None
    constant_bytes: Count
    secure_bytes: Count | None
    seconds: Count | None
    missing: list[str]


@click.command("check", cls=GramophoneCommand, example="gramophone check net.onnx --shape x=1x3x224x224")
@click.argument("model", type=FILE)
@click.argument("weights", type=FILE, required=False)
@SHAPES
@EXTERNAL
@COMPILER
@VALUES
@CONSTANTS
@GPU
@FP16
@TOLERANCE
def check_command(
    model: Path,
    weights: Path | None,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    external: tuple[Path, ...],
    compiler: str,
    values: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, str], ...],
    gpu: str,
    fp16: bool,
    tolerance: float | None,
) -> Outcome[Checked]:
    """Say how a network will be recorded, before it is.

    MODEL is an ONNX file, a file that an extra records (.pt2, .pt, .tflite), or ncnn's .param with its .bin as
    WEIGHTS. The command compiles the network, which `record` then need not do again, but boots nothing. Exit
    status 1: programs are missing, and all are named. The command refuses what `record` refuses, in the same
    words, with status 2.
    """
    from host_tools.api.calls import foreseen
    from host_tools.record.foreseen import slowness

    check_network(shapes, tolerance)
    given, fixed = arrays(values), arrays(constants)
    if len(given | fixed) != len(values) + len(constants):
        raise UsageError("--input, --constant: a name is given twice")
    asked: dict[str, Any] = {"compiler": compiler, "values": given, "constants": fixed, "external": external}
    asked = {name: value for name, value in asked.items() if value and value != "auto"}
    how, why, found, lacking = foreseen(
        model, weights, dict(shapes), gpu=gpu, fp16=fp16, tolerance=tolerance, **asked
    )
    data = Checked(
        compiler=how,
        why=why,
        inputs={name: InputFacts(*of) for name, of in found.inputs.items()},
        jobs=found.jobs,
        constant_bytes=found.constant_bytes,
        secure_bytes=found.secure_bytes,
        seconds=None if found.seconds is None else round(found.seconds * slowness()),
        missing=[need.package for need in lacking],
    )
    lines = [f"compiler         {how}: {why}"]
    lines += [
        f"{'input':16} {name} {row.dtype}[{', '.join(map(str, row.shape))}]" for name, row in data.inputs.items()
    ]
    lines += [
        f"jobs             {'not known without lavapipe' if data.jobs is None else data.jobs}",
        f"constants        {_megabytes(data.constant_bytes)}",
        f"secure memory    {_megabytes(data.secure_bytes)}",
        f"recording takes  {_minutes(data.seconds)}",
    ]
    if lacking:
        from host_tools.record.needs import told

        lines.append(f"missing          {told(lacking)}")
    return Outcome(data, "\n".join(lines), ok=not lacking)


def _megabytes(size: int | None) -> str:
    return "known after build" if size is None else f"about {size / 1e6:.2f} MB"


def _minutes(seconds: int | None) -> str:
    if seconds is None:
        return "not known without lavapipe"
    return f"about {seconds} s" if seconds < 90 else f"about {math.ceil(seconds / 60)} minutes"
