# SPDX-License-Identifier: BSD-2-Clause
"""Networks in a budget of secure memory: built with and without it, replayed with the same inputs, compared.

`python -m tests.bench.streaming [NAME=MIB...] [--json]`: a row a network of tests/bench/breadth.py, which records
it unless the user's cache has it. Replays are those of the compiled core on the virtual GPU. Exit status 1 if a
network does not fit, or an output differs in a bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from host_tools import runners
from host_tools.accesses.observe import random_inputs
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.runners.needs import secure_bytes
from host_tools.runners.replay import ReplayResult
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.breadth import NETWORKS, recording
from trace_format.errors import TraceError
from trace_format.trace import Trace

SEED = 11
MIB = 1 << 20
BUDGETS = {"mobilenet_v1": 8, "resnet50": 16, "vgg16": 32, "vision_transformer": 32}  # MiB


@dataclass(frozen=True)
class Row:
    """One network; bytes.

    Attributes:
        jobs: without a budget, and with it: those that need too much are cut.
        needed: secure memory without a budget.
        taken: with it.
        pieces: that devices read while jobs run.
        weights: bytes of all pieces.
        again: of those that each replay reads again.
        build_s: seconds of the build with the budget.
        error: why there is no row, else empty.
    """

    name: str
    budget: int
    jobs: tuple[int, int] = (0, 0)
    needed: int = 0
    taken: int = 0
    pieces: int = 0
    weights: int = 0
    again: int = 0
    build_s: float = 0.0
    error: str = ""


def measure(name: str, budget: int) -> Row:
    """Build both ways, replay both, compare; what does not fit is a row, too."""
    raw = Trace.parse(recording(name, NETWORKS[name]()).read_bytes())
    signer = FileSigner(generate(Algorithm.ES256))
    inputs = random_inputs(raw, SEED)

    def replayed(trace: Trace) -> tuple[ReplayResult, int]:
        delivery = Delivery(sign_trace(trace.build(), signer))
        return runners.run("vgpu", delivery, signer.public, inputs), secure_bytes(delivery)

    start = time.monotonic()
    try:
        streamed = build(raw, asked={PASS.name: budget})
    except TraceError as error:
        return Row(name, budget, error=" ".join(str(error).split()))
    seconds = time.monotonic() - start
    pieces = [len(piece.data) for piece in streamed.streamed]
    again = sum(len(piece.data) for piece in streamed.streamed if not piece.resident)
    found, taken = replayed(streamed)
    del streamed
    expected, needed = replayed(build(raw))
    row = Row(
        name,
        budget,
        (expected.jobs, found.jobs),
        needed,
        taken,
        len(pieces),
        sum(pieces),
        again,
        seconds,
    )
    if not (found.ok and expected.ok):
        return dataclasses.replace(row, error=f"its replay fails: {found.error or expected.error}")
    if any(found.outputs[of].tobytes() != tensor.tobytes() for of, tensor in expected.outputs.items()):
        return dataclasses.replace(row, error="its outputs differ from those without a budget")
    return row


def table(rows: list[Row]) -> Table:
    """What to print."""
    titles = ["network", "budget", "jobs", "cut into", "needs", "takes", "pieces", "weights", "again", "build"]
    made = Table(*titles, box=None, pad_edge=False)
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows:
        counts = (row.needed, row.taken, row.pieces, row.weights, row.again)
        cells = [*map(str, row.jobs), *(f"{count:,}" for count in counts), f"{row.build_s:.0f} s"]
        budget = f"{row.budget:,}"
        made.add_row(row.name, budget, *([row.error] if row.error else cells))
    return made


def _budget(text: str) -> tuple[str, int]:
    name, equals, mib = text.partition("=")
    if name not in NETWORKS or (equals and not mib.isdecimal()) or not (equals or name in BUDGETS):
        raise argparse.ArgumentTypeError(f"expected NAME=MIB, a network of tests/bench/breadth.py, found {text}")
    return name, int(mib or BUDGETS[name]) * MIB


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.streaming", description=__doc__)
    parser.add_argument("networks", nargs="*", type=_budget, metavar="NAME[=MIB]", help="default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = []
    for name, budget in options.networks or [_budget(name) for name in BUDGETS]:
        rows.append(measure(name, budget))
        print(f"{name}: {rows[-1].error or 'the same outputs'}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({row.name: dataclasses.asdict(row) for row in rows}))
    else:
        Console(highlight=False).print(table(rows))
    return 1 if any(row.error for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
