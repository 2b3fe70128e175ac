# SPDX-License-Identifier: BSD-2-Clause
"""Searched kernels against the compiler's own and against ncnn's: `python -m tests.bench.kernels [NAME...]`.

A network is recorded by tinygrad as it is, and after a search of so many minutes; ncnn's recording is that of the
same layers (tests/bench/recordings.py). Instructions, lines of 64 bytes and microseconds are of one replay of the
built trace, counted on the virtual GPU and estimated by the model; the difference is that of the replay from ONNX
Runtime, for an input that was not recorded. `ppocr-rec` and `nudenet` (a YOLOv8n) are trained networks
(tests/bench/trained.py); `decoder` is the language model's (docs/examples/text).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from docs.examples.text import DECODER
from host_tools.accesses.job_times import job_times
from host_tools.accesses.observe import random_inputs
from host_tools.extras.speed.kernels.search import SearchedKernels
from host_tools.model.interpreter import interpreter
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.bench import breadth, kernel_networks, networks
from tests.bench.models import RECORDED
from tests.bench.recordings import BOOT_S
from tests.bench.trained import MODELS
from trace_format import profile
from trace_format.trace import Trace

MINUTES = 5.0
SEED = 3
OF_NCNN = ("mobilenet", "squeezenet", "resnet18")
TRAINED = ("ppocr-rec", "nudenet")
NAMES = (*OF_NCNN, *TRAINED, "decoder")
# Asked of ncnn's instructions, lines and time; of the others, of tinygrad's own time.
GOALS: dict[str, tuple[float | None, float | None, float]] = {
    "mobilenet": (0.55, 0.3, 0.45),
    "squeezenet": (0.6, 0.4, 0.55),
    "resnet18": (0.55, 0.5, 0.6),
    **dict.fromkeys((*TRAINED, "decoder"), (None, None, 0.6)),
}
WARP = {"mali_g71": 4, "mali_g72": 4, "mali_g52r1": 8, "mali_g31": 8}  # mali_registers.c
OPERATIONS = 5.0  # of a Mali a multiply-addition; two a tuple and lane
LIMIT = 1e-5
Shapes = dict[str, tuple[int, ...]]
Values = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Cost:
    """Of one replay."""

    jobs: int
    instructions: int
    lines: int
    us: float


@dataclass(frozen=True)
class Row:
    """A network: by ncnn, by tinygrad, searched.

    Attributes:
        products: multiply-additions of its convolutions and products of matrices; 0: its file leaves shapes open.
        difference: of the searched one from ONNX Runtime, relative to the largest value.
        seconds: of recording it, the search included.
        search: the search's notes.
    """

    name: str
    ncnn: Cost | None
    own: Cost
    searched: Cost
    products: int
    difference: float
    seconds: float
    search: Mapping[str, Any]


def cost(trace: Trace) -> Cost:
    """What a replay of a built trace costs."""
    jobs = [(job, time) for job, time in job_times(trace, chip_of(trace.gpu)) if not job.prepares]
    rows = [row for job, _ in jobs for row in job.dispatches]
    return Cost(
        len(jobs),
        sum(row.instructions for row in rows),
        sum(row.loaded_lines + row.stored_lines for row in rows),
        sum(time.us for _, time in jobs),
    )


def measure(name: str, minutes: float, gpu: str = DEFAULT_GPU) -> Row:
    """Record, search, count and compare."""
    with tempfile.TemporaryDirectory() as folder:
        path, shapes, values = _network(name, Path(folder))
        how: dict[str, Any] = {
            "compiler": TINYGRAD,
            "values": values,
            "tolerance": LIMIT,
            "name": name,
            "gpu": gpu,
            "timeout": BOOT_S,
            "check": False,  # here, below
        }
        own = cost(build(record_onnx(path, shapes, **how)))
        began = time.monotonic()
        raw = record_onnx(path, shapes, kernels=SearchedKernels(minutes), **how)
        seconds = time.monotonic() - began
        built = build(raw)
        worst = _difference(built, onnx_model.read(path), shapes, values)
        products = multiply_additions(onnx.load(path)) if name in kernel_networks.NETWORKS else 0
    by_ncnn = cost(build(_by_ncnn(name))) if name in OF_NCNN and gpu == DEFAULT_GPU else None
    return Row(name, by_ncnn, own, cost(built), products, worst, seconds, raw.notes["search"])


def multiply_additions(model: onnx.ModelProto) -> int:
    """Those of convolutions and products of matrices whose shapes the file fixes."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {value.name: list(value.dims) for value in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        shapes[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    found = 0
    for node in inferred.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            left, right = (shapes[name] for name in node.input[:2])
            each = prod(right[1:]) if node.op_type == "Conv" else left[-1]
            found += prod(shapes[node.output[0]]) * each
    return found


def _network(name: str, folder: Path) -> tuple[Path, Shapes, Values]:
    """A network's file, the shapes of inputs that it leaves open, and values of inputs that it needs."""
    if name in kernel_networks.NETWORKS:
        return kernel_networks.written(name, folder / "net.onnx"), {}, {}
    if name in TRAINED:
        values = dict(MODELS[name].make(RECORDED))
        return MODELS[name].path, {of: value.shape for of, value in values.items()}, values
    return DECODER, {}, {"temperature": np.ones(1, np.float32)}


def _by_ncnn(name: str) -> Trace:
    """ncnn's recording of the same layers, made unless the cache has it."""
    if name in networks.LARGE:
        return Trace.parse(networks.raw_trace(name))
    return Trace.read(breadth.recording(name, breadth.NETWORKS[name]()))


def _difference(built: Trace, model: onnx_model.OnnxModel, given: Shapes, values: Values) -> float:
    """The replay's worst difference from ONNX Runtime, for random inputs or those of the network's kind; whole
    numbers are 0."""
    found = random_inputs(built, SEED)
    inputs = {slot: value if value.dtype.kind == "f" else np.zeros_like(value) for slot, value in found.items()}
    inputs |= {slot: value * np.float32(0.75) for slot, value in values.items() if value.size > 1}
    shapes = model.shapes(given)
    typed = {of: inputs[of].reshape(shapes[of]).astype(model.types[of]) for of in model.inputs}
    expected = onnx_model.run(model, typed)
    with interpreter(built) as replay:
        left = replay.run(inputs)
    return max(
        float(np.max(np.abs(left[of].reshape(value.shape).astype(np.float64) - value)))
        / (float(np.max(np.abs(value))) or 1.0)
        for of, value in expected.items()
    )


def table(rows: list[Row], gpu: str) -> Table:
    """What to print: shares of ncnn's, or of tinygrad's own where ncnn has none, with what was asked; of a Mali
    operations a multiply-addition."""
    counts = ("M instructions", "M lines", "ms by the model")
    each = f"operations each, {OPERATIONS} asked"
    heads = (*counts, each, "share", "difference") if gpu in WARP else (*counts, "share", "asked", "difference")
    made = Table("network", "by", "jobs", *heads, box=None, pad_edge=False)
    for column in made.columns[2:]:
        column.justify = "right"
    for row in rows:
        base = row.ncnn or row.own
        for by, of in (("ncnn", row.ncnn), ("tinygrad", row.own), ("searched", row.searched)):
            if of is None:
                continue
            shares = (of.instructions / base.instructions, of.lines / base.lines, of.us / base.us)
            last = by == "searched"
            share = " / ".join(f"{share:.2f}" for share in shares)
            if gpu in WARP:
                than = [f"{of.instructions * 2 * WARP[gpu] / row.products:.1f}" if row.products else "", share]
            else:
                asked = ("-" if goal is None else f"{goal:.2f}" for goal in GOALS[row.name])
                than = [share, " / ".join(asked) if last else ""]
            made.add_row(
                row.name,
                by,
                str(of.jobs),
                f"{of.instructions / 1e6:.1f}",
                f"{of.lines / 1e6:.1f}",
                f"{of.us / 1e3:.2f}",
                *than,
                f"{row.difference:.1e}" if last else "",
            )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or one JSON object; exit status 1 if a network's outputs differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kernels", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="networks; default: all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each search; 0: what the cache has")
    parser.add_argument("--gpu", default=DEFAULT_GPU, choices=profile.names())
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(arguments)
    rows = [measure(name, options.minutes, options.gpu) for name in options.names or NAMES]
    if options.json:
        print(json.dumps({row.name: dataclasses.asdict(row) for row in rows}))
    else:
        Console(highlight=False, width=140).print(table(rows, options.gpu))
        for row in rows:
            kept = ", ".join(f"{key} {value}" for key, value in row.search.items())
            print(f"{row.name}: {row.seconds:.0f} s with its recording; {kept}")
    return 0 if all(row.difference <= LIMIT for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
