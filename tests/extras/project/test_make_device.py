# SPDX-License-Identifier: BSD-2-Clause
"""A project's target with a device file: its task, and what the file must not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from host_tools.extras.project.commands.make_bounds import ProjectError
from host_tools.extras.project.commands.make_file import read_project
from host_tools.extras.project.commands.make_tasks import tasks_of
from host_tools.extras.project.tasks.task import Task, perform
from signing import key_files
from tests.support import crypto_trees, device_files
from tests.support.bad_input import FLEET
from tests.support.replayer_samples import ES256, KEY

PROJECT = """\
[keys.owner]
signing-key = "owner.pem"
public = "pub.pem"
[networks.lenet]
recording = "lenet.raw.gtr"
gpus = ["v3d42"]
[targets.virt]
device = "devices/device.toml"
"""
ENCRYPTED: dict[str, Any] = {"key": None, "trust_policy": "fleet.gtp", "profile": "encrypted"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    devices = tmp_path / "project" / "devices"
    (devices / "keys").mkdir(parents=True)
    (devices / "keys/pub.pem").write_bytes(KEY.pem())
    (devices / "fleet.gtp").write_bytes(FLEET)
    (devices / "fleet.pem").write_bytes(key_files.private_pem(ES256.key))
    (tmp_path / "outside.pem").write_bytes(KEY.pem())
    return tmp_path / "project"


def tasks(folder: Path, more: str = "", **rows: Any) -> dict[str, Task]:
    device_files.written(folder / "devices", **{"key": "keys/pub.pem", **rows})
    (folder / "gramophone.toml").write_text(PROJECT + more)
    return {task.name: task for task in tasks_of(read_project(folder / "gramophone.toml"))}


def test_a_target_is_generated_by_its_device_file(folder: Path, tmp_path: Path) -> None:
    trees = crypto_trees.empty(folder / "devices" / "trees")
    sources = {name: f"trees/{path.name}" for name, path in vars(trees).items() if name in ("bearssl", "aws_lc")}
    task = tasks(folder, **sources)["virt/generate"]
    assert task.words == ("generate", "device.toml", "-o", "firmware")
    assert task.files.keys() == {"device.toml", "keys/pub.pem", *sources.values()}
    (tmp_path / "run").mkdir()
    done = perform(task, tmp_path / "run", {})
    assert (done.status, done.data.get("profile")) == (0, "plain"), done.error
    assert done.data["warnings"] == []
    assert tasks(folder, **sources)["virt/flash"].words[-1] == "lenet.sgtr"


def test_a_fleet_s_key_stays_on_this_computer(folder: Path) -> None:
    found = tasks(folder, **ENCRYPTED, fleet_key="fleet.pem")
    assert {name for name, task in found.items() if task.here and name.startswith("virt/")} == {
        f"virt/{what}" for what in ("generate", "make", "sbom", "flash")
    }


def test_untested_features_are_allowed_in_the_project_file(folder: Path) -> None:
    rows = {"profile": None, "features": {"steps": True}}
    assert tasks(folder, "untested = true\n", **rows)["virt/generate"].words[-1] == "--untested"


@pytest.mark.parametrize(
    ("more", "rows", "message"),
    [
        ("", {"key": "../../outside.pem"}, "device: key: expected a path in the project's folder"),
        ("", {"key": "keys/../keys/pub.pem"}, "device: key: expected a path beside the device file or below"),
        ("", {"gpu": "v3d43"}, "gpu (did you mean 'v3d42'?)"),
        ('platform = "rpi4"\n', {}, "device and platform are mutually exclusive"),
        ("generate = { clock = true }\n", {}, "device and generate are mutually exclusive"),
    ],
)
def test_what_is_refused(folder: Path, more: str, rows: dict[str, Any], message: str) -> None:
    with pytest.raises(ProjectError) as error:
        tasks(folder, more, **rows)
    assert message in str(error.value)


def test_a_policy_of_c_code_is_a_program(folder: Path) -> None:
    (folder / "devices" / "mine.h").write_text("policy_clients policy_traces POLICY_STORAGE")
    device_files.written(folder / "devices", key="keys/pub.pem", platform="optee", client_policy="mine.h")
    (folder / "gramophone.toml").write_text(PROJECT)
    (program,) = read_project(folder / "gramophone.toml").programs
    assert (program.where, program.does, program.is_projects) == (
        "targets.virt.device",
        "is C code to compile",
        True,
    )
