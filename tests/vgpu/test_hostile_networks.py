# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile joint traces (tests/support/hostile_networks.py): host and core give the same reason."""

from __future__ import annotations

import pytest

from tee_replayer.generator.status import Report
from tests.support import hostile, hostile_networks
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile

CARVEOUT_BYTES = 4 << 20


def load(row: Hostile, networks: int = hostile_networks.NETWORKS) -> tuple[Report, s.Device]:
    """What the core says of a row."""
    device = s.Device(carveout_bytes=CARVEOUT_BYTES, networks=networks)
    return hostile.by_core(row, device), device


def test_there_are_enough_of_them() -> None:
    assert len(hostile_networks.LOADS) >= 60
    assert len({row.name for row in hostile_networks.LOADS}) == len(hostile_networks.LOADS)


@pytest.mark.parametrize("row", hostile_networks.LOADS, ids=str)
def test_it_is_refused_by_host_and_device(row: Hostile) -> None:
    hostile.check_refused(row, *load(row))


@pytest.mark.parametrize("row", hostile_networks.LOADS, ids=str)
def test_a_device_for_one_network_takes_none(row: Hostile) -> None:
    report, _ = load(row, networks=0)
    assert report.name in ("HEADER", "SECTIONS")


@pytest.mark.parametrize("row", hostile_networks.GOOD, ids=str)
def test_what_the_rows_start_from_is_good(row: Hostile) -> None:
    report, device = load(row)
    assert report.name == "OK"
    assert device.replayer.networks >= 2
    assert hostile.by_host(row.make()) == ""
    assert load(row, networks=0)[0].name == "HEADER"


def test_more_networks_than_the_device_has_room_for() -> None:
    row = next(row for row in hostile_networks.GOOD if "eight" in row.name)
    assert load(row, networks=7)[0].name == "NETWORKS"
