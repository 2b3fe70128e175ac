# SPDX-License-Identifier: BSD-2-Clause
"""Building the C library: kept results, and clear errors."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from host_tools.support import programs
from host_tools.vgpu import build
from tests.support.places import CHECKOUT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "build_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "one.c"
    path.write_text("int one(void);\nint one(void) { return 1; }\n")
    return path


def test_built_once(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.shared_object("one", [source])
    assert list(folder.iterdir()) == [first]
    monkeypatch.setattr(subprocess, "run", None)  # a compilation now would fail
    assert build.shared_object("one", [source]) == first


def test_a_changed_source_is_built_anew(folder: Path, source: Path) -> None:
    first = build.shared_object("one", [source])
    source.write_text(source.read_text().replace("return 1", "return 2"))
    assert build.shared_object("one", [source]) != first


def test_flags_count(folder: Path, source: Path) -> None:
    assert build.shared_object("one", [source]) != build.shared_object("one", [source], ["-DX"])


def test_failure_leaves_nothing(folder: Path, source: Path) -> None:
    source.write_text("int one(void) { return two; }\n")
    with pytest.raises(build.BuildError, match=r"compiling one failed:\n.*one\.c"):
        build.shared_object("one", [source])
    assert list(folder.iterdir()) == []


def test_files_are_compiled_one_by_one_and_linked(
    folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = source.with_name("two.c")
    other.write_text("int one(void);\nint two(void);\nint two(void) { return 2 * one(); }\n")
    run, seen = programs.run, list[list[str]]()

    def kept(command: list[str]) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        return run(command)

    monkeypatch.setattr(programs, "run", kept)
    assert ctypes.CDLL(str(build.shared_object("two", [source, other]))).two() == 2
    assert [command[-1] for command in seen if "-c" in command] == [str(source), str(other)]
    assert len(seen) == 3


def test_no_compiler(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(build.BuildError, match="'no-such-compiler' is not installed"):
        build.shared_object("one", [source])


@pytest.mark.parametrize(
    ("machine", "has_clang", "chosen"),
    [
        ("flags: avx2", True, "clang"),
        ("flags: avx2", False, "cc"),
        ("flags: avx2 avx512f", True, "cc"),
        ("flags: avx2 avx512fp16", True, "clang"),
    ],
)
def test_clang_where_there_are_no_masks(
    machine: str, has_clang: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build, "_machine", lambda: machine)
    there = {"cc", "clang"} if has_clang else {"cc"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    assert build.compiler() == chosen


def test_no_qemu() -> None:
    with pytest.raises(build.BuildError, match="no-such-qemu is not installed"):
        build.qemu_series("no-such-qemu")


def test_not_qemu() -> None:
    with pytest.raises(build.BuildError, match=r"expected 'version N\.N', found 'true "):
        build.qemu_series("true")


def test_folder_of_the_checkout() -> None:
    assert build.build_folder() == CHECKOUT / "build" / "vgpu"
