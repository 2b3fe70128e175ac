# SPDX-License-Identifier: BSD-2-Clause
"""A release is built again to the same bytes, and another file is told from it (verify_release.py)."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging import verify_release
from tests.packaging.test_wheel import UNREACHABLE
from tests.support.places import CHECKOUT
from trace_format.errors import GramophoneError

SETUPTOOLS = metadata.version("setuptools")  # as constraints.txt has it
CHANGED = "host_tools/support/version.py"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this commit releases."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip(f"{CHECKOUT} is no checkout of git, which keeps releases")
    try:
        return verify_release.rebuilt("HEAD", SETUPTOOLS, tmp_path_factory.mktemp("release"))
    except GramophoneError as error:
        if any(words in str(error) for words in UNREACHABLE):
            pytest.skip(f"no package index: {error}")
        raise


def edited(release: Path, folder: Path, edit: Callable[[str, bytes], bytes | None]) -> Path:
    """The wheel with its files as `edit` has them; None: it is left out."""
    other = folder / release.name
    with zipfile.ZipFile(release) as source, zipfile.ZipFile(other, "w") as target:
        for info in source.infolist():
            if (data := edit(info.filename, source.read(info))) is not None:
                target.writestr(info, data)
    return other


@pytest.mark.exhaustive
def test_a_release_is_built_again(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Built twice, since that is what is shown."""
    assert verify_release.main([str(release), "--ref", "HEAD"]) == 0
    assert "is the same: SHA-256" in capsys.readouterr().out


def test_another_file_is_told_from_it(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compared without building it each time."""
    assert verify_release.generator_of(release) == SETUPTOOLS
    monkeypatch.setattr(verify_release, "rebuilt", lambda *_: release)
    assert verify_release.main([str(release), "--ref", "HEAD"]) == 0
    assert "is the same: SHA-256" in capsys.readouterr().out
    changed = edited(release, tmp_path, lambda name, data: data + b"\n" if name == CHANGED else data)
    assert verify_release.main([str(changed), "--ref", "HEAD"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{changed}: is not what HEAD builds:",
        f"{CHANGED}: differs",
    ]
    less = edited(release, tmp_path, lambda name, data: None if name == CHANGED else data)
    assert f"{CHANGED}: is missing" in verify_release.verify(less, "HEAD")[1]
    packed = edited(release, tmp_path, lambda _, data: data)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.comment = b"x"
    assert "order, times or compression differ" in verify_release.verify(packed, "HEAD")[1]
    other = release.with_name("gramophone-9.9.9-py3-none-any.whl")
    shutil.copyfile(release, other)
    assert verify_release.verify(other, "HEAD")[1] == f"{other}: HEAD builds {release.name}"


def test_what_cannot_be_verified(release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_release.main([str(release), "--ref", "v99"]) == 2
    assert "error: no commit v99" in capsys.readouterr().err
    no_wheel = tmp_path / "x.whl"
    no_wheel.write_bytes(b"PK")
    assert verify_release.main([str(no_wheel), "--ref", "HEAD"]) == 2
    assert f"error: {no_wheel}: expected a wheel" in capsys.readouterr().err
    silent = edited(release, tmp_path, lambda name, data: b"" if name.endswith("/WHEEL") else data)
    assert verify_release.main([str(silent), "--ref", "HEAD"]) == 2
    assert "expected 'Generator: setuptools (VERSION)', found none" in capsys.readouterr().err
