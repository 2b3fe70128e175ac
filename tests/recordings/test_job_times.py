# SPDX-License-Identifier: BSD-2-Clause
"""Durations of the jobs in GPUReplay's recordings, and what the jobs of the smallest one do."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.extras.importers.gpureplay import HISTORY
from host_tools.model.timing import chips, estimate
from tests.bench.time import g71


@pytest.mark.parametrize(("name", "jobs"), [("mnist", 23), ("alexnet", 60), ("mobilenet", 104)])
def test_every_job_has_a_duration(recordings: Path, name: str, jobs: int) -> None:
    """Between 12 us and 78 ms."""
    found = g71.durations((recordings / name / HISTORY).read_bytes())
    assert len(found) == jobs
    assert min(found) > 10
    assert max(found) < 80_000


def test_the_jobs_of_mnist(recordings: Path) -> None:
    """Five prepare weights. Estimates go through the features that are fitted: both give the same time."""
    jobs = g71.measured(recordings, "mnist")
    assert [job.prepares for job in jobs] == [True] * 5 + [False] * 18
    chip = chips()[g71.CHIP]
    values = {name: constant.value for name, constant in chip.constants.items()}
    weights = [1 / values[name] if name == "bandwidth" else values[name] for name in g71.FITTED]
    by_features = g71.features(jobs) @ weights
    for job, us in zip(jobs, by_features, strict=True):
        assert estimate(job.dispatches, chip).us == pytest.approx(us)
