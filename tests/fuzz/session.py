# SPDX-License-Identifier: BSD-2-Clause
"""A target in C: built, run for some time, its coverage counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import targets
from tests.support.places import CHECKOUT

MEMORY_MIB = 1024  # of a process; libFuzzer watches it, for a limit of addresses leaves AddressSanitizer no room
INPUT_SECONDS = 10  # of a single input: more is a finding
Count = tuple[int, int]  # executed, of how many


@dataclass(frozen=True)
class Result:
    """What a target's run gave.

    Attributes:
        name: of the target.
        runs: how many, the known inputs among them.
        seconds: wall time that they took.
        inputs: in the corpus after that.
        lines, branches: of the fuzzed files, executed by the corpus.
        findings: files, each an input.
        log: the end of what it printed.
    """

    name: str
    runs: int
    seconds: float
    inputs: int
    lines: Count
    branches: Count
    findings: tuple[Path, ...]
    log: str

    def __str__(self) -> str:
        cells = [
            f"{hit:,} of {every:,} {100 * hit / max(every, 1):3.0f}%" for hit, every in (self.lines, self.branches)
        ]
        rate = self.runs / max(self.seconds, 0.001)
        return (
            f"{self.name:<22}{self.runs:>12,}{rate:>9,.0f}{self.inputs:>8,}{cells[0]:>18}{cells[1]:>18}"
            f"{len(self.findings):>10}"
        )


def environment() -> dict[str, str]:
    """For the sanitizers: what they find ends the process."""
    return {
        **os.environ,
        "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


# libFuzzer's programs are started by a shell that stays: the kernel counts the memory of who starts a program as
# its own peak, and here that may be a process that has run all tests before.
IN_A_SHELL = ("/bin/sh", "-c", '"$@"; exit $?', "sh")


def run(name: str, folder: Path, seconds: float, options: Sequence[str] = ()) -> Result:
    """Fuzz a target; `folder` keeps the program, the corpus that grows, and findings."""
    target = targets.TARGETS[name]
    program = targets.build(target, folder / "program")
    corpus, findings = folder / "corpus", folder / "findings"
    for path in (corpus, findings):
        path.mkdir(parents=True, exist_ok=True)
    known = set(findings.iterdir())
    command = [
        str(program),
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={target.max_len}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-malloc_limit_mb={MEMORY_MIB // 2}",
        f"-timeout={INPUT_SECONDS}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
        "-verbosity=1",
        *options,
        str(corpus),
        *map(str, target.seeds),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment(), check=False
    )
    log = done.stderr
    found = tuple(sorted(set(findings.iterdir()) - known))
    if done.returncode and not found:
        raise RuntimeError(f"{name} could not be fuzzed:\n{log[-3000:]}")
    runs = _last(r"stat::number_of_executed_units: (\d+)", log) or _last(r"^#(\d+)\t", log)
    took = _last(r"Done \d+ runs in (\d+) second", log) or round(seconds)
    inputs = [path for each in (corpus, *target.seeds) for path in each.iterdir()]
    lines, branches = covered(target, folder / "counting", inputs)
    return Result(name, runs, took, len(inputs), lines, branches, found, log[-6000:])


def _last(pattern: str, text: str) -> int:
    numbers = re.findall(pattern, text, re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


def covered(target: targets.Target, folder: Path, inputs: Sequence[Path]) -> tuple[Count, Count]:
    """Lines and branches of the fuzzed files that these inputs execute, by gcc's counters."""
    shutil.rmtree(folder, ignore_errors=True)
    program = targets.build(target, folder, counting=True)
    for at in range(0, len(inputs), 500):
        files = [str(path) for path in inputs[at : at + 500]]
        subprocess.run([str(program), *files], capture_output=True, check=False)
    report = folder / "report.json"
    filters = [word for path in target.fuzzed for word in ("--filter", re.escape(str(path)))]
    options = ["--merge-mode-functions=separate", "--gcov-ignore-errors=all", "--json", str(report)]
    command = [sys.executable, "-m", "gcovr", "--root", str(CHECKOUT), *filters, *options, str(folder)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    rows = [line for file in json.loads(report.read_text())["files"] for line in file["lines"]]
    ways = [branch for line in rows for branch in line["branches"]]
    return (
        (sum(line["count"] > 0 for line in rows), len(rows)),
        (sum(branch["count"] > 0 for branch in ways), len(ways)),
    )
