# SPDX-License-Identifier: BSD-2-Clause
"""write_atomically: the whole file or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from host_tools.support.files import write_atomically


def test_new_file_has_the_mode_less_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"one")
        write_atomically(tmp_path / "b", b"two", mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_replaces_and_refuses_to(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_atomically(target, b"one", overwrite=False)
    write_atomically(target, b"two")
    with pytest.raises(FileExistsError) as caught:
        write_atomically(target, b"three", overwrite=False)
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_failure_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"one")

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(target, b"two")
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a"]


def test_follows_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "link").symlink_to("a")
    write_atomically(tmp_path / "link", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"two"


@pytest.mark.parametrize("name", ["n" * 255, "音" * 85])
def test_longest_name(tmp_path: Path, name: str) -> None:
    write_atomically(tmp_path / name, b"one")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("place", ["folder", "fifo", "no/file", "folder/"])
def test_place_that_is_no_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"not a regular file|No such file") as caught:
        write_atomically(tmp_path / place, b"one")
    assert caught.value.filename == str(tmp_path / place)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "folder"]
