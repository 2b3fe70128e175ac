# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile traces (tests/support/hostile.py) on the real firmware in Unicorn."""

from __future__ import annotations

import pytest

from tests.support import hostile
from tests.support import hostile_devices as devices
from tests.support.hostile_rows import Hostile


@pytest.mark.sampled(16)
@pytest.mark.parametrize("row", hostile.LOADS, ids=str)
def test_a_hostile_trace_is_refused_as_on_the_host(row: Hostile) -> None:
    answer = devices.on_unicorn(row)
    devices.check(row, answer, loads=False)
    assert answer.reason == devices.core(row).reason


@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", hostile.RUNS + hostile.GOOD, ids=str)
def test_a_hostile_trace_is_stopped_as_on_the_host(row: Hostile) -> None:
    answer = devices.on_unicorn(row)
    devices.check(row, answer, loads=True)
    assert answer.reason == devices.core(row).reason
