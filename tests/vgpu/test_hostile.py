# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile traces (tests/support/hostile.py) on the replayer's core, in its build for this machine."""

from __future__ import annotations

import functools

import pytest

from host_tools.audit.verdicts import rules_of_report
from tests.support import hostile
from tests.support import hostile_devices as devices
from tests.support.hostile_rows import Hostile
from trace_format.schema.report import Phase

ROWS = {str(row): row for row in hostile.TABLE}


@functools.cache
def answer_to(name: str) -> devices.Answer:
    """The core's to a row, which two tests look at."""
    return devices.core(ROWS[name])


@pytest.mark.parametrize("row", hostile.LOADS, ids=str)
def test_a_hostile_trace_is_refused_though_it_is_signed(row: Hostile) -> None:
    answer = answer_to(str(row))
    devices.check(row, answer, loads=False)
    assert row.status == "OK" or answer.report.phase == Phase.LOAD


@pytest.mark.parametrize("row", hostile.RUNS, ids=str)
def test_a_hostile_trace_is_stopped_when_it_runs(row: Hostile) -> None:
    devices.check(row, answer_to(str(row)), loads=True)


@pytest.mark.parametrize("row", hostile.GOOD, ids=str)
def test_what_the_rows_start_from_is_good(row: Hostile) -> None:
    answer = devices.core(row)
    devices.check(row, answer, loads=True)
    assert answer.writes > 0
    assert hostile.by_host(row.make()) == ""


# Rules of which only a device sees what breaks them: its memory, its version, its GPU, what a caller gives.
ONLY_A_DEVICE = {"GR005", "GR406", "GR604"}


@pytest.mark.sampled(200)
@pytest.mark.parametrize("row", hostile.TABLE, ids=str)
def test_host_and_device_name_the_same_rule(row: Hostile) -> None:
    """What the core reports is what every device reports (tests/emulated, tests/qemu, tests/optee)."""
    by_device = {rule.id for rule in rules_of_report(answer_to(str(row)).report)}
    assert bool(by_device) == (row.status != "OK")
    seen = hostile.rules_by_host(row.make()) | ONLY_A_DEVICE
    assert not by_device or by_device & seen or row.name in hostile.ONLY_A_DEVICE
