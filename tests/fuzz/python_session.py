# SPDX-License-Identifier: BSD-2-Clause
"""A target in Python: run for some time, its coverage counted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import parsers
from tests.fuzz.session import Count, Result
from tests.support.places import CHECKOUT

LIMIT_FACTOR = 3  # of the time given: then the process is stopped, and that is a finding


def run(name: str, folder: Path, seconds: float, runs: int = 0) -> Result:
    """Fuzz a parser; `folder` keeps the corpus that grows, and findings."""
    findings, corpus = folder / "findings", folder / "corpus"
    for path in (findings, corpus):
        path.mkdir(parents=True, exist_ok=True)
    known, start = set(findings.iterdir()), time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), str(seconds), str(runs)]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60 + LIMIT_FACTOR * seconds,
        check=False,
    )
    log = done.stdout + done.stderr
    found = tuple(sorted(set(findings.iterdir()) - known))
    if done.returncode and not found:
        raise RuntimeError(f"{name} could not be fuzzed:\n{log[-3000:]}")
    counts = re.findall(r"^runs (\d+)$|stat::number_of_executed_units: (\d+)", log, re.MULTILINE)
    inputs = sorted(corpus.iterdir())
    lines, branches = covered(name, folder, inputs) if inputs else ((0, 0), (0, 0))
    total = int("".join(counts[-1])) if counts else 0
    return Result(name, total, time.monotonic() - start, len(inputs), lines, branches, found, log[-6000:])


def covered(name: str, folder: Path, inputs: Sequence[Path]) -> tuple[Count, Count]:
    """Lines and branches of the parser's modules that these inputs execute."""
    data, report = folder / "coverage", folder / "coverage.json"
    modules = (module.replace(".", "/") + ".py" for module in parsers.PARSERS[name].files)
    names = ",".join(str(CHECKOUT / module) for module in modules)
    python = [sys.executable, "-m", "coverage"]
    environment = {**os.environ, "COVERAGE_FILE": str(data)}
    worker = ["-m", "tests.fuzz.worker", name, *map(str, inputs)]
    for words in (
        ["run", "--rcfile=/dev/null", "--branch", f"--include={names}", *worker],
        ["json", "--rcfile=/dev/null", "--quiet", "-o", str(report)],
    ):
        subprocess.run([*python, *words], cwd=CHECKOUT, env=environment, capture_output=True, check=True)
    sums = json.loads(report.read_text())["totals"]
    return (
        (sums["covered_lines"], sums["num_statements"]),
        (sums["covered_branches"], sums["num_branches"]),
    )
