# SPDX-License-Identifier: BSD-2-Clause
"""What runs: networks recorded, built, signed and replayed in the secure world of QEMU with a new input.

`python -m tests.bench.breadth [NAME...] [--json]`: a row a network: those of ncnn's benchmark, the demo's, and two
that pnnx converts from ONNX. Recording one takes minutes; recordings are kept in the user's cache. Compared with
ncnn's CPU are the values before a softmax, which would hide differences; with int8 weights the last column says
how far ncnn's GPU code is from its CPU code in another driver (tests/bench/lavapipe.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from host_tools import runners
from host_tools.demo import PARAM, WEIGHTS
from host_tools.demo.record import SHAPES
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.frontends import convert_onnx
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.runners.replay import Tensor
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench import lavapipe
from tests.bench.graphs import GRAPHS
from tests.bench.recordings import Network, recorded
from tests.support import onnx_networks
from trace_format.actions import Columns, Op
from trace_format.trace import Trace

SEED = 11
LIMIT = 1e-5  # of the difference, in float32
INT8_STEP = 1 / 127  # of the largest value of a tensor: what one rounding changes in a network with int8 weights
INT8_RECORD_TOLERANCE = 0.2  # of `record`, which only finds gross errors; what counts is a replay's difference


def _lenet() -> Network:
    return Network(PARAM.read_bytes(), WEIGHTS.read_bytes(), SHAPES)


def _from_onnx(make: Callable[[Path], Path]) -> Callable[[], Network]:
    def network() -> Network:
        with tempfile.TemporaryDirectory() as folder:
            converted = convert_onnx(make(Path(folder) / "net.onnx"), {})
        return Network(converted.param, converted.weights, converted.shapes)

    return network


def _graph(name: str) -> Callable[[], Network]:
    make, shape = GRAPHS[name]
    return lambda: Network(*make(SEED), {"data": shape})


NETWORKS = {
    **{name: _graph(name) for name in GRAPHS},
    "lenet": _lenet,
    "onnx_classifier": _from_onnx(onnx_networks.classifier),
    "onnx_residual": _from_onnx(onnx_networks.residual),
}


@dataclass(frozen=True)
class Row:
    """One network: `lists` are jobs that copied or filled; instructions are the CPU's, of one replay.

    Attributes:
        relative_difference: of the replay from ncnn's CPU.
        ncnn_difference: with int8 weights, of ncnn on lavapipe from ncnn's CPU.
    """

    name: str
    jobs: int
    lists: int
    recorded_bytes: int
    signed_bytes: int
    secure_bytes: int
    replay_instructions: int
    relative_difference: float
    ncnn_difference: float | None

    @property
    def limit(self) -> float:
        """Of the difference: with int8 weights one rounding, or twice as much as ncnn's own back ends differ."""
        return LIMIT if self.ncnn_difference is None else max(2 * self.ncnn_difference, INT8_STEP)


def outputs_of(param: bytes) -> tuple[str, ...]:
    """Blobs to compute: the values before a softmax at the end; none: all outputs."""
    last = param.decode().rstrip().rpartition("\n")[2].split()
    return (last[4],) if last[0] == "Softmax" else ()


def recording(name: str, network: Network) -> Path:
    """The file of a network's recording, in which its outputs are those that are compared."""
    tolerance = INT8_RECORD_TOLERANCE if name.endswith("_int8") else None
    return recorded(name, network, prefix="breadth-", until=outputs_of(network.param), tolerance=tolerance)


def measure(name: str) -> Row:
    """Record (or take from the cache), build, sign, replay, compare.

    Raises:
        AssertionError: the replay failed, or differs by more than the limit.
        GramophoneError: for int8 weights, lavapipe is not installed.
    """
    network = NETWORKS[name]()
    until = outputs_of(network.param)
    int8 = name.endswith("_int8")
    kept = recording(name, network)
    raw = Trace.read(kept)
    trace = build(raw)
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(trace.build(), signer)
    generator = np.random.default_rng(5)
    inputs = {blob: generator.normal(0, 1, shape).astype(np.float32) for blob, shape in network.shapes.items()}
    result = runners.run("qemu", Delivery(signed), signer.public, inputs)
    assert result.ok, f"{name}: {result.error}"
    assert result.instructions is not None
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "net.param", Path(folder) / "net.bin"
        for path, content in zip(files, (network.param, network.weights), strict=True):
            path.write_bytes(content)
        expected = ncnn_cpu.run(*files, inputs, until)
        other = lavapipe.run(*files, inputs, until, int8=True) if int8 else {}
    row = Row(
        name,
        result.jobs,
        raw.jobs - _dispatches(raw),
        kept.stat().st_size,
        len(signed),
        result.secure_bytes,
        result.instructions.replay,
        _difference(result.outputs, expected),
        _difference(other, expected) if other else None,
    )
    assert row.relative_difference <= row.limit, f"{name}: differs by {row.relative_difference:.1e}"
    return row


def _difference(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    return max(relative_difference(found[blob], tensor) for blob, tensor in expected.items())


def _dispatches(raw: Trace) -> int:
    """Compute jobs that were recorded."""
    columns = Columns(raw.actions)
    start = next(job.start.index for job in raw.profile.jobs if job.kind == "compute")
    return int(np.count_nonzero((columns.is_op(Op.REG_WRITE)) & (columns.register == start)))


def main() -> None:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.breadth", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS], help="networks; default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = [measure(name) for name in options.names or NETWORKS]
    if options.json:
        print(json.dumps({row.name: dataclasses.asdict(row) for row in rows}))
        return
    titles = (
        "network",
        "jobs",
        "copies",
        "recording",
        "signed",
        "secure memory",
        "instructions",
        "difference",
        "ncnn's own",
    )
    table = Table(*titles, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        _, *values, difference, own = dataclasses.astuple(row)
        table.add_row(
            row.name,
            *(f"{value:,}" for value in values),
            f"{difference:.1e}",
            "" if own is None else f"{own:.1e}",
        )
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
