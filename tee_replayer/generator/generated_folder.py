# SPDX-License-Identifier: BSD-2-Clause
"""The folder that the generator writes: filled templates, and a list of its files by which edits are noticed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from trace_format.errors import GramophoneError, listed
from trace_format.files import read_file, read_file_text

LIST = "generated.sha256"  # in the form of sha256sum, which checks it too
# What the folder's Makefiles write.
_BUILT = re.compile(
    r"firmware\.(elf|bin|map|lds)|build\.flags|gramophone-gpu|carveout\.dtbo|(.+/)?[^/]+\.(o|a|so)|ta/(.+\.(ta|elf|map|dmp|cmd|d|lds)|dyn_list)"
)
_ROW = re.compile(r"([0-9a-f]{64})  (.+)")


class FolderError(GramophoneError):
    """A folder that must not be replaced."""


def write_list(folder: Path) -> None:
    """List all files of a folder that has just been generated."""
    rows = [f"{_hash(folder / name)}  {name}\n" for name in _files(folder)]
    (folder / LIST).write_text("".join(rows), encoding="utf-8")


def check_replaceable(folder: Path, *, force: bool) -> None:
    """Refuse a folder that somebody has work in.

    Args:
        folder: to be replaced; need not exist.
        force: what was edited or added since it was generated is given up.

    Raises:
        FolderError: it was not generated, or files are not as they were generated; with their names.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "replayer.c").is_file() and not (folder / LIST).is_file():
        raise FolderError(f"{folder} exists and is no generated folder: name another folder")
    if force:
        return
    if not (folder / LIST).is_file():
        raise FolderError(
            f"{folder}: an earlier version generated it, so edits in it cannot be told ({LIST} is missing); "
            "--force replaces it with all that is in it"
        )
    lines = read_file_text(folder / LIST).splitlines()
    found = {row[2]: row[1] for line in lines if (row := _ROW.fullmatch(line))}
    names = [name for name in _files(folder) if name != LIST]
    edited = [name for name in names if name in found and _hash(folder / name) != found[name]]
    added = [name for name in names if name not in found and not _BUILT.fullmatch(name)]
    if edited or added:
        what = [f"edited: {listed(edited)}"] * bool(edited) + [f"added: {listed(added)}"] * bool(added)
        raise FolderError(
            f"{folder}: files are not as they were generated: {'; '.join(what)}; --force replaces the folder with "
            "all that is in it; keep a board's description and a client policy outside it (board, client_policy)"
        )


def filled(file: Path, values: Mapping[str, str]) -> str:
    """Text of a template with a value in the place of each mark."""
    text = read_file_text(file)
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _hash(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()
