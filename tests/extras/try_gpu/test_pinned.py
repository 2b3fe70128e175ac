# SPDX-License-Identifier: BSD-2-Clause
"""Memory in one piece, of pages of 4 KiB and of 16 KiB: Raspberry Pi's kernel for its Pi 5 has these."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.port_program import port_program

WRAPPED = ("sysconf", "open", "pread", "syscall", "mmap")
MOST = 128 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pinned.c for this machine, over made-up frames."""
    return port_program("pinned", WRAPPED, tmp_path_factory.mktemp("pinned"))


@pytest.mark.parametrize("page", [4096, 16384])
def test_the_longest_run_is_found_and_put_in_order(program: Path, page: int) -> None:
    """And a page that is no longer where it was is found."""
    environment = {"GRAMOPHONE_NO_HUGE_PAGE": "1"}
    done = subprocess.run([program, str(page)], env=environment, capture_output=True, text=True, check=True)
    pages = MOST // page
    found, checked = done.stdout.splitlines()
    assert found == f"{pages // 4 * 3} pages from frame 0x1000 of {pages}"
    assert done.stderr.splitlines()[0].endswith(f" KiB at {0x1000 * page:#x}, of pages of {page >> 10} KiB")
    assert checked.startswith("1 0 memory: page 7: expected frame 0x1007, found 0x100c: the kernel has moved it")
