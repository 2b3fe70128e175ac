# SPDX-License-Identifier: BSD-2-Clause
"""Fault injection on OP-TEE's path: a sample of the campaign (docs/TESTING.md) over OP-TEE's own crypto."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import cases, report, sampling
from tests.campaign.campaign import Campaign, Result
from tests.campaign.device import OPTEE, Device
from tests.campaign.faults import KINDS

GPU = "v3d42"
# The last instructions of LibTomCrypt's verdict, and our own code after it.
FEW = sampling.Share(1, 12, 1, 12, 1)
SHARES = sampling.Shares(FEW, FEW, FEW, FEW, sampling.Share(1, 2, 0, 0, 0), sampling.Share(1, 2, 0, 2, 0))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("campaign"), {OPTEE: SHARES}, jobs=1)


@pytest.fixture(scope="module")
def device(pta: Path, campaign: Campaign) -> Device:
    """After `pta`, which skips where OP-TEE cannot be built."""
    assert pta.is_dir()
    return campaign.device(GPU, OPTEE)


def test_no_single_fault_accepts_a_strangers_signature(campaign: Campaign, device: Device) -> None:
    result = Result()
    case = next(case for case in cases.cases_of(GPU) if case.status == "SIGNATURE")
    campaign.attack(device, case, KINDS, result)
    assert not result.spoilt
    assert len(result.table.rows) == len(KINDS)
    assert result.ok, "\n".join(map(str, result.findings))


def test_a_strangers_trace_that_gets_through_is_noticed(campaign: Campaign, device: Device) -> None:
    counts = report.Counts()
    counts.add(campaign.planted(device))
    assert (counts.accepted, counts.written, counts.ok) == (1, 1, False)
