# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone make` with LeNet's recording: traces, reports and a table, and what is done again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.extras.project.commands import make
from host_tools.extras.project.tasks.page import page
from host_tools.extras.project.tasks.store import Store
from host_tools.support.unchanged import EPOCH, tool_stamp
from tests.support import json_schemas
from tests.support.processes import Marked, default_signals

DIGIT = np.linspace(0, 1, 28 * 28, dtype=np.float32).reshape(1, 28, 28)


class Project:
    """A folder with a project file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "gramophone.toml"

    def write(self, more: str = "", other: str = "") -> None:
        self.file.write_text(f"""\
[keys.owner]
signing-key = "owner.pem"
public = "pub.pem"
[networks.lenet]
recording = "lenet.raw.gtr"
gpus = ["v3d42"]
{more}
{other}
""")

    def make(self, *options: str, status: int = 0) -> dict[str, Any]:
        done = CliRunner().invoke(main, ["make", str(self.file), "-j", "2", "--json", *options])
        assert done.exit_code == status, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def content(self) -> dict[str, bytes]:
        """All that is in the folder `out`, but the reasons of the next run."""
        files = [file for file in (self.folder / "out").rglob("*") if file.is_file()]
        return {str(file): file.read_bytes() for file in files if file.name != make.MADE_OF}

    def results(self) -> bytes:
        return (self.folder / "out/results.json").read_bytes()


def states(found: dict[str, Any], state: str) -> list[str]:
    return [task["name"].partition("/")[2] for task in found["tasks"] if task["state"] == state]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(make, "Store", lambda cache: Store(tmp_path / "store"))
    monkeypatch.setattr(make, "tool_stamp", lambda: "this")
    folder = tmp_path / "project"
    folder.mkdir()
    for words in (
        ["key", "new", "-o", f"{folder}/owner.pem"],
        ["key", "public", f"{folder}/owner.pem", "-o", f"{folder}/pub.pem"],
    ):
        assert CliRunner().invoke(main, words).exit_code == 0
    (folder / "lenet.raw.gtr").write_bytes(RAW.read_bytes())
    np.save(folder / "digit.npy", DIGIT)
    return Project(folder)


def test_a_project_is_made_and_what_changes_is_made_again(project: Project) -> None:
    project.write("budget = { jobs = 20 }")
    planned = project.make("--dry-run")
    assert states(planned, "to do") == ["build", "sign", "report", "sbom"]
    assert not (project.folder / "out").exists()
    found = project.make()
    assert states(found, "made") == ["build", "sign", "report", "sbom"]
    (row,) = found["traces"]
    assert row["ok"]
    assert (row["signature"], row["jobs"], row["findings"]["error"]) == ("verified", 14, 0)
    out = project.folder / "out"
    names = {"lenet.gtr", "lenet.sgtr", "report.html", "lenet.cdx.json"}
    assert {path.name for path in (out / "lenet.v3d42").iterdir()} == names
    verified = ["verify", "trace", f"{out}/lenet.v3d42/lenet.sgtr", "--key", f"{project.folder}/pub.pem"]
    assert CliRunner().invoke(main, verified).exit_code == 0
    said = json.loads(project.results())
    json_schemas.check("make", {"warnings": [], "dry_run": False, "out": "out", "tasks": [], **said})

    first = project.results()
    os.utime(project.folder / "lenet.raw.gtr")
    (out / "lenet.v3d42/lenet.gtr").write_bytes(b"edited")
    assert states(project.make(), "up to date") == ["build", "sign", "report", "sbom"]
    assert (out / "lenet.v3d42/lenet.gtr").stat().st_size == row["trace_bytes"], "it was put again"
    assert project.results() == first

    # Another input of the report leaves build, signature and bill of materials; what is expected adds a replay.
    replayed = ["replay", f"{out}/lenet.v3d42/lenet.sgtr", "--key", f"{project.folder}/pub.pem"]
    values = ["--input", f"data={project.folder}/digit.npy", "-o", f"prob={project.folder}/prob.npy"]
    assert CliRunner().invoke(main, [*replayed, *values]).exit_code == 0
    compared = 'input = { data = "digit.npy" }\nexpect = { prob = "prob.npy" }'
    project.write(compared)
    found = project.make()
    assert states(found, "made") == ["report", "replay"]
    assert found["traces"][0]["expected"] == [{"output": "prob", "difference": 0.0, "ok": True}]

    np.save(project.folder / "prob.npy", np.full(10, 0.1, np.float32))
    budget = "budget = { trace-bytes = 1000, jobs = 13 }"
    project.write(f"{compared}\n{budget}")
    found = project.make(status=1)
    assert states(found, "made") == ["replay"]
    assert [budget["ok"] for budget in found["traces"][0]["budgets"]] == [False, False]
    shown = (out / "results.html").read_text()
    ElementTree.fromstring(shown.partition("\n")[2])
    assert "over budget: trace-bytes" in shown
    assert "prob is not as expected" in shown
    assert "<script" not in shown
    assert "default-src 'none'" in shown.replace("&#39;", "'")
    assert states(project.make(status=1), "up to date") == ["build", "sign", "report", "sbom", "replay"]


@pytest.mark.exhaustive  # extras/project/test_farm.py does with smaller tasks, private keys included
def test_workers_make_the_same_bytes(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(other='[targets.camera]\ngpu = "v3d42"\nplatform = "qemu-virt"\n')
    monkeypatch.setattr(make, "tool_stamp", tool_stamp)
    monkeypatch.setenv(EPOCH, "1795777200")
    project.make()
    expected = project.content()
    shutil.rmtree(project.folder / "out")
    monkeypatch.setattr(make, "Store", lambda cache: Store(tmp_path / "another"))
    found = project.make("--farm", "local:2", "--farm-store", (tmp_path / "shared").as_uri())
    assert not states(found, "up to date")
    assert project.content() == expected
    private = (project.folder / "owner.pem").read_bytes()
    assert all(private not in file.read_bytes() for file in (tmp_path / "shared").rglob("*") if file.is_file())


@pytest.mark.exhaustive  # extras/project/test_graph.py has a test of this name
def test_a_failure_leaves_the_others(project: Project) -> None:
    other = '[networks.bad]\nrecording = "bad.raw.gtr"\ngpus = ["v3d42"]\n'
    project.write(other=other)
    (project.folder / "bad.raw.gtr").write_bytes(b"no trace")
    found = project.make(status=1)
    assert states(found, "failed") == ["build"]
    assert states(found, "left") == ["sign", "report", "sbom"]
    lenet, bad = found["traces"]
    assert (lenet["ok"], bad["ok"]) == (True, False)
    assert re.match(r"bad\.v3d42/build: bad\.raw\.gtr at offset 0x8: ", bad["errors"][0])
    assert (project.folder / "out/lenet.v3d42/report.html").exists()


@pytest.mark.exhaustive  # unit/support/test_programs.py interrupts one program, test_graph.py makes what is left
def test_an_interrupt_ends_what_is_being_done_and_the_rest_is_made_later(tmp_path: Path, project: Project) -> None:
    project.write()
    marked = Marked()
    environment = marked.environment
    command = [
        sys.executable,
        "-m",
        "host_tools.cli",
        "make",
        str(project.file),
        "--cache",
        str(tmp_path / "cache"),
    ]
    started = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals
    )
    marked.wait_for("sign")
    started.send_signal(signal.SIGINT)
    errors = started.communicate(timeout=60)[1]
    assert started.returncode == 130, errors
    assert "interrupted" in errors
    assert marked.gone()
    assert not list((tmp_path / "cache").glob(".work-*"))
    again = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(again.stdout)
    assert "build" in states(found, "up to date")
    assert "report" in states(found, "made")


def test_text_from_elsewhere_is_escaped() -> None:
    row = {
        "title": "x", "ok": False, "errors": [], "warnings": ["<b>\x1b[31m"], "files": [], "network": "<i>",
        "gpu": "g", "trace_bytes": None, "jobs": None, "carveout_bytes": None, "replay_us": None, "expected": [],
    }  # fmt: skip
    shown = page({"project": "<u>", "traces": [row], "targets": []}, {"x": ["<script>alert(1)</script>"]})
    assert not re.search(r"<(i|u|script)>", shown)
    assert "&lt;b&gt;\\x1b[31m" in shown
