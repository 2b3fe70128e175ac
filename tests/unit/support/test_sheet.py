# SPDX-License-Identifier: BSD-2-Clause
"""Sheets: memory that shares their pages until it is written, and what becomes of it then."""

from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from host_tools.support.sheet import MAP_NORESERVE, NoSheetError, Sheet, blank, new_file, sheet_of

PAGE = mmap.PAGESIZE
CONTENT = np.random.default_rng(1).bytes(4 * PAGE)


def memory(pages: int) -> mmap.mmap:
    return mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)


def sheet(*pieces: bytes) -> Sheet:
    found = Sheet.of(pieces)
    assert found is not None
    return found


def files() -> int:
    """Sheets that are open."""
    folder = Path("/proc/self/fd")
    return sum(
        "memfd:gramophone" in os.readlink(folder / name)
        for name in os.listdir(folder)
        if (folder / name).is_symlink()
    )


def test_a_sheet_holds_its_pieces() -> None:
    whole = sheet(CONTENT[:5], b"", CONTENT[5:])
    assert bytes(whole) == CONTENT
    assert whole.part(3, PAGE) == CONTENT[3 : 3 + PAGE]
    with pytest.raises(TypeError):
        whole[0] = 1
    assert not np.frombuffer(memoryview(whole), np.uint8).flags.writeable


def test_of_nothing_there_is_none() -> None:
    before = files()
    assert Sheet.of([]) is None
    assert Sheet.of([b""]) is None
    assert files() == before


def test_what_is_laid_is_changed_where_it_lies_only() -> None:
    whole, one, other = sheet(CONTENT), memory(4), memory(4)
    one[:] = bytes([7]) * len(one)
    whole.lay(one, PAGE, 2 * PAGE, 2 * PAGE)
    whole.lay(other, 0, 0, 4 * PAGE)
    assert one[:] == bytes([7]) * PAGE + CONTENT[2 * PAGE :] + bytes([7]) * PAGE
    one[PAGE] ^= 1
    assert one[PAGE : 2 * PAGE] != CONTENT[2 * PAGE : 3 * PAGE]
    assert other[:] == CONTENT == bytes(whole)


def test_what_was_laid_is_blank_again() -> None:
    whole, target = sheet(CONTENT), memory(4)
    whole.lay(target, 0, 0, 4 * PAGE)
    blank(target, PAGE, 2 * PAGE)
    assert target[:] == CONTENT[:PAGE] + bytes(2 * PAGE) + CONTENT[3 * PAGE :]
    target[PAGE] = 1


@pytest.mark.parametrize(("at", "start", "size"), [(0, 0, 5), (3, 2, 2), (2, 3, 2), (-1, 0, 1), (0, -1, 1)])
def test_what_reaches_beyond_is_refused(at: int, start: int, size: int) -> None:
    whole, target = sheet(CONTENT), memory(4)
    with pytest.raises(ValueError, match="bytes from"):
        whole.lay(target, at * PAGE, start * PAGE, size * PAGE)
    assert target[:] == bytes(4 * PAGE)


def test_what_is_no_page_is_refused() -> None:
    whole, target = sheet(CONTENT), memory(4)
    with pytest.raises(OSError, match="Invalid argument"):
        whole.lay(target, 0, 1, PAGE)


def test_memory_keeps_what_was_laid_when_the_sheet_is_gone() -> None:
    target = memory(4)
    whole = sheet(CONTENT)
    before = files()
    whole.lay(target, 0, 0, 4 * PAGE)
    del whole
    gc.collect()
    assert files() < before
    assert target[:] == CONTENT


def test_of_given_files_one_is_used_again_once_nothing_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a file that were cut off under a mapping would end the process."""
    given = [new_file()]
    monkeypatch.setattr("host_tools.support.sheet._given", given)
    target, whole = memory(4), sheet(CONTENT)
    whole.lay(target, 0, 0, 4 * PAGE)
    del whole
    gc.collect()
    with pytest.raises(NoSheetError):
        sheet(CONTENT)
    assert target[:] == CONTENT
    del target
    gc.collect()
    again = sheet(b"less")
    assert bytes(again) == b"less"
    del again
    gc.collect()
    assert Sheet.of([b""]) is None
    assert len(given) == 1
    os.close(given[0])


def test_a_sheet_is_found_in_a_view_of_all_of_it() -> None:
    view = memoryview(sheet(CONTENT))
    found = sheet_of(view)
    assert found is not None
    assert found is view.obj
    for other in (view[:PAGE], view[PAGE:], memoryview(CONTENT), CONTENT):
        assert sheet_of(other) is None


def test_laid_pages_take_no_memory() -> None:
    whole, target = sheet(bytes([1]) * (64 * PAGE)), memory(64)
    whole.lay(target, 0, 0, 64 * PAGE)
    assert sum(target[:]) == 64 * PAGE
    anonymous = Path("/proc/self/smaps").read_text(encoding="ascii").split("/memfd:gramophone")[1:]
    rows = [int(part.partition("Anonymous:")[2].split()[0]) for part in anonymous]
    assert not any(rows)
