# SPDX-License-Identifier: BSD-2-Clause
"""Which QEMU has the machine raspi4b, and how one of packages is started."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from host_tools.machine import board_qemu
from host_tools.machine.errors import RecordError
from host_tools.support import programs


def test_the_systems_own_is_taken_where_it_has_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(board_qemu, "qemu_series", lambda: "10.0")
    monkeypatch.setattr(board_qemu, "AptRoot", None)
    assert board_qemu.raspi4b_qemu() == "qemu-system-aarch64"


def test_without_it_and_without_dpkg(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str]) -> None:
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(programs, "run", run)
    with pytest.raises(RecordError, match=r"raspi4b: expected QEMU 10\.0, or Debian's dpkg to unpack it, found"):
        board_qemu.raspi4b_qemu()


class FakeApt:
    """Packages that hold a program, its linker and a C library."""

    def __init__(self, *_: object) -> None:
        self.folder = Path("/usr")

    def download(self, names: list[str]) -> list[SimpleNamespace]:
        assert names == ["qemu-system-arm"]
        return [SimpleNamespace(sha256="0" * 64)]

    def extract(self, folder: Path, keep: Callable[[str], bool]) -> None:
        linker = '#!/bin/sh\necho linker "$@"\n'
        echo = Path("/bin/echo").read_bytes()
        for path, data in {
            "usr/bin/qemu-system-aarch64": echo,
            "usr/lib/x/libc.so.6": b"",
            "usr/share/doc/copyright": b"",
        }.items():
            if keep(path):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
        for place in ("usr/lib/ld-linux-aarch64.so.1", "usr/lib64/ld-linux-x86-64.so.2"):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(linker)
            (folder / place).chmod(0o755)


def test_one_of_packages_is_started_by_its_own_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(board_qemu, "_architecture", lambda: "amd64")
    monkeypatch.setattr(board_qemu, "AptRoot", FakeApt)
    found = Path(board_qemu.raspi4b_qemu())
    assert not (found.parent / "usr/share/doc").exists()
    said = subprocess.run([found, "-M", "a b"], capture_output=True, text=True, check=True).stdout
    root = found.parent.resolve()
    program = f"{root}/usr/bin/qemu-system-aarch64 -L {root}/usr/share/qemu -M a b"
    assert said == f"linker --library-path {root}/usr/lib/x {program}\n"
    assert board_qemu.raspi4b_qemu() == str(found)
