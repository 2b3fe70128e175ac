# SPDX-License-Identifier: BSD-2-Clause
"""Commands that record: `record ncnn`, `... run`, `... self-test`, `... pi-kit` and `... pi`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from host_tools.commands.facts import NAME, default_name
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, UsageError, say
from host_tools.commands.if_changed import recording
from host_tools.commands.record_options import (
    CHECK,
    FP16,
    GPU,
    SHAPES,
    SNAPSHOT,
    TIMEOUT,
    TOLERANCE,
    check_network,
    written,
)
from host_tools.commands.streams import OUTPUT, check_output, write
from host_tools.machine.snapshot import timestamp
from host_tools.record import self_test
from host_tools.record.board.kit import kit, packed
from host_tools.record.board.result import board_trace
from host_tools.record.ncnn.network import record_network
from host_tools.record.preflight import NetworkError
from host_tools.record.program import GuestProgram, record_program
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import open_regular, read_file

PARAM_MAGIC = b"7767517"


@click.command(
    "ncnn",
    cls=GramophoneCommand,
    example="gramophone record ncnn lenet.param lenet.bin --shape data=1x28x28 -o lenet.raw.gtr",
)
@click.argument("param", type=FILE)
@click.argument("weights", type=FILE)
@SHAPES
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: that of PARAM.")
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
) -> Outcome[Any]:
    """Record an ncnn network on Debian's unmodified GPU stack.

    The recording is of one inference: Debian's kernel and Mesa, PyPI's ncnn. Inputs, outputs and parameters are
    found by recording three times with different data. Before the recording is written, it is built, replayed
    with an input of its own, and compared with ncnn's CPU result.
    """
    stamp = timestamp(snapshot) if snapshot is not None else ""
    network = _network(param, weights, shapes, tolerance)
    check_output(output)
    try:
        trace = record_network(
            *network,
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
    except NetworkError as error:
        raise GramophoneError(f"{param}, {weights}: {error}") from error
    return written(trace, output, stamp)


@click.command(
    "run",
    cls=GramophoneCommand,
    example="gramophone record run --gpu v3d42 -o vadd.raw.gtr -- ./vadd vadd.spv 1000",
)
@GPU
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: that of PROGRAM.")
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
    help="Debian package that the guest is to have, with what it depends on; repeatable.",
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
    help="File of float32 values that the program leaves, whose values become an output slot; repeatable.",
)
@CHECK
@TIMEOUT
@SNAPSHOT
@click.argument("program", type=FILE)
@click.argument("args", nargs=-1)
@recording()
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
) -> Outcome[Any]:
    """Record an aarch64 program that uses the GPU.

    The kernel and Mesa are Debian's. It runs in its own folder, with every file given by --file and every
    argument that names a file here; what it prints is passed on to standard error. Its shared libraries come
    from the given files or from the guest's packages.

    With --input it is recorded twice, with the files' values and with random ones; what differs in GPU memory are
    the slots; before it is written, a replay with the random values must leave what the program left of them.
    Without, the recording has none: nothing is known of the program's tensors.
    """
    stamp = timestamp(snapshot) if snapshot is not None else ""
    check_output(output)
    sources = {slot: Path(file) for slot, file in inputs}
    for path in (program, *files, *sources.values()):
        if not (path in files and path.is_dir()):
            open_regular(path).close()
    if results and not inputs:
        raise UsageError("--result: needs an --input that it depends on: slots are found by what differs")
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
) -> Outcome[Any]:
    """Record a small network that stresses one part of a GPU.

    launch starts 32 jobs, store and load write and read four megabytes, gemm multiplies matrices. Their times on a
    board are what `gramophone speed calibrate` takes; they are a first replay for a new board, too.
    """
    check_output(output)
    stamp = timestamp(snapshot) if snapshot is not None else ""
    trace = self_test.record_self_test(network, gpu, timeout=timeout, snapshot=stamp, check=check)
    return written(trace, output, stamp)


@click.command(
    "pi-kit",
    cls=GramophoneCommand,
    example="gramophone record pi-kit lenet.param lenet.bin --shape data=1x28x28 -o lenet-kit.tar",
)
@click.argument("param", type=FILE)
@click.argument("weights", type=FILE)
@SHAPES
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: that of PARAM.")
@TOLERANCE
def record_pi_kit(
    param: Path,
    weights: Path,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    output: Path,
    name: str | None,
    tolerance: float | None,
) -> Outcome[Any]:
    """Pack what a Raspberry Pi 4 needs to record a network.

    It records on its own GPU, without privileges. There: unpack it, sh run.sh. It runs the network three times
    and leaves result.tar for `gramophone record pi`. The board needs Python with ncnn, Mesa's Vulkan driver and
    a C library of 2.34 or newer.
    """
    network = _network(param, weights, shapes, tolerance)
    check_output(output)
    title = name or default_name(param.stem)
    try:
        files = kit(*network, dict(shapes), name=title, tolerance=tolerance)
    except NetworkError as error:
        raise GramophoneError(f"{param}, {weights}: {error}") from error
    data = packed(files, f"{title}-kit")
    write(output, data)
    text = f"{output}: {len(data)} bytes\nnext, on the board: tar -xf {output.name} && sh {title}-kit/run.sh"
    return Outcome({"name": title, "kit_bytes": len(data)}, text)


@click.command("pi", cls=GramophoneCommand, example="gramophone record pi lenet-kit/result.tar -o lenet.raw.gtr")
@click.argument("result", type=FILE)
@OUTPUT
@click.option("--name", type=NAME, help="Name of the trace; default: that of the kit.")
def record_pi(result: Path, output: Path, name: str | None) -> Outcome[Any]:
    """Turn a Raspberry Pi 4's recording into a raw trace.

    RESULT is what the kit of `record pi-kit` left. It is the trace of a recording in the emulated machine:
    registers are what Linux's driver writes for each job, jobs and memory the board's own. Before it is written,
    it is replayed on the virtual GPU and must give what the board computed.
    """
    check_output(output)
    return written(board_trace(result, name), output, "")


def _network(
    param: Path, weights: Path, shapes: tuple[tuple[str, tuple[int, ...]], ...], tolerance: float | None
) -> tuple[bytes, bytes]:
    """The network's files, once the options are checked."""
    check_network(shapes, tolerance)
    network = read_file(param, limits.MODEL_BYTES), read_file(weights, limits.MODEL_BYTES)
    _check_param(param, network[0])
    return network


def _check_param(path: Path, data: bytes) -> None:
    """Refuse at once what ncnn would refuse in the guest (ncnn src/net.cpp: magic number, newline, two counts)."""
    lines = data[:80].split(b"\n")
    if lines[0].strip() != PARAM_MAGIC:
        raise GramophoneError(
            f"{path} at offset 0x0: not an ncnn .param file: expected {PARAM_MAGIC.decode()!r} as its first line, "
            f"found {lines[0][:20].decode('ascii', 'backslashreplace')!r}"
        )
    if not re.fullmatch(rb"\s*\d+\s+\d+\s*", lines[1] if len(lines) > 1 else b""):
        raise GramophoneError(
            f"{path} at offset {len(lines[0]) + 1:#x}: not an ncnn .param file: "
            "expected numbers of layers and blobs as its second line"
        )
