# SPDX-License-Identifier: BSD-2-Clause
"""Firmware is compiled once for what decides it: its files and the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.runners import firmware


def test_other_files_or_another_compiler_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def folder(text: str, compiler: str) -> Path:
        monkeypatch.setattr(firmware, "compiler_version", lambda: compiler)
        return firmware.compiled_once(lambda folder: _write(folder, text))

    def _write(folder: Path, text: str) -> None:
        folder.mkdir()
        (folder / "main.c").write_text(text)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        firmware, "compile_firmware", lambda folder: compiled.append((folder / "main.c").read_text())
    )
    first = folder("a", "gcc 12")
    assert folder("a", "gcc 12") == first
    assert len({first, folder("b", "gcc 12"), folder("a", "gcc 14")}) == 3
    assert compiled == ["a", "b", "a"]
