# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed time`: estimates of jobs, and what it refuses to estimate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.accesses.job_times import estimated, job_times
from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import random_inputs
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.gpus.mali.timing import job_cores
from host_tools.model.job_names import NOTE
from host_tools.model.timing import chips, estimate
from host_tools.passes.pipeline import build
from signing.sign import sign_trace
from tests.support import chips as no_chip
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256, small_trace
from trace_format.actions import Action, Op
from trace_format.trace import Trace

MALI, V3D71 = (CHECKOUT / f"tests/support/lenet.{gpu}.raw.gtr" for gpu in ("mali_g71", "v3d71"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("time") / "net.gtr"
    path.write_bytes(build(Trace.read(RAW)).build())
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["speed", "time", *map(str, words)])


def refused(*words: object) -> str:
    """The sentence of exit status 2; no traceback, nothing on standard output."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def with_affinity(trace: Trace, mask: int, job: int = 0) -> Trace:
    """Of a Mali: a job runs on other cores."""
    register = trace.profile.register("js1.AFFINITY_NEXT_LO").index
    rows = trace.actions.copy()
    found = [
        at for at, row in enumerate(rows) if row["op"] == Op.REG_WRITE and Action.of(row).register == register
    ]
    rows[found[job]] = Action.of(rows[found[job]]).with_(value=mask)
    return trace.with_(actions=rows)


def test_the_jobs_of_a_network(built: Path) -> None:
    done = run(built, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    trace = Trace.read(built)
    assert (found["chip"], found["gpu"], len(found["jobs"])) == ("pi4", "v3d42", trace.jobs)
    assert "no times of hardware" in found["notice"]
    assert found["warnings"]
    for job in found["jobs"]:
        assert 0 < job["low_us"] < job["us"] < job["high_us"]
        assert job["parts"][job["binds"]] == max(job["parts"].values())
        assert trace.actions[job["action"]]["op"] == Op.JOB
    for key in ("us", "low_us", "high_us"):
        assert found["replay"][key] == pytest.approx(sum(job[key] for job in found["jobs"]))
    assert found["start_up"] == {"us": 0, "low_us": 0, "high_us": 0}
    longest = max(found["jobs"], key=lambda job: job["us"])
    assert (found["jobs"].index(longest), longest["binds"]) == (1, "issue")  # the first convolution
    assert set(found["guesses"]) == {name for name, c in chips()["pi4"].constants.items() if c.guess}


def test_what_people_see(built: Path) -> None:
    """A row a job with a bar, the longest for the longest job; the chip is named, and that these are estimates."""
    done = run(built, "--chip", "pi4")
    lines = done.stdout.splitlines()
    assert lines[0] == "Raspberry Pi 4 (BCM2711, V3D 4.2): estimated microseconds"
    bars = [line.count("#") for line in lines[2:16]]
    assert (max(bars), bars.index(30)) == (30, 1)
    assert lines[16].startswith("     a replay")
    assert lines[-1].startswith("bound by: issue ")
    assert "no times of hardware" in done.stderr


def test_a_signed_trace_and_one_whose_preparation_runs_once(tmp_path: Path) -> None:
    trace = build(Trace.read(MALI))
    path = tmp_path / "net.sgtr"
    path.write_bytes(sign_trace(trace.build(), ES256))
    found = json.loads(run(path, "--json").stdout)
    assert found["chip"] == "hikey960"
    once = [job for job in found["jobs"] if job["prepares"]]
    assert found["start_up"]["us"] == pytest.approx(sum(job["us"] for job in once))
    assert found["replay"]["us"] == pytest.approx(sum(job["us"] for job in found["jobs"] if not job["prepares"]))


def test_the_estimate_does_not_depend_on_inputs(built: Path) -> None:
    trace = Trace.read(built)
    times = [
        [estimate(job.dispatches, chips()["pi4"]).us for job in job_work(trace, random_inputs(trace, seed))]
        for seed in (0, 1)
    ]
    np.testing.assert_allclose(times[0], times[1], rtol=0.02)


@pytest.mark.parametrize("raw", [RAW, V3D71])
def test_lists_are_refused(raw: Path) -> None:
    assert "runs a bin or render list, which the time model does not know" in refused(raw)


@pytest.mark.parametrize(("mask", "cores"), [(0x0F, 4), (0x01, 1), (0xF0, 4), (0xFE, 7)])
@pytest.mark.parametrize("job", [0, 3])
def test_a_mali_with_masks(mask: int, cores: int, job: int, tmp_path: Path) -> None:
    """A job on some of the cores takes longer, by those that it can use; the others as long as before."""
    trace = Trace.read(MALI)
    times = job_times(trace, chips()["hikey960"])
    masked = with_affinity(trace, mask, job)
    assert job_cores(masked) == [cores if number == job else 0 for number in range(trace.jobs)]
    for number, ((work, alone), (_, found)) in enumerate(
        zip(times, job_times(masked, chips()["hikey960"]), strict=True)
    ):
        useful = min(8, sum(row.workgroups for row in work.dispatches))
        least = useful / min(useful, cores) if number == job else 1
        assert found.parts["lines"] == pytest.approx(alone.parts["lines"] * least)
        assert found.parts["start"] == alone.parts["start"]


def test_all_cores_and_more_are_no_mask() -> None:
    trace = Trace.read(MALI)
    assert not any(job_cores(trace))
    assert not any(job_cores(with_affinity(trace, 0xFFFFFFFF)))


def test_other_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.gtr"
    path.write_bytes(small_trace())
    assert refused(path).endswith("it has no GPU jobs")
    other = Trace.read(MALI).with_(gpu=no_chip.GPU)
    path.write_bytes(other.build())
    no_chip.forget(monkeypatch)
    assert no_chip.REFUSED in refused(path)
    assert "hikey960 has another GPU than the trace" in refused(path, "--chip", "hikey960")
    path.write_bytes(b"nothing")
    assert str(path) in refused(path)


def test_bench_and_report_have_the_same_sum(built: Path, tmp_path: Path) -> None:
    whole = json.loads(run(built, "--json").stdout)["replay"]
    signed, key, image = tmp_path / "net.sgtr", tmp_path / "pub.pem", tmp_path / "data.npy"
    signed.write_bytes(sign_trace(built.read_bytes(), ES256))
    key.write_bytes(ES256.public.pem())
    np.save(image, np.zeros((1, 28, 28), np.float32))
    words = ["bench", str(signed), "--key", str(key), "--input", f"data={image}", "--repeat", "1"]
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["estimate"]
    assert (found["chip"], found["us"], found["high_us"]) == ("pi4", whole["us"], whole["high_us"])
    line = next(x for x in CliRunner().invoke(main, words).stdout.splitlines() if x.startswith("estimated"))
    assert "not measured" in line
    page = tmp_path / "page.html"
    told = CliRunner().invoke(main, ["report", str(built), "-o", str(page), "--json"])
    assert json.loads(told.stdout)["estimate"] == found
    assert "nothing was measured" in page.read_text(encoding="utf-8")


def test_no_estimate_where_the_model_knows_nothing() -> None:
    raw = Trace.read(RAW)
    assert estimated(raw.with_(actions=raw.actions[:0], slots=[])) is None


def test_jobs_of_a_layer_together(tmp_path: Path) -> None:
    trace = build(Trace.read(RAW))
    names = ["conv1 (Conv)", *["a layer whose name is longer than a column (Conv)"] * (trace.jobs - 1)]
    path = tmp_path / "named.gtr"
    path.write_bytes(trace.with_(notes=trace.notes | {"calls": names}).build())
    done = run(path, "--by", "layer")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if "conv1" in line or "a layer" in line]
    assert [row[0] for row in rows] == ["1", str(trace.jobs - 1)]
    found = json.loads(run(path, "--json").stdout)
    assert [job["name"] for job in found["jobs"]] == names
    assert [(layer["name"], layer["jobs"]) for layer in found["layers"]] == [
        (names[0], 1),
        (names[1], trace.jobs - 1),
    ]
    assert sum(layer["us"] for layer in found["layers"]) == pytest.approx(sum(job["us"] for job in found["jobs"]))
    assert "conv1 (Conv)" in run(path).stdout.splitlines()[2]


def test_by_layer_needs_names(built: Path, tmp_path: Path) -> None:
    trace = Trace.read(built)
    del trace.notes[NOTE]
    path = tmp_path / "net.gtr"
    path.write_bytes(trace.build())
    assert "its recording names no jobs" in refused(path, "--by", "layer")
    assert json.loads(run(path, "--json").stdout)["layers"] == []
