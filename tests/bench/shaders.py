# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: how fast the virtual V3D executes shaders, those of a network's dispatches, on one core.

With AVX2 and no more, whatever the machine has, and clang where it is there, as `host_tools.vgpu.build` has it on
such machines. Another revision is measured in turn with the tree, so that what else the machine does slows both.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import KEEP_INPUTS
from host_tools.passes.pipeline import build as build_trace
from host_tools.vgpu import build
from tests.bench.networks import raw_trace
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]
ROUNDS = 7
MARCH = "-march=x86-64-v3"


@dataclass(frozen=True)
class Speed:
    """Of one network. Rates: millions of QPU instructions a second of CPU time, the best of some rounds.

    Attributes:
        before: of the revision that was named, or None.
    """

    name: str
    instructions: int
    rate: float
    before: float | None


def measure(name: str, revision: str | None = None) -> Speed:
    """Replay what is built of a recording on this tree's virtual GPU, and on that of a revision, in turn."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = raw_trace(name)
        trace = folder / "trace.gtr"
        trace.write_bytes(build_trace(Trace.parse(data), source=data, skip=KEEP_INPUTS).build(compress=False))
        trees = [TREE]
        if revision is not None:
            trees.append(_checked_out(revision, folder / "before"))
        workers = [stack.enter_context(_worker(tree, trace)) for tree in trees]
        rounds = [[_round(worker) for worker in workers] for _ in range(ROUNDS)]
    counts = {count for row in rounds for count, _ in row}
    if len(counts) != 1:
        raise AssertionError(f"{name}: replays differ in their instructions: {sorted(counts)}")
    rates = [_rate(column) for column in zip(*rounds, strict=True)]
    return Speed(name, counts.pop(), rates[0], rates[1] if revision is not None else None)


def _rate(rounds: Sequence[tuple[int, float]]) -> float:
    """The best rate of (instructions, seconds), in millions a second."""
    return max(count / seconds for count, seconds in rounds) / 1e6


def _checked_out(revision: str, folder: Path) -> Path:
    """The files of a revision of the repository."""
    found = subprocess.run(["git", "archive", revision], cwd=TREE, capture_output=True, check=False)
    if found.returncode != 0:
        raise GramophoneError(f"{revision}: {found.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@contextlib.contextmanager
def _worker(tree: Path, trace: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that replays with a tree's virtual GPU, a round for each line that it is sent."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        [sys.executable, str(HERE), str(trace)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,
        env=environment,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _round(worker: subprocess.Popen[str]) -> tuple[int, float]:
    """Instructions of one replay, and its CPU seconds."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    line = worker.stdout.readline().split()
    if len(line) != 2:
        raise GramophoneError(f"a replay ended with status {worker.wait()}")
    return int(line[0]), float(line[1])


def _replay(trace: Path) -> None:
    """What a worker does. The first replay, which compiles and has the prologue, does not count."""
    build.CFLAGS[build.CFLAGS.index("-march=native")] = MARCH
    if shutil.which("clang"):
        os.environ.setdefault("CC", "clang")
    with interpreter(Trace.parse(trace.read_bytes()), threads=1) as run:
        run.run()
        for _ in sys.stdin:
            before = run.gpu.counters().instructions
            start = time.process_time()
            run.run()
            seconds = time.process_time() - start
            print(run.gpu.counters().instructions - before, seconds, flush=True)


def lines(rows: list[Speed]) -> dict[str, list[str]]:
    """What to print: a line a figure, a cell a network."""
    found = {
        "one replay, QPU instructions": [f"{row.instructions:,}" for row in rows],
        "M QPU instructions/s/core": [f"{row.rate:,.0f}" for row in rows],
    }
    if any(row.before is not None for row in rows):
        found["  before"] = ["" if row.before is None else f"{row.before:,.0f}" for row in rows]
        found["  times as fast"] = ["" if row.before is None else f"{row.rate / row.before:.2f}" for row in rows]
    return found


if __name__ == "__main__":
    _replay(Path(sys.argv[1]))
