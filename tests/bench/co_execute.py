# SPDX-License-Identifier: BSD-2-Clause
"""The CPU's share: `python -m tests.bench.co_execute [NETWORK] [--side N] [--search MINUTES [--beside R]]
[--gflops R...]`.

A network of kernel_networks is recorded by tinygrad, unless --recording names a recording, and built with and
without the CPU's share, for several rates of the CPU. The GPU's times are the model's, the CPU's its operations
at that rate; neither is a measurement. "Ideal" is every layer divided so that both are over at once; the gain is
over the faster of the two alone.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
from rich.console import Console
from rich.table import Table

from host_tools.extras.speed.co_report import CoExecuted
from host_tools.extras.speed.kernels.search import SearchedKernels
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from tests.bench import kernel_networks
from tests.bench.kernels import multiply_additions
from tests.bench.recordings import BOOT_S
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

SIDE = 64
RATES = (2.0, 3.0, 4.0, 9.2)  # 9.2: one core of a Raspberry Pi 4 in ncnn's benchmark of MobileNet


@dataclass(frozen=True)
class Row:
    """A network with a CPU of one rate; milliseconds.

    Attributes:
        shared, products: jobs that the CPU shares, and those that are claimed to be products.
        constants: bytes that only the CPU has.
    """

    gflops: float
    gpu: float
    cpu: float
    both: float
    shared: int
    products: int
    constants: int
    difference: float

    @property
    def ideal(self) -> float:
        """Every layer divided at will."""
        return 1 / (1 / self.gpu + 1 / self.cpu)

    @property
    def gain(self) -> float:
        """Over the faster of the two."""
        return min(self.gpu, self.cpu) / self.both


def measured(raw: Trace, total: int, gflops: float) -> Row:
    """Build with the CPU's share."""
    program = Program(raw)
    build(program, asked={"co-execute": gflops})
    report = program.reports.get("co-execute")
    if not isinstance(report, CoExecuted):
        raise GramophoneError("the recording has no products")
    before, after = report.replay_us
    return Row(
        gflops,
        before / 1e3,
        total / gflops / 1e6,
        after / 1e3,
        len(report.shared),
        len(report.shared) + len(report.left),
        report.constants,
        report.difference,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", default="mobilenet", choices=list(kernel_networks.NETWORKS))
    parser.add_argument("--side", type=int, default=SIDE, help="of the picture")
    parser.add_argument("--search", type=float, default=None, help="minutes of a search for kernels before")
    parser.add_argument("--beside", type=float, help="rate of the CPU for which the search chooses kernels")
    parser.add_argument("--recording", type=Path, help="of the network, instead of a new one")
    parser.add_argument("--gflops", type=float, nargs="+", default=RATES, help="rates of the CPU")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = kernel_networks.written(chosen.network, Path(folder) / "net.onnx", chosen.side)
        total = 2 * multiply_additions(onnx.load(path))
        if chosen.recording:
            raw = Trace.read(chosen.recording)
        else:
            how = SearchedKernels(chosen.search, cpu_gflops=chosen.beside) if chosen.search is not None else None
            raw = record_onnx(
                path, {}, compiler=TINYGRAD, name=chosen.network, timeout=BOOT_S, check=False, kernels=how
            )
    titles = ("GFLOP/s", "GPU ms", "CPU ms", "ideal ms", "both ms", "gain", "jobs", "constants", "difference")
    table = Table(*titles, box=None)
    for gflops in chosen.gflops:
        row = measured(raw, total, gflops)
        times = [f"{time:.1f}" for time in (row.gpu, row.cpu, row.ideal, row.both)]
        counts = f"{row.shared} of {row.products}", f"{row.constants:,}", f"{row.difference:.1e}"
        table.add_row(f"{gflops:g}", *times, f"{row.gain:.2f}", *counts)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
