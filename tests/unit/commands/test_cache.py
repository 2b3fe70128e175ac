# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone cache`: what is kept is shown, and only what is meant is removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main

OLD = time.time() - 40 * 24 * 3600
FILES = {
    "vgpu/new.so": 0,
    "vgpu/old.so": OLD,
    "record/root/tree/file": 0,
    "record/shaders/old.tar.gz": OLD,
    "record/shaders/new.tar.gz": 0,
    "record/shaders/old.lock": OLD,
    "record/in-use": OLD,
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, when in FILES.items():
        path = tmp_path / "gramophone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(5000))
        if when:
            os.utime(path, (when, when))
    return tmp_path / "gramophone"


def run(line: str, status: int = 0) -> dict[str, object]:
    done = CliRunner().invoke(main, [*line.split(), "--json"])
    assert done.exit_code == status, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def left(cache: Path) -> set[str]:
    return {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}


def test_the_parts_are_listed(cache: Path) -> None:
    found = run("cache list")
    assert found["folder"] == str(cache)
    parts = {part["name"]: (part["files"], part["idle_days"]) for part in found["parts"]}  # type: ignore[attr-defined]
    assert parts == {"record": (3, 0), "vgpu": (2, 0)}
    assert found["bytes"] == sum(part["bytes"] for part in found["parts"]) >= 5 * 5000  # type: ignore[attr-defined]
    assert "virtual GPUs" in CliRunner().invoke(main, ["cache", "list"]).stdout


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ("--unused-days 30", {"vgpu/old.so", "record/shaders/old.tar.gz"}),
        ("--unused-days 50", set()),
        ("vgpu", {"vgpu/new.so", "vgpu/old.so"}),
        ("--all", {name for name in FILES if name not in ("record/shaders/old.lock", "record/in-use")}),
    ],
)
def test_only_what_is_meant_is_removed(options: str, gone: set[str], cache: Path) -> None:
    """Locks stay: another command may hold one."""
    found = run(f"cache clean {options}")
    assert left(cache) == set(FILES) - gone
    assert (found["bytes"] != 0) == bool(gone)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "expected the names of parts, or --unused-days N, or --all"),
        ("vgpu --all", "expected the names of parts, or --unused-days N, or --all"),
        ("moon vgpu", "no part of the cache is called moon; there are: record, vgpu"),
        ("../../etc", "no part of the cache is called ../../etc; there are: record, vgpu"),
    ],
)
def test_bad_use_removes_nothing(options: str, reason: str, cache: Path) -> None:
    assert run(f"cache clean {options}", 2)["error"] == reason
    assert left(cache) == set(FILES)
