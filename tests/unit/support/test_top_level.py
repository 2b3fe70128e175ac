# SPDX-License-Identifier: BSD-2-Clause
"""Packages of others with the names of ours are one sentence, whichever command meets them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from host_tools.support import top_level
from host_tools.support.top_level import clash
from tests.support.floors import FOLDERS
from tests.support.places import CHECKOUT


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, in an environment in which a folder comes first, as from a wheel: not by an editable finder."""
    code = (
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(CHECKOUT)!r}]; "
        "sys.meta_path = [one for one in sys.meta_path if 'Editable' not in repr(one)]; "
        "from host_tools.__main__ import main; main()"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", code, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def other(folder: Path, name: str, distribution: str = "") -> None:
    """Another package of this name; with a distribution's, as pip says it."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    if distribution:
        about = folder / f"{distribution}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (about / "top_level.txt").write_text(f"{name}\n")


def test_all_of_the_wheels_packages_are_looked_at() -> None:
    said = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    found = {name.rstrip("*") for name in said["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert found == {"host_tools", *top_level.PACKAGES} == set(FOLDERS) - {"docs"}


def test_ours_are_ours() -> None:
    assert clash() is None


@pytest.mark.parametrize("distribution", ["", "signing-of-others"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trace_format", ["--version"]),
        ("signing", ["key", "new", "-o", "key.pem"]),
        ("signing", ["sign", "net.gtr", "--signing-key", "key.pem"]),
        ("tee_replayer", ["generate", "--gpu", "v3d42", "--platform", "optee", "--key", "k", "-o", "out"]),
    ],
)
def test_what_comes_first_on_the_path_is_named(
    name: str, words: list[str], distribution: str, tmp_path: Path
) -> None:
    other(tmp_path, name, distribution)
    done = run(tmp_path, *words)
    by = f" by {distribution}" if distribution else ""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr == (
        f"error: expected gramophone's {name!r} in {CHECKOUT}, found another{by}: {tmp_path / name}; "
        "install gramophone into an environment of its own, e.g. with pipx\n"
    )


def test_a_folder_that_two_distributions_wrote_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "top_level.txt").write_text("signing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert clash() == (
        f"{CHECKOUT / 'signing'} was written into by theirs, which has a package 'signing', too; "
        f"{top_level.ADVICE}"
    )


def test_other_errors_of_imports_stay(tmp_path: Path) -> None:
    """A package that is missing is no clash."""
    code = "import sys; sys.modules['click'] = None; from host_tools.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "import of click halted" in done.stderr
