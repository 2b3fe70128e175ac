# SPDX-License-Identifier: BSD-2-Clause
"""What a public forge reads: workflows run targets of the Makefile, and nothing that a contributor cannot run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.places import CHECKOUT

FORGE = CHECKOUT / ".github"
WORKFLOWS = sorted(FORGE.glob("workflows/*.yml"))
FORMS = sorted(path for path in FORGE.glob("ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
# Steps that prepare a fresh container for make.
PREPARATION = ("apt-get update && apt-get install", "git config --global")


def targets() -> set[str]:
    """The targets of the Makefile that have a line in `make help`."""
    text = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


def commands(path: Path) -> list[str]:
    """What the steps of a workflow run."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_there_are(path: Path) -> None:
    made = [command for command in commands(path) if not command.startswith(PREPARATION)]
    assert made
    for command in made:
        assert re.fullmatch(r"make [a-z-]+", command), command
        assert command.split()[1] in targets(), command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_ends(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    most = 350 if path.name == "all.yml" else 90
    assert all(job["timeout-minutes"] <= most for job in workflow["jobs"].values())


def test_check_and_test_are_run() -> None:
    assert {"make check", "make test"} <= set(commands(FORGE / "workflows/ci.yml"))


def test_all_cases_of_all_folders_are_run() -> None:
    path = FORGE / "workflows/all.yml"
    assert commands(path)[-1] == "make test-all"
    [job] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    folders = {module.relative_to(CHECKOUT / "tests").parts[0] for module in CHECKOUT.glob("tests/*/**/test_*.py")}
    assert set(job["strategy"]["matrix"]["tests"]) == folders
    assert job["env"]["TESTS"] == "tests/${{ matrix.tests }}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_fields_with_names(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 2
    for name in re.findall(r"[\w/-]+\.md", path.read_text(encoding="utf-8")):
        assert (CHECKOUT / name).is_file(), name


def test_owners_are_of_paths_that_exist() -> None:
    lines = (FORGE / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths[0] == "*"
    for path in paths[1:]:
        assert (CHECKOUT / path.strip("/")).exists(), path


def test_the_container_is_described_once() -> None:
    described = json.loads((CHECKOUT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (CHECKOUT / ".devcontainer" / described["build"]["dockerfile"]).is_file()
    assert described["postCreateCommand"].split()[1] in targets()
