# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone bench` says of jobs: all work of a replay after its first job, divided without a rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from host_tools.accesses.job_costs import job_costs
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.interpreter import interpreter
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace
from trace_format.actions import Op
from trace_format.trace import Trace


def test_the_jobs_of_a_network() -> None:
    trace = Trace.read(RAW)
    costs = job_costs(trace, {}, 3)
    assert len(costs) == trace.jobs
    ops = trace.actions["op"]
    assert sum(cost.actions for cost in costs) == len(ops) - int(np.argmax(ops == Op.JOB))
    with interpreter(trace) as run:
        run.run()
        before = run.gpu.counters()
        run.run()
        after = run.gpu.counters()
    for name in ("instructions", "bytes_read", "bytes_written"):
        assert sum(getattr(cost, name) for cost in costs) == getattr(after, name) - getattr(before, name)
    assert all(0 < cost.minimum_s <= cost.median_s for cost in costs)
    assert max(cost.instructions for cost in costs) == costs[1].instructions  # the first convolution


def test_a_trace_without_jobs(tmp_path: Path) -> None:
    """The figures of the whole are there, and no row of a job."""
    (tmp_path / "net.sgtr").write_bytes(sign_trace(small_trace(), ES256))
    (tmp_path / "pub.pem").write_bytes(ES256.public.pem())
    words = ["bench", f"{tmp_path}/net.sgtr", "--key", f"{tmp_path}/pub.pem", "--repeat", "3"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["replays"], found["job_costs"], found["instructions"]) == (3, [], None)
    assert 0 < found["replay_seconds"]["minimum"] <= found["replay_seconds"]["median"]
    assert "3 replays" in CliRunner().invoke(main, words).stdout.splitlines()[0]


def test_a_refused_trace_is_exit_status_1(tmp_path: Path) -> None:
    signed = bytearray(sign_trace(small_trace(), ES256))
    signed[-20] ^= 1
    (tmp_path / "net.sgtr").write_bytes(signed)
    (tmp_path / "pub.pem").write_bytes(ES256.public.pem())
    done = CliRunner().invoke(main, ["bench", f"{tmp_path}/net.sgtr", "--key", f"{tmp_path}/pub.pem"])
    assert done.exit_code == 1
    assert done.stdout.startswith("refused on virtual GPU")
