# SPDX-License-Identifier: BSD-2-Clause
"""A job that is started by a write under a mask is one to everyone: lint, those that follow jobs, devices.

Bits of a value outside its mask are not written: 0x101 under 0xff is the command 1. Lint once looked at the value
alone, so that a trace written so had no jobs for it, and none whose marker was missing.
"""

from __future__ import annotations

import numpy as np
import pytest

from host_tools import runners
from host_tools.accesses.job_starts import JobStarts
from host_tools.audit.jobs import jobs_of
from host_tools.audit.lint import lint
from host_tools.passes.pipeline import build
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import networks
from tests.support.signing_samples import ES256
from trace_format.actions import Op, actions_of, array_of
from trace_format.trace import Trace

JOBS = 14


@pytest.fixture(scope="module", params=["mali_g71", "v3d42"])
def lenet(request: pytest.FixtureRequest) -> Trace:
    return build(Trace.read(networks.COMMITTED[request.param]))


def masked(trace: Trace) -> Trace:
    """Each start of a Mali's as 0x101 under 0xff; of a V3D, whose start describes the job too, nothing changes."""
    starts = JobStarts(trace.profile)
    mali = not trace.gpu.startswith("v3d")
    rows = (
        row.with_(value=0x101, mask=0xFF) if mali and starts.of(row) else row for row in actions_of(trace.actions)
    )
    return trace.with_(actions=array_of(list(rows)))


def without_markers(trace: Trace) -> Trace:
    return trace.with_(actions=trace.actions[trace.actions["op"] != Op.JOB])


def unmarked(trace: Trace) -> int:
    return sum(finding.rule.id == "GR603" for finding in lint(trace))


def test_lint_finds_each_job_without_a_marker(lenet: Trace) -> None:
    assert unmarked(lenet) == unmarked(masked(lenet)) == 0
    plain = unmarked(without_markers(lenet))
    assert plain >= JOBS
    assert unmarked(without_markers(masked(lenet))) == plain


def test_jobs_are_followed_alike(lenet: Trace) -> None:
    one, other = (jobs_of(trace) for trace in (lenet, masked(lenet)))
    assert len(one.jobs) == len(other.jobs) >= JOBS


def test_a_device_runs_them(lenet: Trace) -> None:
    inputs = {"data": networks.picture(networks.LENET)}
    found = []
    for trace in (lenet, masked(lenet)):
        signed = sign_trace(trace.build(), ES256)
        result = runners.run("vgpu", Delivery(signed), ES256.public, inputs)
        assert result.ok, result.error
        found.append(result.outputs["prob"])
    assert np.array_equal(found[0], found[1])
