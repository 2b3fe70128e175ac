# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone check` says of trained networks, and what `gramophone record` does: compiler, jobs, seconds.

`python -m tests.bench.foreseen [NAME...] [--gpu GPU] [--kept FOLDER] [--again | --page]`: networks of
tests/bench/trained.py and strangers.py, each by the two commands as a user would type them. A row is kept in a
folder and not measured again; `--again` checks what is kept once more, after a change of what `check` says, and
records nothing; `--page` prints what is kept and measures nothing. Exit status 1 if a compiler or a count of jobs
is another than foreseen, or the time by more than FACTOR.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.record import onnx_model
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.bench.models import RECORDED
from tests.bench.strangers import STRANGERS
from tests.bench.trained import MODELS
from tests.support.places import CHECKOUT
from trace_format.trace import Trace

FACTOR = 2.0
COMMAND = (sys.executable, "-m", "host_tools")
LEAVES_OUT = ("picodet", "yolox", "nudenet")  # minutes each, and of another's kind


@dataclass(frozen=True)
class Row:
    """One network.

    Attributes:
        compiler, jobs, seconds: pairs of what was foreseen and what was.
        check_cpu_s, record_cpu_s: of the processor, for each command.
        refused: what `check` said instead, with status 2, or `record`; `check_cpu_s` is that command's then.
    """

    name: str
    compiler: tuple[str, str] = ("", "")
    jobs: tuple[int, int] = (0, 0)
    seconds: tuple[float, float] = (0, 0)
    check_cpu_s: float = 0
    record_cpu_s: float = 0
    refused: str = ""

    @property
    def is_good(self) -> bool:
        foreseen, taken = self.seconds
        alike = self.compiler[0] == self.compiler[1] and self.jobs[0] == self.jobs[1]
        return not self.refused and alike and taken / FACTOR <= foreseen <= taken * FACTOR


def words(name: str, folder: Path) -> list[str]:
    """The network's file, and the options that its shapes and constants need."""
    if name in STRANGERS:
        stranger = STRANGERS[name]
        return [str(stranger.path), *stranger.words.split()]
    model = MODELS[name]
    network = onnx_model.read(model.path)
    found = [str(model.path)]
    for of, value in model.constants.items():
        if of in network.inputs:
            np.save(folder / f"{of}.npy", value)
            found += ["--constant", f"{of}={folder / of}.npy"]
    for of, value in model.make(RECORDED).items():
        if of in network.inputs:
            found += ["--shape", f"{of}={'x'.join(map(str, value.shape))}"]
    return found


def run(*given: str) -> tuple[dict[str, Any], float, float]:
    """The object that a command prints, its seconds, and those of the processor.

    Raises:
        RuntimeError: it says why not; the processor's seconds are behind that.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([*COMMAND, *given, "--json"], capture_output=True, text=True, cwd=CHECKOUT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise RuntimeError(said.splitlines()[-1], cpu)
    return json.loads(done.stdout), time.monotonic() - start, cpu


def measured(name: str, gpu: str) -> Row:
    """Check a network, record it; a refusal is a row, too."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as made:
        folder = Path(made)
        try:
            given = [*words(name, folder), "--gpu", gpu]
            foreseen, _, check_cpu = run("check", *given)
            kind = "tflite" if given[0].endswith(".tflite") else "onnx"
            raw = folder / "net.raw.gtr"
            recorded, seconds, record_cpu = run("record", kind, *given, "-o", str(raw))
            notes = Trace.parse(raw.read_bytes(), name).notes
        except RuntimeError as error:
            said, cpu = error.args
            return Row(name, refused=said.replace(str(folder), "."), check_cpu_s=cpu)
    by = "ncnn" if str(notes["model"]["converter"]).startswith("pnnx") else "tinygrad"
    return Row(
        name,
        (foreseen["compiler"], by),
        (foreseen["jobs"], recorded["jobs"]),
        (foreseen["seconds"], seconds),
        check_cpu,
        record_cpu,
    )


def again(row: Row, gpu: str) -> Row:
    """A row with what `check` says now."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as made:
        said, _, _ = run("check", *words(row.name, Path(made)), "--gpu", gpu)
    return replace(
        row,
        compiler=(said["compiler"], row.compiler[1]),
        jobs=(said["jobs"], row.jobs[1]),
        seconds=(said["seconds"], row.seconds[1]),
    )


def page(rows: list[Row]) -> str:
    """The table, as docs/BREADTH.md has it."""
    lines = ["| network | compiler | jobs | `check` took, CPU | said | `record` took | ratio |", "|---" * 7 + "|"]
    for row in rows:
        if row.refused:
            lines.append(f"| {row.name} | refused: {row.refused} | | {row.check_cpu_s:.0f} s | | | |")
            continue
        foreseen, taken = row.seconds
        pairs = [str(a) if a == b else f"{a}, then {b}" for a, b in (row.compiler, row.jobs)]
        cells = [
            *pairs,
            f"{row.check_cpu_s:.0f} s",
            f"{foreseen:.0f} s",
            f"{taken:.0f} s",
            f"{taken / foreseen:.2f}",
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure what is not kept, and print the table."""
    names = [name for name in (*STRANGERS, *MODELS) if name not in LEAVES_OUT]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.foreseen", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *names], help="networks; default: all")
    parser.add_argument("--gpu", default=DEFAULT_GPU)
    parser.add_argument("--kept", type=Path, default=CHECKOUT / "build/foreseen")
    less = parser.add_mutually_exclusive_group()
    less.add_argument("--again", action="store_true", help="check what is kept; record nothing")
    less.add_argument("--page", action="store_true", help="measure nothing; print what is kept")
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.names or names:
        file = options.kept / f"{name}.{options.gpu}.json"
        kept = Row(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
        row = kept
        if options.again and kept is not None and not kept.refused:
            row = again(kept, options.gpu)
        elif kept is None and not options.again and not options.page:
            row = measured(name, options.gpu)
        if row is not None and row is not kept:
            file.write_text(json.dumps(asdict(row)), encoding="utf-8")
            print(row, file=sys.stderr, flush=True)
        rows += [row] if row is not None else []
    print(page(rows))
    print(f"{len(rows)} networks, {sum(row.is_good for row in rows)} as foreseen")
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
