# SPDX-License-Identifier: BSD-2-Clause
"""What tasks have made, by the hash of what it was made of: in the user's cache, so that projects share it.

An entry is a folder: `answer.json`, and `output` if the task writes something. It is made beside the others and
renamed, so nobody sees half of one; its output's hash is compared each time, so a damaged one is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from host_tools.extras.project.tasks.task import Answer
from host_tools.support.cache import cache_dir
from host_tools.support.files import write_atomically
from host_tools.support.unchanged import content_hash
from trace_format.files import read_file_text

ANSWER, OUTPUT = "answer.json", "output"


@dataclass(frozen=True)
class Entry:
    """A result.

    Attributes:
        status: 0, or 1 where the answer is no.
        data: the command's JSON.
        sha256: of the output's content; of the answer where there is no output.
        output: where it lies; None where there is none.
    """

    status: int
    data: dict[str, Any]
    sha256: str
    output: Path | None


class Store:
    """The results that are kept in a folder; by default in the cache's part `make`."""

    def __init__(self, folder: Path | None = None) -> None:
        """OSError: the folder is not there and cannot be made."""
        self.folder = (folder or cache_dir("make")).resolve()  # tasks run elsewhere
        self.folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Entry | None:
        """A result, whole; None if there is none, or what there is was damaged."""
        folder = self.folder / key
        try:
            said = json.loads(read_file_text(folder / ANSWER))
            output = folder / OUTPUT if said["output"] else None
            if output and content_hash(output) != said["sha256"]:
                return None
            return Entry(said["status"], said["data"], said["sha256"], output)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """An empty folder that is gone afterwards."""
        with TemporaryDirectory(prefix=".work-", dir=self.folder, ignore_cleanup_errors=True) as name:
            yield Path(name)

    def keep(self, key: str, answer: Answer, output: Path | None) -> Entry:
        """Keep a result; of two that are kept at once, one stays.

        Args:
            key: as `task.key_of`.
            answer: what the command said.
            output: what it wrote, which is moved.
        """
        with self.workplace() as folder:
            fresh = folder / "entry"
            fresh.mkdir()
            data = json.dumps(answer.data, sort_keys=True)
            if output:
                os.rename(output, fresh / OUTPUT)
                sha256 = content_hash(fresh / OUTPUT)
            else:
                (folder / "text").write_text(data, encoding="utf-8")
                sha256 = content_hash(folder / "text")
            said = {"status": answer.status, "data": answer.data, "sha256": sha256, "output": output is not None}
            write_atomically(fresh / ANSWER, json.dumps(said, sort_keys=True).encode())
            target = self.folder / key
            if self.find(key) is None and target.exists():
                os.rename(target, folder / "damaged")
            with contextlib.suppress(OSError):  # somebody else was first
                os.rename(fresh, target)
        found = self.find(key)
        if found is None:
            raise OSError(0, "could not be kept", str(self.folder / key))
        return found


def put(entry: Entry, place: Path) -> bool:
    """Put a result's output where the user wants it; False if the same is there already.

    Raises:
        OSError: it cannot be written.
    """
    assert entry.output is not None
    with contextlib.suppress(OSError):
        if place.is_dir() == entry.output.is_dir() and content_hash(place) == entry.sha256:
            return False
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".gramophone.", dir=place.parent) as name:
        fresh = Path(name) / "fresh"
        if entry.output.is_dir():
            shutil.copytree(entry.output, fresh, symlinks=True)
        else:
            shutil.copyfile(entry.output, fresh)
        if place.is_dir():
            os.rename(place, Path(name) / "old")
        os.replace(fresh, place)
    return True
