# SPDX-License-Identifier: BSD-2-Clause
"""Archives, folders and flash images: the same files give the same bytes, and are read back where they lie."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.flash.containers import ARCHIVE_AT, FIRMWARE, open_image, pack_archive, pack_flash, take_apart
from host_tools.flash.errors import ImageError
from tests.support.archives import extract

NAMES = st.from_regex(r"[a-z0-9_]{1,8}(/[a-z0-9.]{1,8}[a-z])?", fullmatch=True)
FILES = st.dictionaries(NAMES, st.binary(max_size=700), min_size=1, max_size=5)


@given(FILES)
def test_archive(files: dict[str, bytes]) -> None:
    data = pack_archive(files)
    assert data == pack_archive(files)
    found = take_apart(data)
    assert (found.kind, found.data) == ("archive", data)
    assert {name: file.data for name, file in found.files.items()} == files
    assert all(data[file.offset :].startswith(file.data) for file in found.files.values())


@given(FILES, st.binary(min_size=1, max_size=2000).map(lambda data: data + b"\0"))
def test_flash(files: dict[str, bytes], firmware: bytes) -> None:
    data = pack_flash({FIRMWARE: firmware, **files})
    assert len(data) % ARCHIVE_AT == 0
    found = take_apart(data)
    assert found.kind == "flash"
    assert {name: file.data for name, file in found.files.items()} == {FIRMWARE: firmware, **files}
    assert all(data[file.offset :].startswith(file.data) for file in found.files.values())


def test_a_folder_is_what_was_unpacked(tmp_path: Path) -> None:
    files = {"a.bin": b"1", "c.bin": b"2"}
    with tarfile.open(fileobj=io.BytesIO(pack_archive(files))) as tar:
        extract(tar, tmp_path)
    found = open_image(tmp_path)
    assert (found.kind, found.data) == ("folder", None)
    assert {name: file.data for name, file in found.files.items()} == files


def test_a_folder_has_only_files(tmp_path: Path) -> None:
    """A link may lead elsewhere after the check; what lies deeper is in no archive of ours."""
    (tmp_path / "a.bin").write_bytes(b"1")
    other = tmp_path / "b"
    makers: tuple[Callable[[], None], ...] = (
        other.mkdir,
        lambda: other.symlink_to("a.bin"),
        lambda: os.mkfifo(other),
    )
    for make in makers:
        make()
        with pytest.raises(ImageError, match="'b' in the folder: expected a file"):
            open_image(tmp_path)
        other.rename(tmp_path.with_name(f"{tmp_path.name}-{makers.index(make)}"))


def test_names_that_differ_in_case_only() -> None:
    with pytest.raises(ImageError, match=r"file 'A\.bin': expected a name that differs from 'a\.bin'"):
        take_apart(pack_archive({"a.bin": b"1", "A.bin": b"2"}))


def archive(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info


MALFORMED = {
    "empty": (b"", "not an image that 'gramophone flash' wrote"),
    "text": (b"hello" * 1000, "not an image that 'gramophone flash' wrote"),
    "a way out": (archive(member("../a")), "file '../a': expected a name that stays in its folder"),
    "an absolute name": (archive(member("/a")), "file '/a'"),
    "a name for terminals": (archive(member("a\x1b[2J")), "file 'a\\x1b[2J'"),
    "a name that is no text": (archive(member("\udcff")), "file '\\udcff'"),
    "a link": (archive(member("a", tarfile.SYMTYPE)), "'a' in the archive"),
    "two of a name": (archive(member("a"), member("a")), "at offset 0x200: 'a' in the archive"),
    "cut": (pack_archive({"a": bytes(9000)})[:4096], "end of 'a' in the archive"),
    "damaged head": (archive(member("a")).replace(b"a\0", b"b\0", 1), "not a tar archive"),
}


@given(st.binary(min_size=1, max_size=8), st.integers(0, 1535))
def test_a_damaged_archive_is_read_or_refused(noise: bytes, at: int) -> None:
    data = bytearray(pack_archive({"a": b"1" * 600, "b": b"2"}))
    data[at : at + len(noise)] = noise
    with contextlib.suppress(ImageError):
        assert take_apart(bytes(data)).kind == "archive"


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    data, reason = MALFORMED[name]
    with pytest.raises(ImageError) as error:
        take_apart(data)
    assert reason in str(error.value)


def test_a_firmware_that_does_not_fit() -> None:
    with pytest.raises(ImageError, match=r"size of firmware.bin: expected at most 262144, found 262145"):
        pack_flash({FIRMWARE: bytes(ARCHIVE_AT + 1)})
