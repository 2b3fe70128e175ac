# SPDX-License-Identifier: BSD-2-Clause
"""`inspect` of a project file."""

from __future__ import annotations

from pathlib import Path

from tests.support.signing_commands import run, run_json

PROJECT = """
[networks.lenet]
ncnn = ["lenet.param", "lenet.bin"]
[targets.camera]
device = "camera.toml"
"""


def test_a_project_file(tmp_path: Path) -> None:
    path = tmp_path / "gramophone.toml"
    path.write_text(PROJECT)
    found = run_json("inspect", str(path))
    assert (found["kind"], found["figures"]) == ("project file", {"networks": ["lenet"], "targets": ["camera"]})


def test_other_files_of_toml(tmp_path: Path) -> None:
    path = tmp_path / "camera.toml"
    for text, said in (("networks = 5", "expected a trace, capture"), ("networks =", "camera.toml")):
        path.write_text(text)
        done = run("inspect", str(path), status=2)
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
