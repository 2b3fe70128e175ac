# SPDX-License-Identifier: BSD-2-Clause
"""Damage to a small GPUReplay recording, and what it must be refused with."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from tests.support import mali_samples as m
from tests.support.mali_samples import HISTORY

Files = dict[str, bytes]
Malformed = tuple[str, Callable[[Files], None], type[Exception], str, int | None, str]


def patch(name: str, at: int, form: str, *values: int) -> Callable[[Files], None]:
    """Overwrite numbers of a file; `at` below zero counts from its end."""

    def change(files: Files) -> None:
        data = bytearray(files[name])
        struct.pack_into("<" + form, data, at if at >= 0 else len(data) + at, *values)
        files[name] = bytes(data)

    return change


def cut(name: str, size: int) -> Callable[[Files], None]:
    """Keep the first `size` bytes; below zero: leave off as many."""

    def change(files: Files) -> None:
        files[name] = files[name][:size]

    return change


def put(name: str, data: bytes) -> Callable[[Files], None]:
    """Another file in place of one."""

    def change(files: Files) -> None:
        files[name] = data

    return change


def add(name: str, data: bytes) -> Callable[[Files], None]:
    """More bytes after a file's end."""

    def change(files: Files) -> None:
        files[name] += data

    return change


def line(text: bytes, index: int = 1) -> Callable[[Files], None]:
    """Another line in gr_io_history."""

    def change(files: Files) -> None:
        lines = files[HISTORY].split(b"\n")
        lines[index] = text
        files[HISTORY] = b"\n".join(lines)

    return change


def swap(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    """Another text in place of the first one."""

    def change(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def both(*changes: Callable[[Files], None]) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        for one in changes:
            one(files)

    return change


JOB_REGION = len(m.regions()[0])
DATA_REGION = JOB_REGION + len(m.regions()[1])


def assert_refused(row: Malformed, folder: Path) -> None:
    """The sample, damaged so, is refused with this class of error, which says where and what."""
    name, damage, error, file, offset, message = row
    files = m.recording()
    damage(files)
    with pytest.raises(error) as caught:
        import_gpureplay(m.write(folder, files), name)
    assert type(caught.value) is error
    text = str(caught.value)
    assert text.startswith(f"{folder / file} at offset 0x")
    assert message in text
    if offset is not None:
        assert f" at offset {offset:#x}: " in text
