# SPDX-License-Identifier: BSD-2-Clause
"""Recorded on one Mali, replayed on another: a matrix for each network, by the rules in host_tools/gpus/mali.

`python -m tests.bench.moved [NETWORK...] [--json]`: a network is recorded on each of four Malis by tinygrad,
turned into a recording of each other one, built, signed and replayed in QEMU's secure world with an input that
was not recorded, and compared with ONNX Runtime. A cell is the difference, or why the rules refuse. Exit status
1 if one differs, or fails in another way.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from host_tools.demo import WEIGHTS
from host_tools.gpus.mali.rules import RuleError, retarget
from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from tests.bench.models import LIMIT, Row, replayed
from tests.bench.recordings import BOOT_S
from tests.bench.trained import Tensors
from tests.support.onnx_graphs import graph, node
from tests.support.onnx_networks import attention, residual
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

GPUS = ("mali_g71", "mali_g72", "mali_g52r1", "mali_g31")
SEED = 20261127


@dataclass(frozen=True)
class Cell:
    """A network recorded on one GPU and replayed on another.

    Attributes:
        difference: from ONNX Runtime, relative to the largest value.
        refused: why there is no trace, by a rule; "": there is one.
        error: what else was wrong.
    """

    network: str
    source: str
    target: str
    difference: float = float("inf")
    refused: str = ""
    error: str = ""

    @property
    def good(self) -> bool:
        return bool(self.refused) or (not self.error and self.difference <= LIMIT)

    def __str__(self) -> str:
        return self.error or (f"refused: {self.refused}" if self.refused else f"{self.difference:.1e}")


def lenet(path: Path) -> Path:
    """The demo's network and weights."""
    shapes = {"1": (8, 1, 5, 5), "2": (16, 8, 5, 5), "3": (64, 256), "4": (10, 64)}
    data, constants = WEIGHTS.read_bytes(), {}
    for number, shape in shapes.items():  # a flag, weights, biases (docs/examples/export.py)
        for name, of, skipped in (("w", shape, 4), ("b", shape[:1], 0)):
            size = 4 * int(np.prod(of))
            constants[name + number] = np.frombuffer(data[skipped : skipped + size], "<f4").reshape(of)
            data = data[skipped + size :]
    nodes = [
        node("Conv", "data w1 b1", "c1"),
        node("Relu", "c1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2 b2", "c2"),
        node("Relu", "c2", "r2"),
        node("MaxPool", "r2", "p2", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p2", "f"),
        node("Gemm", "f w3 b3", "d3", transB=1),
        node("Relu", "d3", "r3"),
        node("Gemm", "r3 w4 b4", "d4", transB=1),
        node("Softmax", "d4", "prob"),
    ]
    return graph(path, nodes, {"data": ("float32", (1, 1, 28, 28))}, {"prob": "float32"}, constants)


NETWORKS: dict[str, Callable[[Path], Path]] = {"lenet": lenet, "two-inputs": residual, "attention": attention}


def measure(name: str, folder: Path) -> list[Cell]:
    """A row and a column for each GPU; the diagonal is what was not moved."""
    path = NETWORKS[name](folder / f"{name}.onnx")
    network = onnx_model.read(path)
    generator = np.random.default_rng(SEED)
    given = {of: generator.random(shape, np.float32) for of, shape in network.shapes({}).items()}
    expected = onnx_model.run(network, given)
    cells = []
    for source in GPUS:
        raw = record_onnx(path, {}, compiler=TINYGRAD, name=name, gpu=source, timeout=BOOT_S)
        for target in GPUS:
            cells.append(_moved(Cell(name, source, target), raw, given, expected))
            print(f"{name}: {source} -> {target}: {cells[-1]}", file=sys.stderr, flush=True)
    return cells


def _moved(cell: Cell, raw: Trace, given: Tensors, expected: Tensors) -> Cell:
    try:
        moved = raw if cell.source == cell.target else retarget(raw, cell.target)[0]
        row, _ = replayed(Row(cell.network, ""), moved, given, expected)
    except RuleError as error:
        return dataclasses.replace(cell, refused=str(error))
    except GramophoneError as error:
        return dataclasses.replace(cell, error=str(error))
    return dataclasses.replace(cell, difference=row.difference, error=row.error)


def table(cells: list[Cell]) -> Table:
    """What to print of a network."""
    made = Table(cells[0].network, *GPUS, box=None, pad_edge=False)
    for source in GPUS:
        row = {cell.target: cell for cell in cells if cell.source == source}
        words = ("refused" if row[gpu].refused else str(row[gpu]) for gpu in GPUS)
        made.add_row(f"recorded on {source}", *words)
    return made


def main() -> int:
    """Print the matrices, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.moved", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NETWORKS], help="networks; default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        for name in options.names or NETWORKS:
            found[name] = measure(name, Path(folder))
    if options.json:
        print(json.dumps([dataclasses.asdict(cell) for cells in found.values() for cell in cells]))
    else:
        for cells in found.values():
            Console(highlight=False).print(table(cells))
    return 0 if all(cell.good for cells in found.values() for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
