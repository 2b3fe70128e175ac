# SPDX-License-Identifier: BSD-2-Clause
"""Where a language model's token takes its time: a row a kernel, beside what its bytes take from DRAM.

`python -m tests.bench.gguf [--gpu NAME] [--json]`: a decoder with the sizes of SmolLM2-135M, random weights and
one layer is recorded and replayed; `calls` are those of all LAYERS. Times are the time model's for the chip with
this GPU. Exit status 1 if the logits differ from NumPy's by TOLERANCE.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from host_tools.accesses.job_work import job_work_and_outputs
from host_tools.extras.gguf.model import read_model
from host_tools.extras.gguf.plan import LOGITS, SETTINGS, plan
from host_tools.extras.gguf.reference import Reference
from host_tools.model.timing import Chip, chip_of, estimate
from host_tools.record.compiled.layout import laid_out
from host_tools.record.compiled.plan import Call, Kind, Plan
from host_tools.record.compiled.recording import record_plan
from host_tools.record.compiled.shaders import spirv
from host_tools.record.differences import relative_difference
from host_tools.record.tolerances import TOLERANCE
from host_tools.vgpu.binding import Dispatch
from tests.support.gguf_models import Decoder

LAYERS = 30
SIZES: dict[str, Any] = {"width": 576, "hidden": 1536, "heads": 9, "groups": 3, "head": 64, "tokens": 49152}
DECODER = Decoder(kinds=(("embd.weight", "Q8_0"),), layers=1, **SIZES)
POSITIONS = 256
TOKEN = 1000
BOOT_S = 3600.0


@dataclass(frozen=True)
class Row:
    """A kernel; microseconds of its last call, and milliseconds of all that a token has.

    Attributes:
        issue: for its instructions.
        access: for what it loads and stores.
        dram: for its constants and caches, if each byte is read once and nothing else takes time.
        instructions: of the GPU's.
    """

    name: str
    calls: int
    us: float
    issue: float
    access: float
    dram: float
    instructions: int
    ms: float


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gguf", description=__doc__)
    parser.add_argument("--gpu", default="v3d42")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows, difference = measured(DECODER, chip_of(options.gpu))
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "difference": difference}))
    else:
        _print(rows, difference)
    return int(not difference <= TOLERANCE)


def measured(decoder: Decoder, chip: Chip) -> tuple[list[Row], float]:
    """A row a kernel, and how much the logits differ from NumPy's, relative to the largest."""
    with tempfile.TemporaryDirectory() as folder:
        model = read_model(decoder.write(Path(folder) / "model.gguf"))
    made = plan(model, POSITIONS, gpu=chip.gpu)
    layout = laid_out(made)
    inputs = {"given": np.array([TOKEN % decoder.tokens], np.int32)}
    inputs |= {name: np.array([value]) for name, value in SETTINGS.items()}
    how: dict[str, Any] = {"name": "decoder", "gpu": chip.gpu, "timeout": BOOT_S, "notes": {}, "results": False}
    trace, _ = record_plan(layout, spirv(made.kernels), inputs, **how)
    work, left = job_work_and_outputs(trace)
    jobs = [job.dispatches for job in work if job.dispatches]
    rows: dict[str, Row] = {}
    for call, found in zip(made.calls, jobs, strict=True):
        row = _row(made, call, found, chip)
        before = rows.get(row.name)
        rows[row.name] = (
            row if before is None else replace(row, calls=row.calls + before.calls, ms=row.ms + before.ms)
        )
    expected = Reference(model)(TOKEN % decoder.tokens)
    return list(rows.values()), relative_difference(np.reshape(left[LOGITS], expected.shape), expected)


def _row(made: Plan, call: Call, found: list[Dispatch], chip: Chip) -> Row:
    time = estimate(found, chip)
    layer, _, name = call.name.partition(" ")
    calls = LAYERS if layer.isdigit() else 1
    name = name or call.name
    states = [view for view in call.views if made.buffers[view.buffer].kind == Kind.STATE]
    read = {"embed": [], "limit": [], "choose": [], "attend": states}.get(name, call.views[:2])  # a matrix is two
    lines = -(-sum(view.size for view in read) // 64)
    once = Dispatch(**{field.name: 0 for field in fields(Dispatch)} | {"second_misses": lines, "groups": 1 << 20})
    access = sum(time.parts[part] for part in ("lines", "words", "misses", "memory"))
    dram = estimate([once], chip).parts["memory"]
    instructions = sum(one.instructions for one in found)
    row = (time.us, time.parts["issue"], access, dram, instructions)
    return Row(name, calls, *row, calls * time.us / 1000)


def _print(rows: list[Row], difference: float) -> None:
    table = Table("kernel", "calls", "us", "instructions, us", "accesses, us", "DRAM once, us", "ms a token")
    for row in rows:
        times = (row.us, row.issue, row.access, row.dram)
        table.add_row(row.name, str(row.calls), *(f"{us:.1f}" for us in times), f"{row.ms:.2f}")
    total = sum(row.ms for row in rows)
    Console().print(table, f"{sum(row.calls for row in rows)} jobs and {total:.1f} ms a token", highlight=False)
    Console().print(f"logits differ from NumPy's by {difference:.1e}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
