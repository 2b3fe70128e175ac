# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's metadata: one source of the version, typed packages, tested versions of every dependency."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata

from click.testing import CliRunner

from host_tools.cli import main
from host_tools.support.version import VERSION
from tests.support.places import CHECKOUT

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal")


def test_the_version_is_written_once() -> None:
    assert metadata.version("gramophone") == VERSION, "pyproject.toml changed: run `make setup`"
    assert CliRunner().invoke(main, ["--version"]).stdout.split()[-1] == VERSION
    for package in PACKAGES:
        for path in (CHECKOUT / package).rglob("*.py"):
            if path.name != "version.py":
                assert VERSION not in path.read_text(encoding="utf-8"), path


def test_the_version_is_in_the_changelog() -> None:
    headings = re.findall(
        r"^## \[?([\w.]+)", (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert VERSION in headings


def test_a_tag_is_the_version() -> None:
    """Of a release only: other commits have no tag."""
    command = ["git", "-C", str(CHECKOUT), "tag", "--points-at", "HEAD", "v*"]
    tags = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    assert set(tags) <= {f"v{VERSION}"}


def test_packages_have_types() -> None:
    for package in PACKAGES:
        assert (CHECKOUT / package / "py.typed").is_file(), package
