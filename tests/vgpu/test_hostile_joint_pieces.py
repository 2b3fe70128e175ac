# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile joint traces of streamed networks (tests/support/hostile_joint_pieces.py)."""

from __future__ import annotations

import pytest

from tee_replayer.generator.status import Report
from tests.support import hostile, hostile_joint_pieces
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile


def load(row: Hostile, networks: int = 2, streaming: bool = True) -> tuple[Report, s.Device]:
    """What the core says of a row."""
    device = s.Device(networks=networks, streaming=streaming)
    return hostile.by_core(row, device), device


@pytest.mark.parametrize("row", hostile_joint_pieces.LOADS, ids=str)
def test_it_is_refused_by_host_and_device(row: Hostile) -> None:
    hostile.check_refused(row, *load(row))


@pytest.mark.parametrize("row", hostile_joint_pieces.GOOD, ids=str)
def test_what_the_rows_start_from_is_good(row: Hostile) -> None:
    report, device = load(row)
    assert report.name == "OK"
    assert device.replayer.networks == 2
    assert hostile.by_host(row.make()) == ""


@pytest.mark.parametrize("row", hostile_joint_pieces.GOOD, ids=str)
def test_a_device_with_one_of_both_features_takes_none(row: Hostile) -> None:
    assert load(row, networks=0)[0].name == load(row, streaming=False)[0].name == "HEADER"
