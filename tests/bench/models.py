# SPDX-License-Identifier: BSD-2-Clause
"""Trained networks from PyPI's packages: recorded, built, signed and replayed in the secure world of QEMU.

`python -m tests.bench.models [NAME...] [--gpu GPU] [--json]`: a row a network of tests/bench/trained.py. Each is
recorded with one input and replayed with another, and compared with ONNX Runtime's result for the file as it is
in the package. Exit status 1 if one is not recorded, fails or differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import COMPILERS, TINYGRAD
from host_tools.record.differences import relative_difference
from host_tools.record.frontends import record_onnx
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.recordings import BOOT_S
from tests.bench.trained import MODELS, Model, Tensors
from trace_format import profile
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

LIMIT = 1e-5  # of the difference, in float32
STEP = 1 / 127  # of it, where a network rounds activations to 8 bits: one rounding
ROUNDING = ("DynamicQuantizeLinear", "DynamicQuantizeLSTM", "QuantizeLinear")
RECORDED, REPLAYED = 0, 1  # seeds of the inputs


@dataclass(frozen=True)
class Row:
    """One network.

    Attributes:
        instructions: the CPU's, of one replay.
        secure_bytes: the carve-out.
        difference: of the replay from ONNX Runtime, relative to the largest value; the worst output's.
        limit: of the difference.
        seconds: to record it, with the checks of `record`.
        says: what the replay's outputs mean.
        error: why there is no row, else empty.
        gpu_instructions: of one replay; 0: not counted.
    """

    name: str
    what: str
    jobs: int = 0
    instructions: int = 0
    signed_bytes: int = 0
    secure_bytes: int = 0
    difference: float = float("inf")
    limit: float = LIMIT
    seconds: float = 0.0
    says: str = ""
    error: str = ""
    gpu_instructions: int = 0

    @property
    def good(self) -> bool:
        return not self.error and self.difference <= self.limit


def measure(name: str, gpu: str, compiler: str) -> Row:
    """Record, build, sign, replay, compare; a failure is a row, too."""
    model = MODELS[name]
    try:
        return _measured(name, model, gpu, compiler)
    except GramophoneError as error:
        return Row(name, model.what, error=" ".join(str(error).split()))


def _measured(name: str, model: Model, gpu: str, compiler: str) -> Row:
    start = time.monotonic()
    network = onnx_model.read(model.path)
    constants = {of: value for of, value in model.constants.items() if of in network.inputs}
    recorded = {of: value for of, value in model.make(RECORDED).items() if of in network.inputs}
    raw = record_onnx(
        model.path,
        {of: value.shape for of, value in recorded.items()},
        compiler=compiler,
        values=recorded if compiler == TINYGRAD else None,
        constants=constants,
        name=name,
        gpu=gpu,
        timeout=BOOT_S,
    )
    seconds = time.monotonic() - start
    given = {of: value for of, value in model.make(REPLAYED).items() if of in network.inputs}
    typed = {of: np.asarray(value, network.types[of]) for of, value in {**given, **constants}.items()}
    row, found = replayed(Row(name, model.what, seconds=seconds), raw, given, onnx_model.run(network, typed))
    if any(kind in network.operators for kind in ROUNDING):
        row = dataclasses.replace(row, limit=STEP)
    return row if row.error else dataclasses.replace(row, says=model.says(model.package.folder(), found))


def replayed(row: Row, raw: Trace, given: Tensors, expected: Tensors) -> tuple[Row, Tensors]:
    """Build, sign and replay a recording.

    Args:
        row: what is known of it.
        raw: the recording.
        given: inputs, in the shapes that the network has.
        expected: what it should make of them.

    Returns:
        The row with what was found, and the outputs in the shapes of what was expected.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(build(raw).build(), signer)
    slots = {slot.name: slot for slot in raw.slots}
    inputs = {of: value.reshape(slots[of].shape).astype(slots[of].numpy_dtype) for of, value in given.items()}
    result = runners.run("qemu", Delivery(signed), signer.public, inputs)
    if not result.ok or result.instructions is None:
        return dataclasses.replace(row, error=f"its replay fails: {result.error}"), {}
    found = {of: result.outputs[of].reshape(value.shape) for of, value in expected.items()}
    measured = dataclasses.replace(
        row,
        jobs=result.jobs,
        instructions=result.instructions.replay,
        signed_bytes=len(signed),
        secure_bytes=result.secure_bytes,
        difference=difference(found, expected),
    )
    return measured, found


def difference(found: Tensors, expected: Tensors) -> float:
    """The greatest of any output's, relative to its largest value."""
    return max(relative_difference(found[name], tensor) for name, tensor in expected.items())


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.models", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], help="networks; default: all")
    parser.add_argument("--gpu", default=DEFAULT_GPU, choices=profile.names())
    parser.add_argument("--compiler", default=TINYGRAD, choices=COMPILERS)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = []
    for name in options.names or MODELS:
        rows.append(measure(name, options.gpu, options.compiler))
        print(f"{name}: {rows[-1].error or f'{rows[-1].difference:.1e}'}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({row.name: dataclasses.asdict(row) for row in rows}))
    else:
        Console(highlight=False).print(table(rows))
    return 0 if all(row.good for row in rows) else 1


def table(rows: list[Row]) -> Table:
    """What to print."""
    counted = any(row.gpu_instructions for row in rows)
    titles = ["network", "jobs", "instructions", "signed", "carve-out", "difference", "recorded in", "says"]
    if counted:
        titles.insert(3, "of the GPU")
    made = Table(*titles, box=None, pad_edge=False)
    for column in made.columns[1:-1]:
        column.justify = "right"
    for row in rows:
        gpu = [row.gpu_instructions] if counted else []
        counts = (row.jobs, row.instructions, *gpu, row.signed_bytes, row.secure_bytes)
        cells = [f"{count:,}" for count in counts] + [f"{row.difference:.1e}", f"{row.seconds:.0f} s", row.says]
        made.add_row(row.name, *([""] * (len(titles) - 2) + [row.error] if row.error else cells))
    return made


if __name__ == "__main__":
    sys.exit(main())
