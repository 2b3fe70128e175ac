# SPDX-License-Identifier: BSD-2-Clause
"""A request as a file of an initial RAM disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

from host_tools.flash import ramdisk
from host_tools.machine import cpio
from tests.support.bare_metal import require

REQUEST = bytes(range(256)) * 32


def disk(more: bytes) -> bytes:
    return ramdisk.head(REQUEST) + REQUEST + more


def test_the_request_begins_at_a_page() -> None:
    assert len(ramdisk.head(REQUEST)) == len(ramdisk.head(bytes(4))) == 4096


def test_it_is_a_file_before_those_of_the_next_archive() -> None:
    archive = cpio.Archive()
    archive.add_file("init", b"its own", 0o755)
    entries = cpio.parse(disk(archive.to_bytes()))
    assert list(entries) == [ramdisk.TEXT, ramdisk.ANSWER, "init"]
    assert entries[ramdisk.ANSWER].data == REQUEST
    assert entries["init"].data == b"its own"


def test_cpio_reads_it(tmp_path: Path) -> None:
    """As the kernel does: GNU cpio takes the archive, however it ends."""
    command = [require("cpio", "cpio"), "-i", "--quiet", ramdisk.ANSWER]
    subprocess.run(command, input=disk(cpio.Archive().to_bytes()), cwd=tmp_path, check=True)
    assert (tmp_path / ramdisk.ANSWER).read_bytes() == REQUEST
