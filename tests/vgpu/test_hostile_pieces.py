# SPDX-License-Identifier: BSD-2-Clause
"""The table of hostile streamed traces (tests/support/hostile_pieces.py): host and core refuse each."""

from __future__ import annotations

import pytest

from tee_replayer.generator.status import Report
from tests.support import hostile, hostile_pieces
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile


def load(row: Hostile, *, streaming: bool = True) -> tuple[Report, s.Device]:
    """What the core says of a row."""
    device = s.Device(streaming=streaming)
    return hostile.by_core(row, device), device


def test_there_are_enough_of_them() -> None:
    assert len(hostile_pieces.LOADS) >= 100
    assert len({row.name for row in hostile_pieces.LOADS}) == len(hostile_pieces.LOADS)


@pytest.mark.parametrize("row", hostile_pieces.LOADS, ids=str)
def test_it_is_refused_by_host_and_device(row: Hostile) -> None:
    hostile.check_refused(row, *load(row))


@pytest.mark.parametrize("row", hostile_pieces.LOADS, ids=str)
def test_a_device_without_the_feature_takes_none(row: Hostile) -> None:
    report, _ = load(row, streaming=False)
    assert report.name in ("HEADER", "SECTIONS")


@pytest.mark.parametrize("row", hostile_pieces.GOOD, ids=str)
def test_what_the_rows_start_from_is_good(row: Hostile) -> None:
    report, _ = load(row)
    assert report.name == "OK"
    assert hostile.by_host(row.make()) == row.error
    assert load(row, streaming=False)[0].name == "HEADER"
