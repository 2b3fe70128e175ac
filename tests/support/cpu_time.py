# SPDX-License-Identifier: BSD-2-Clause
"""`--cpu N`: the processor time of tests and files, the N largest first.

Wall time says little on a machine that others use too. Counted is what the process and its ended children used,
user and system, in all phases of a test; a fixture counts for the first test that asks for it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from operator import itemgetter

import pytest


def _now() -> float:
    """Processor seconds of this process and its children so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


_last = _now()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu", type=int, default=0, metavar="N", help="Show the N tests and files with most CPU time."
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what was used since the last phase's end; pytest-xdist carries the attribute to the first process."""
    global _last
    report = yield
    now = _now()
    vars(report)["cpu_seconds"], _last = now - _last, now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.getoption("--cpu")
    if not count:
        return
    tests: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds = getattr(report, "cpu_seconds", 0.0)
                tests[report.nodeid] += seconds
                files[report.nodeid.partition("::")[0]] += seconds
    terminalreporter.section(f"processor time: {sum(files.values()):.0f} s")
    for title, table in (("files", files), ("tests", tests)):
        terminalreporter.line(f"{title}:")
        for name, seconds in sorted(table.items(), key=itemgetter(1), reverse=True)[:count]:
            terminalreporter.line(f"{seconds:9.2f} s  {name}")
