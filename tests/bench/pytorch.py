# SPDX-License-Identifier: BSD-2-Clause
"""Networks of PyTorch: recorded, built, signed and replayed in the secure world of QEMU.

`python -m tests.bench.pytorch FOLDER [NAME...] [--gpu GPU] [--compiler NAME...] [--json]`: a row a network of
tests/bench/torch_networks.py, which has written the files into the folder, by a Python that has PyTorch. What is
replayed was not recorded, and is compared with ONNX Runtime's result for the translated program and with PyTorch's
own. Exit status 1 if one is not recorded, fails or differs by more than 1e-5.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from host_tools.extras.pytorch.choose import choose_pytorch
from host_tools.extras.pytorch.convert import read_program
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import COMPILERS
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.bench.models import REPLAYED, Row, difference, replayed, table
from tests.bench.recordings import BOOT_S
from tests.bench.trained import Tensors
from trace_format import profile
from trace_format.errors import GramophoneError
from trace_format.trace import Trace


def measure(path: Path, gpu: str, compiler: str) -> Row:
    """The whole road of NAME.pt2, with the inputs in NAME.npz; a failure is a row, too."""
    row = Row(path.stem, "a network of PyTorch's")
    try:
        start = time.monotonic()
        choice = choose_pytorch(path, {}, compiler=compiler, gpu=gpu, timeout=BOOT_S)
        raw = choice.record(name=path.stem)
        row = dataclasses.replace(row, seconds=time.monotonic() - start)
        network = read_program(path)
        with np.load(path.with_suffix(".npz")) as arrays:
            given = {name: arrays[f"input{REPLAYED}_{at}"] for at, name in enumerate(network.inputs)}
            torch = {name: arrays[f"output{REPLAYED}_{at}"] for at, name in enumerate(network.outputs)}
        row, found = replayed(row, raw, given, onnx_model.run(network, given))
    except GramophoneError as error:
        return dataclasses.replace(row, error=" ".join(str(error).split()))
    if row.error:
        return row
    worst = max(row.difference, difference(found, torch))
    by = str(raw.notes["model"]["converter"])
    return dataclasses.replace(row, difference=worst, says=f"by {by}", gpu_instructions=_counted(raw, given))


def _counted(raw: Trace, given: Tensors) -> int:
    """Shader instructions of a replay, where the virtual GPU counts them."""
    slots = {slot.name: slot for slot in raw.slots}
    trace = build(raw)
    with interpreter(trace) as run:
        run.run({name: value.reshape(slots[name].shape) for name, value in given.items()})
        return int(run.gpu.counters().instructions)


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pytorch", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; default: all in the folder")
    parser.add_argument("--gpu", default=DEFAULT_GPU, choices=profile.names())
    parser.add_argument("--compiler", nargs="+", default=COMPILERS[:1], choices=COMPILERS, help="one row for each")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = []
    names = options.names or sorted(path.stem for path in options.folder.glob("*.pt2"))
    for name, compiler in itertools.product(names, options.compiler):
        rows.append(measure(options.folder / f"{name}.pt2", options.gpu, compiler))
        print(f"{name}: {rows[-1].error or f'{rows[-1].difference:.1e}'}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        Console(highlight=False, width=200).print(table(rows))
    return 0 if rows and all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
