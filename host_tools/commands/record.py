# SPDX-License-Identifier: BSD-2-Clause
"""Commands that record: `record ncnn`, `... run`, `... self-test`, `... pi-kit` and `... pi`."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.api.recording import ncnn_files, recorded_ncnn, told
from host_tools.commands.facts import NAME
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, UsageError, say
from host_tools.commands.if_changed import recording
from host_tools.commands.option_rules import requires
from host_tools.commands.record_options import (
    CHECK,
    FP16,
    GPU,
    SHAPES,
    SNAPSHOT,
    TIMEOUT,
    TOLERANCE,
    Recorded,
    check_network,
    written,
)
from host_tools.commands.streams import OUTPUT, check_output, write
from host_tools.machine.snapshot import timestamp
from host_tools.model.facts import default_name
from host_tools.record import self_test
from host_tools.record.board.kit import kit, packed
from host_tools.record.board.result import board_trace
from host_tools.record.program import GuestProgram, record_program
from host_tools.support.results import Count, Result
from trace_format.files import open_regular


@click.command(
    "ncnn",
    cls=GramophoneCommand,
    example="gramophone record ncnn lenet.param lenet.bin --shape data=1x28x28 -o lenet.raw.gtr",
)
@click.argument("param", type=FILE)
@click.argument("weights", type=FILE)
@SHAPES
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: PARAM's name.")
@click.option(
    "--until",
    multiple=True,
    metavar="BLOB",
    help="Stop after this blob, in place of all outputs: what comes after may need a CPU. Repeatable.",
)
@GPU
@FP16
@TOLERANCE
@CHECK
@TIMEOUT
@SNAPSHOT
@recording()
def record_ncnn(
    param: Path,
    weights: Path,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    output: Path,
    name: str | None,
    until: tuple[str, ...],
    gpu: str,
    fp16: bool,
    tolerance: float | None,
    timeout: float,
    snapshot: str | None,
    check: bool,
) -> Outcome[Recorded]:
    """Record an ncnn network on Debian's unmodified GPU stack.

    The recording is of one inference, by Debian's kernel and Mesa and PyPI's ncnn. Three runs with different
    data show the inputs, outputs and parameters. Before the recording is written, it is built, replayed with
    another input, and compared with ncnn's CPU result.
    """
    stamp = timestamp(snapshot) if snapshot is not None else ""
    check_network(shapes, tolerance)
    check_output(output)
    trace = recorded_ncnn(
        param,
        weights,
        dict(shapes),
        name=name or default_name(param.stem),
        until=until,
        gpu=gpu,
        fp16=fp16,
        tolerance=tolerance,
        timeout=timeout,
        snapshot=stamp,
        check=check,
    )
    return written(trace, output, stamp)


@click.command(
    "run",
    cls=GramophoneCommand,
    example="gramophone record run --gpu v3d42 -o vadd.raw.gtr -- ./vadd vadd.spv 1000",
)
@GPU
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: PROGRAM's name.")
@click.option(
    "--file", "files", type=FILE, multiple=True, help="File, library or folder that the program needs; repeatable."
)
@click.option(
    "--env", "variables", type=Pair("NAME=VALUE"), multiple=True, help="Environment variable; repeatable."
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Debian package to install in the guest, with its dependencies; repeatable.",
)
@click.option(
    "--input",
    "inputs",
    type=Pair("SLOT=FILE"),
    multiple=True,
    help="File of float32 values that becomes an input slot; repeatable.",
)
@click.option(
    "--result",
    "results",
    type=Pair("SLOT=FILE"),
    multiple=True,
    help="File of float32 values that the program writes; becomes an output slot; repeatable.",
)
@CHECK
@TIMEOUT
@SNAPSHOT
@click.argument("program", type=FILE)
@click.argument("args", nargs=-1)
@recording()
@requires("--result", "--input")
def record_run(
    gpu: str,
    output: Path,
    name: str | None,
    files: tuple[Path, ...],
    variables: tuple[tuple[str, str], ...],
    packages: tuple[str, ...],
    inputs: tuple[tuple[str, str], ...],
    results: tuple[tuple[str, str], ...],
    timeout: float,
    snapshot: str | None,
    check: bool,
    program: Path,
    args: tuple[str, ...],
) -> Outcome[Recorded]:
    """Record an aarch64 program that uses the GPU.

    The kernel and Mesa are Debian's. The program runs in its own folder, with the files of --file and of its
    arguments. Its output goes to standard error. Its shared libraries come from the given files or from the
    guest's packages.

    With --input the program is recorded twice, with the files' values and with random values. Differences in GPU
    memory show the slots. Before the recording is written, a replay with the random values must give the
    program's results. Without --input, the recording has no slots.
    """
    stamp = timestamp(snapshot) if snapshot is not None else ""
    check_output(output)
    sources = {slot: Path(file) for slot, file in inputs}
    for path in (program, *files, *sources.values()):
        if not (path in files and path.is_dir()):
            open_regular(path).close()
    slots = [slot for slot, _ in (*inputs, *results)]
    if len(set(slots)) != len(slots) or len(dict(variables)) != len(variables):
        raise UsageError("--input, --result, --env: a name is given twice")
    what = GuestProgram(program, args, files, dict(variables), packages, sources, dict(results))
    title = name or default_name(program.name)
    run = record_program(what, name=title, gpu=gpu, timeout=timeout, snapshot=stamp, check=check)
    for line in run.output.splitlines():
        say(f"{program.name}: {line}")
    return written(run.trace, output, stamp)


@click.command(
    "self-test",
    cls=GramophoneCommand,
    example="gramophone record self-test launch --gpu v3d42 -o launch.raw.gtr",
)
@click.argument("network", type=click.Choice(tuple(self_test.NETWORKS)))
@OUTPUT
@GPU
@CHECK
@TIMEOUT
@SNAPSHOT
@recording()
def record_self_test(
    network: str, output: Path, gpu: str, check: bool, timeout: float, snapshot: str | None
) -> Outcome[Recorded]:
    """Record a small network that stresses one part of a GPU.

    launch starts 32 jobs, store and load write and read four megabytes, gemm multiplies matrices. `gramophone
    speed calibrate` reads their times on a board. They are also a first replay for a new board.
    """
    check_output(output)
    stamp = timestamp(snapshot) if snapshot is not None else ""
    trace = self_test.record_self_test(network, gpu, timeout=timeout, snapshot=stamp, check=check)
    return written(trace, output, stamp)


class KitPacked(Result):
    """A kit that was packed.

    Attributes:
        name: Name of the trace to be.
        kit_bytes: Size of the tar file.
    """

    name: str
    kit_bytes: Count


@click.command(
    "pi-kit",
    cls=GramophoneCommand,
    example="gramophone record pi-kit lenet.param lenet.bin --shape data=1x28x28 -o lenet-kit.tar",
)
@click.argument("param", type=FILE)
@click.argument("weights", type=FILE)
@SHAPES
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: PARAM's name.")
@TOLERANCE
def record_pi_kit(
    param: Path,
    weights: Path,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    output: Path,
    name: str | None,
    tolerance: float | None,
) -> Outcome[KitPacked]:
    """Pack what a Raspberry Pi 4 needs to record a network.

    The board records on its own GPU, without privileges. Unpack the kit there, and run `sh run.sh`. It runs the
    network three times and writes result.tar for `gramophone record pi`. The board needs Python with ncnn,
    Mesa's Vulkan driver and glibc 2.34 or newer.
    """
    check_network(shapes, tolerance)
    network = ncnn_files(param, weights)
    check_output(output)
    title = name or default_name(param.stem)
    with told(f"{param}, {weights}"):
        files = kit(*network, dict(shapes), name=title, tolerance=tolerance)
    data = packed(files, f"{title}-kit")
    write(output, data)
    text = f"{output}: {len(data)} bytes\nnext, on the board: tar -xf {output.name} && sh {title}-kit/run.sh"
    return Outcome(KitPacked(title, len(data)), text)


@click.command("pi", cls=GramophoneCommand, example="gramophone record pi lenet-kit/result.tar -o lenet.raw.gtr")
@click.argument("result", type=FILE)
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: the kit's name.")
def record_pi(result: Path, output: Path, name: str | None) -> Outcome[Recorded]:
    """Turn a Raspberry Pi 4's recording into a raw trace.

    RESULT is the result.tar of `record pi-kit`'s kit. Jobs and memory come from the board; register accesses are
    those of Linux's driver for each job. Before the trace is written, a replay on the virtual GPU must give the
    board's outputs.
    """
    check_output(output)
    return written(board_trace(result, name), output, "")
