# SPDX-License-Identifier: BSD-2-Clause
"""The emulated machine's memory has its place in the file system before this process writes to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from host_tools.runners.replay import RunnerError
from host_tools.runners.secure_machine import MIB, Machine, dram, run
from host_tools.vgpu import build

SIZE, AT, USED = 2100 * MIB, 2048 * MIB, 3 * MIB
BLOCK = 512  # of st_blocks


def test_only_what_is_used_takes_room() -> None:
    """The mailbox lies more than 2 GiB into the machine, whose memory before it stays a hole."""
    with dram(SIZE, AT, USED) as (path, memory):
        found = path.stat()
        assert (found.st_size, len(memory)) == (SIZE, SIZE)
        assert USED <= found.st_blocks * BLOCK < 2 * USED
        memory[AT + USED - 1] = 1
        with path.open("rb") as file:
            assert os.pread(file.fileno(), 1, AT + USED - 1) == b"\1"
    assert not path.exists()


def test_a_full_file_system_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    what = f"expected room for {USED} bytes of the machine's memory, found: No space left on device"
    with pytest.raises(RunnerError, match=what), dram(SIZE, AT, USED):
        pass


def test_a_file_system_that_is_full_for_the_guest_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU and the guest write to that memory, too: a bus error ends QEMU, which said nothing of the reason."""
    program = tmp_path / build.QEMU
    program.write_text("#!/bin/sh\nkill -BUS $$\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(build, "qemu_plugin", lambda: tmp_path / "plugin.so")
    machine = Machine(tmp_path / "image", 2, ("null", "stdio"), "v3d42", 0, 0, 0, 0)
    with dram(MIB) as (path, _), pytest.raises(RunnerError, match=rf"^{path}: QEMU found no room .*: \d+ bytes"):
        run(machine, path, None, 60)
