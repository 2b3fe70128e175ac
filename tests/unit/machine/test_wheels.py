# SPDX-License-Identifier: BSD-2-Clause
"""Wheels that recordings take from PyPI: of a pinned content, whoever has put another file there. No network."""

from __future__ import annotations

import hashlib
import platform
import zipfile
from pathlib import Path

import pytest

from host_tools.machine import wheels
from host_tools.machine.errors import RecordError
from host_tools.support.cache import cache_dir

VERSION = "1.0"
NAME = f"thing-{VERSION}-py3-none-any.whl"


def packed(folder: Path, text: str) -> Path:
    """A wheel of one module."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        archive.writestr("thing.py", text)
        info = f"thing-{VERSION}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: thing\nVersion: {VERSION}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return folder / NAME


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip finds; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_pinned_wheel_is_fetched_once(index: Path) -> None:
    expected = digest(packed(index, "x = 1"))
    wheel = wheels.guest_wheel("thing", VERSION, expected)
    assert (digest(wheel.path), wheel.path.parent) == (expected, cache_dir("wheels"))
    (index / NAME).unlink()
    assert wheels.guest_wheel("thing", VERSION, expected) == wheel


def test_another_file_under_its_name_is_refused(index: Path, tmp_path: Path) -> None:
    expected = digest(packed(tmp_path / "elsewhere", "x = 1"))
    packed(index, "x = 2")
    with pytest.raises(
        RecordError, match=f"pip could not fetch thing {VERSION} for Python 3.13 on aarch64: .*HASHES"
    ):
        wheels.guest_wheel("thing", VERSION, expected)
    assert not list(cache_dir("wheels").iterdir())


def test_another_file_in_the_cache_is_not_taken(index: Path) -> None:
    packed(cache_dir("wheels"), "x = 2")
    expected = digest(packed(index, "x = 1"))
    assert digest(wheels.guest_wheel("thing", VERSION, expected).path) == expected


def test_what_the_project_takes_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def wheel(name: str, version: str, sha256: str, *_: object) -> wheels.Wheel:
        asked.append((name, sha256))
        raise RecordError("is not fetched here")

    monkeypatch.setattr(wheels, "_wheel", wheel)
    monkeypatch.setattr(wheels, "made_once", lambda folder, make: make(folder))
    for machine in wheels.PNNX_SHA256:
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        with pytest.raises(RecordError, match="is not fetched"):
            wheels.pnnx()
    with pytest.raises(RecordError, match="is not fetched"):
        wheels.ncnn_wheel()
    assert [name for name, _ in asked] == ["pnnx", "pnnx", "ncnn"]
    assert all(len(bytes.fromhex(sha256)) == 32 for _, sha256 in asked)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(RecordError, match="expected a processor of aarch64, x86_64, found riscv64"):
        wheels.pnnx()
