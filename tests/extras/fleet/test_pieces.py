# SPDX-License-Identifier: BSD-2-Clause
"""Whose a file is, when it was collected, and pieces of a log as one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

from host_tools.extras.fleet.pieces import Pieces, collected
from host_tools.extras.fleet.places import File, Folder
from signing.replay_log import ENTRY_BYTES
from trace_format.errors import LimitError, TruncatedError

ENTRIES = [bytes([number]) * ENTRY_BYTES for number in range(9)]


def made(folder: Path, **files: int) -> None:
    for name, count in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(ENTRIES[:count]))


def test_the_path_names_the_device(tmp_path: Path) -> None:
    names = [
        "a.log",
        "a/1.log",
        "a/2026/11/x.log",
        "2026-11-27/a.log",
        "b/a.log",
        "a.b/x.log",
        "other.log",
        "other/x.cbor",
    ]
    made(tmp_path, **dict.fromkeys(names, 1), **{"a/1.txt": 1, "a/.hidden.log": 1, "a/x.cbor": 1})
    found, strange = collected(Folder(tmp_path), {"a", "b", "a.b"})
    files = {name: {str(piece.file.path) for piece in one.logs} for name, one in found.items()}
    assert files == {
        "a": {"a.log", "a/1.log", "a/2026/11/x.log", "2026-11-27/a.log", "b/a.log"},
        "b": set(),
        "a.b": {"a.b/x.log"},
    }
    assert [piece.file.path.name for piece in found["a"].attestations] == ["x.cbor"]
    assert set(map(str, strange)) == {"other.log", "other/x.cbor"}


def test_numbers_in_names_are_in_their_order(tmp_path: Path) -> None:
    made(tmp_path, **{f"a/part-{number}.log": 1 for number in (10, 9, 100, 1)})
    found, _ = collected(Folder(tmp_path), {"a"})
    assert [piece.file.path.stem for piece in found["a"].logs] == ["part-1", "part-9", "part-10", "part-100"]


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("2026-11-27T10:30", datetime(2026, 11, 27, 10, 30, tzinfo=UTC)),
        ("20261127T103000Z", datetime(2026, 11, 27, 10, 30, tzinfo=UTC)),
        ("2026-11-27T10:30+02:00", datetime(2026, 11, 27, 8, 30, tzinfo=UTC)),
        ("2026-11-27", datetime(2026, 11, 27, tzinfo=UTC)),
        ("boot-7", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
    ],
)
def test_a_file_was_collected_when_its_name_says_or_it_was_changed(
    name: str, seen: datetime, tmp_path: Path
) -> None:
    made(tmp_path, **{f"a/{name}.log": 1})
    os.utime(tmp_path / "a" / f"{name}.log", (0, 1_000_000_000))
    found, _ = collected(Folder(tmp_path), {"a"})
    assert found["a"].logs[0].seen == seen


def test_pieces_are_one_log(tmp_path: Path) -> None:
    data = b"".join(ENTRIES)
    for number, (low, high) in enumerate(((0, 1), (1, 1), (1, 6), (6, 9))):
        (tmp_path / f"a-{number}.log").write_bytes(data[low * ENTRY_BYTES : high * ENTRY_BYTES] + b"rest")
    (tmp_path / "a").mkdir()
    for path in list(tmp_path.glob("*.log")):
        path.rename(tmp_path / "a" / path.name)
    log = Pieces(collected(Folder(tmp_path), {"a"})[0]["a"].logs)
    assert log.entries == len(ENTRIES)
    for first in range(len(ENTRIES)):
        for count in range(1, len(ENTRIES) - first + 1):
            assert log.read(first, count) == b"".join(ENTRIES[first : first + count])
            assert sum(size for _, _, size in log.parts(first, count)) == count


def test_what_became_shorter_or_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(bytes(100))
    with pytest.raises(TruncatedError, match="expected 240 bytes, found 60"):
        Folder(tmp_path).read(File(PurePosixPath("a.log"), 100, 0), 40, 240)
    os.mkfifo(tmp_path / "b.log")
    with pytest.raises(LimitError, match="a pipe"):
        Folder(tmp_path).read(File(PurePosixPath("b.log"), 240, 0), 0, 240)


def test_a_folder_that_cannot_be_read_is_its_devices_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, **{"a/1.log": 1, "b/1.log": 1, "c/1.log": 1})
    real = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name in "ac":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found, strange = collected(Folder(tmp_path), {"a", "b"})
    assert [error.filename for error in found["a"].unread] == [str(tmp_path / "a")]
    assert (len(found["b"].logs), strange) == (1, [PurePosixPath("c")])


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        collected(Folder(tmp_path / "no"), {"a"})
