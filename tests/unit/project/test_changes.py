# SPDX-License-Identifier: BSD-2-Clause
"""Fragments of the changelog: each is of a kind that there is, and towncrier makes an entry of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.places import CHECKOUT

CHANGES = CHECKOUT / "docs/changes"
SETTINGS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]


def test_every_file_is_a_fragment_of_a_kind() -> None:
    for path in CHANGES.iterdir():
        if path.name != "README.md":
            assert re.fullmatch(rf"(\+[\w-]+|\d+)\.({'|'.join(KINDS)})\.md", path.name), path.name
            assert path.read_text(encoding="utf-8").strip(), path.name


def test_the_kinds_are_explained() -> None:
    explained = re.findall(r"^\| `\+NAME\.(\w+)\.md`", (CHANGES / "README.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(KINDS)


def test_the_next_entry_stands_before_the_last(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(CHECKOUT / name, tmp_path)
    folder = tmp_path / SETTINGS["directory"]
    shutil.copytree(CHANGES, folder)
    (folder / "+teapot.firmware.md").write_text("Devices make tea.\n")
    (folder / "7.fixed.md").write_text("It was cold.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.9.9"]
    done = subprocess.run(
        [*command, "--date", "2030-01-02"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / SETTINGS["filename"]).read_text(encoding="utf-8")
    before, _, entry = text.partition("## [9.9.9] - 2030-01-02\n")
    assert before.startswith("# Changelog\n")
    assert "\n## " not in before
    entry, _, rest = entry.partition("\n## [0.1.0]")
    assert re.search(r"### Firmware\n\n- Devices make tea\.", entry)
    assert re.search(r"### Fixed\n\n- It was cold\. \(#7\)", entry)
    assert rest.strip()
