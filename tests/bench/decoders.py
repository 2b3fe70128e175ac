# SPDX-License-Identifier: BSD-2-Clause
"""Language models of several sizes, with random weights of 8 bits: recorded, built, and a text of a few tokens
written in the secure world of QEMU, as ONNX Runtime writes it.

`python -m tests.bench.decoders [NAME...] [--gpu GPU] [--json]`: a row a size. Exit status 1 if one fails or
differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.examples.text import decoder, export
from docs.examples.text.demo import CHOSEN, Decoder, recorded, replayed, with_state
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from trace_format import profile
from trace_format.errors import GramophoneError

SIZES = {
    "demo": decoder.Size(),
    "15M": decoder.Size(tokens=8192, positions=256, layers=7, heads=6, width=384),
    "100M": decoder.Size(tokens=16384, positions=256, layers=12, heads=12, width=768),
}
GIVEN, WRITTEN = [5, 6, 7], 5  # tokens


@dataclass(frozen=True)
class Row:
    """One size.

    Attributes:
        parameters: how many.
        seconds: to record, with the checks of `record`; to build and sign.
        instructions: the CPU's, of one token.
        same: tokens that are ONNX Runtime's, of those that were chosen.
    """

    name: str
    parameters: int = 0
    jobs: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    signed_bytes: int = 0
    secure_bytes: int = 0
    state_bytes: int = 0
    instructions: int = 0
    same: int = 0
    chosen: int = 1
    error: str = ""

    @property
    def good(self) -> bool:
        return not self.error and self.same == self.chosen


def measure(name: str, gpu: str) -> Row:
    """Record, build, sign, write; a failure is a row, too."""
    size = SIZES[name]
    parameters = decoder.initial(size, np.random.default_rng(1))
    count = sum(value.size for value in parameters.values())
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        path = Path(folder) / "decoder.onnx"
        path.write_bytes(export.model(parameters, size, [""] * size.tokens).SerializeToString())
        del parameters
        try:
            return dataclasses.replace(_measured(name, path, gpu), parameters=count)
        except GramophoneError as error:
            return Row(name, count, error=" ".join(str(error).split()))


def _measured(name: str, path: Path, gpu: str) -> Row:
    known = Decoder.read(path)
    start = time.monotonic()
    raw = recorded(path, gpu)
    between = time.monotonic()
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(with_state(raw, known).build(), signer)
    seconds = between - start, time.monotonic() - between
    given = np.array(GIVEN + [-1] * WRITTEN, np.int32).reshape(-1, 1)
    settings = {"temperature": np.ones(1, np.float32), "seed": np.ones(1, np.int32)}
    result = replayed("qemu", signed, signer.public, given, settings, timeout_s=3600)
    if not result.ok or result.instructions is None:
        return Row(name, error=f"its replay fails: {result.error}")
    expected = list(known.chosen(given, settings))
    found = result.outputs[CHOSEN][:, 0].tolist()
    return Row(
        name,
        0,
        result.jobs,
        seconds,
        len(signed),
        result.secure_bytes,
        sum(value.nbytes for value in known.state.values()),
        result.instructions.replay,
        sum(one == other for one, other in zip(found, expected, strict=True)),
        len(expected),
    )


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.decoders", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *SIZES], help="sizes; default: all")
    parser.add_argument("--gpu", default=DEFAULT_GPU, choices=profile.names())
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = [measure(name, options.gpu) for name in options.names or SIZES]
    if options.json:
        print(json.dumps({row.name: dataclasses.asdict(row) for row in rows}))
    else:
        Console(highlight=False).print(_table(rows))
    return 0 if all(row.good for row in rows) else 1


def _table(rows: list[Row]) -> Table:
    titles = ("size", "parameters", "jobs", "recorded, built in", "signed", "secure memory", "state")
    table = Table(*titles, "instructions a token", "right", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        if row.error:
            table.add_row(row.name, row.error)
            continue
        sizes = [f"{count:,}" for count in (row.signed_bytes, row.secure_bytes, row.state_bytes, row.instructions)]
        took = "{:.0f} s, {:.0f} s".format(*row.seconds)
        table.add_row(row.name, f"{row.parameters:,}", str(row.jobs), took, *sizes, f"{row.same} of {row.chosen}")
    return table


if __name__ == "__main__":
    sys.exit(main())
