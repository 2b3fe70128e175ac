# SPDX-License-Identifier: BSD-2-Clause
"""What others made comes by its content: hashes of packages, commits of actions, a lockfile, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging import pins
from tests.support.places import CHECKOUT

WORKFLOWS = sorted(CHECKOUT.glob(".github/workflows/*.yml"))
ACTION = re.compile(r"uses: *(\S+?)@(\S+)(.*)")
FILES = ("constraints.txt", "constraints-fuzz.txt")
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
# Sources that start a client of a registry, and what holds it to a content.
CLIENTS = {
    "docs/examples/mnist.py": "compares the archive with INTEGRITY before it is read",
    "docs/examples/text/book.py": "compares the archive with SHA256 before it is read",
    "host_tools/machine/apt.py": "Debian's signature, whatever the machine's apt allows: test_hostile_archives.py",
    "host_tools/machine/wheels.py": "--require-hashes",
    "tests/bench/strangers.py": "compares npm's archive with a SHA-256 before it is unpacked",
    "tests/bench/trained.py": "compares the wheel with a SHA-256 before it is unpacked",
    "tests/packaging/pins.py": "--dry-run: it asks for hashes, and installs nothing",
    "tests/packaging/test_wheel.py": "our own wheel; with --exhaustive what users get, in a folder of the test's",
    "tests/packaging/verify_release.py": "--require-hashes",
}


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files are the project's")
    return [name for name in listed.stdout.split("\0") if (CHECKOUT / name).is_file()]


def said_pins(name: str) -> dict[str, list[str]]:
    return pins.pinned((CHECKOUT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_hashes(name: str) -> None:
    found = said_pins(name)
    assert found
    for requirement, hashes in found.items():
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes), requirement


def test_every_requirement_is_pinned_in_every_extra() -> None:
    """The build backend too: without isolation, it is what is installed."""
    extras = dict(PYPROJECT["project"]["optional-dependencies"])
    wanted = {
        "constraints-fuzz.txt": extras.pop("fuzz"),
        "constraints.txt": [
            *PYPROJECT["build-system"]["requires"],
            *PYPROJECT["project"]["dependencies"],
            *(line for lines in extras.values() for line in lines),
        ],
    }
    for name, lines in wanted.items():
        versions = dict(row.split("==") for row in said_pins(name))
        versions = {canonicalize_name(package): version for package, version in versions.items()}
        for line in lines:
            requirement = Requirement(line)
            version = versions.get(canonicalize_name(requirement.name))
            assert version, f"{line}: not in {name}: make constraints ARGS=--keep"
            assert requirement.specifier.contains(version, prereleases=True), line


def test_every_action_is_a_commit_with_its_version() -> None:
    texts = [*WORKFLOWS, *CHECKOUT.glob("docs/**/*.md")]
    found: dict[str, set[str]] = {}
    for path in texts:
        for action, commit, rest in ACTION.findall(path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[0-9a-f]{40}", commit), f"{path}: {action}@{commit}: expected a commit"
            assert re.fullmatch(r"  # v\d+\.\d+\.\d+", rest), f"{path}: {action}: expected its version"
            found.setdefault(action, set()).add(commit + rest)
    assert len(found) >= 5
    assert {action for action, commits in found.items() if len(commits) > 1} == set()


def test_only_what_runs_no_code_of_ours_may_write() -> None:
    """A job with a right to sign takes what another one built."""
    writers: dict[str, dict[str, Any]] = {}
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        assert "pull_request_target" not in workflow[True], path.name  # YAML 1.1 reads `on` as true
        writers |= {f"{path.name} {name}": job for name, job in workflow["jobs"].items() if "permissions" in job}
    assert set(writers) == {"release.yml attest"}
    job = writers["release.yml attest"]
    assert job["permissions"] == {"id-token": "write", "attestations": "write"}
    assert all("run" not in step for step in job["steps"])
    assert job["steps"][-1]["uses"].startswith("actions/attest-build-provenance@")
    assert job["steps"][-1]["with"] == {"subject-path": "dist/*.whl"}


def test_npm_takes_what_the_lockfile_has() -> None:
    """Without the addresses of a registry, which differ by user."""
    folder = CHECKOUT / "tests/npm"
    lock = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert lock["packages"][""]["devDependencies"] == wanted
    packages = {name: row for name, row in lock["packages"].items() if name}
    for name, row in packages.items():
        assert row["integrity"].startswith("sha512-"), name
        assert "resolved" not in row, name
        assert "hasInstallScript" not in row, name
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version


def test_no_source_goes_around_them() -> None:
    """A new one needs a row, with what holds it to a content."""
    client = re.compile(r'"-m",\s*"pip"|[\[(]\s*"(?:pip|pip3|pipx|uv|npm|npx|apt|apt-get|curl|wget)"')
    fetching = re.compile(r"\burlopen\(|\burlretrieve\(|\brequests\.get\(")
    sources = [name for name in tracked() if name.endswith(".py") and not name.startswith("tests/unit/")]
    texts = {name: (CHECKOUT / name).read_text(encoding="utf-8") for name in sources}
    found = {name for name, text in texts.items() if client.search(text) or fetching.search(text)}
    assert found - CLIENTS.keys() == set()
    assert {name for name in CLIENTS if name not in found} == set(), "rows that are not needed"


def test_no_recipe_goes_around_them() -> None:
    """Lines of the Makefile, of workflows, images and scripts, and of documents for contributors."""
    named = re.compile(r"(^|/)(Makefile|Dockerfile|run)$|\.(sh|mk|yml)$|^CONTRIBUTING\.md$|^docs/IN-CI\.md$")
    call = re.compile(r"(?<![:\w-])(pip3? (?:--\S+ )*(?:install|download|wheel)|npm|npx|pipx|uv|curl|wget) .*")
    held = (
        r"pip install .*--require-hashes --only-binary :all: -r ",
        r"pip (install|wheel) .*--no-deps --no-build-isolation .*\.$",  # our own
        r"npm ci .*--ignore-scripts ",
    )
    around = []
    for name in filter(named.search, tracked()):
        text = (CHECKOUT / name).read_text(encoding="utf-8").replace("\\\n", " ")
        lines = (
            text.splitlines() if name.endswith(".md") else [line.partition("#")[0] for line in text.splitlines()]
        )
        for part in (part.strip() for line in lines for part in line.split("&&")):
            if (found := call.search(part)) and not any(re.match(row, found[0]) for row in held):
                around.append(f"{name}: {part}")
    assert around == []


def test_the_workflow_of_a_project_signs_after_a_push_only() -> None:
    """What docs/IN-CI.md shows: a pull request's job runs a stranger's project file."""
    text = (CHECKOUT / "docs/IN-CI.md").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    given = {name: job for name, job in workflow["jobs"].items() if "secrets." in json.dumps(job)}
    assert list(given) == ["sign"]
    for job in given.values():
        assert job["if"] == "github.event_name == 'push'"
        assert job["environment"]
        assert not any("actions/cache@" in step.get("uses", "") for step in job["steps"]), "others may write to it"
    assert all("permissions" not in job for job in workflow["jobs"].values())
