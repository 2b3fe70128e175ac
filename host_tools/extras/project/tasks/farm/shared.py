# SPDX-License-Identifier: BSD-2-Clause
"""What computers of a farm share: files and folders by the hash of their content, anywhere that fsspec reaches.

`objects/SHA256` is a file, `objects/SHA256.tar` a folder, `results/KEY.json` an answer and the hash of its output.
An artefact is hashed before it is used: what is half written, damaged or changed is as if it were not there. An
answer is believed, so whoever can write to the store can say what came of a task (docs/FARM.md).
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import fsspec
from obstore.fsspec import register

from host_tools.extras.project.tasks.task import Answer
from host_tools.support import object_stores
from host_tools.support.unchanged import content_hash
from trace_format.errors import GramophoneError
from trace_format.files import open_regular

SHA256 = "[0-9a-f]{64}"
PIECE = 8 << 20  # bytes that are asked for at a time: little memory, and little that is asked for again
PROBE = "results/store"  # written when a farm begins, so that a store that cannot be is told before any task


class SharedError(GramophoneError):
    """The store cannot be used; names it."""


class NotThereError(SharedError):
    """What is asked for, or the bucket, is not there."""


@dataclass(frozen=True)
class Artefact:
    """A file or a folder.

    Attributes:
        sha256: as `content_hash`.
        is_folder: which of both.
    """

    sha256: str
    is_folder: bool

    @property
    def name(self) -> str:
        """Its name in the store."""
        return f"objects/{self.sha256}{'.tar' if self.is_folder else ''}"


class Shared:
    """A store, by its URL."""

    def __init__(self, url: str) -> None:
        """SharedError: no store is there."""
        self.url = url
        kind = object_stores.protocol(url)
        with self._named():
            if kind:
                register(kind)
            options = {"retry_config": object_stores.RETRY, "skip_instance_cache": True} if kind else {}
            self.files, self.root = fsspec.core.url_to_fs(url, **options)
            self.is_local = "file" in self.files.protocol
            for folder in ("objects", "results"):
                self.files.makedirs(f"{self.root}/{folder}", exist_ok=True)

    def probe(self) -> None:
        """See that it can be written and read; SharedError: it cannot."""
        with self._named():
            self.files.pipe_file(f"{self.root}/{PROBE}", b"gramophone\n")
            self.files.cat_file(f"{self.root}/{PROBE}")

    def put(self, path: Path, artefact: Artefact, work: Path) -> None:
        """Write a file or a folder, over whatever is there.

        Args:
            path: where it lies.
            artefact: what it is.
            work: a folder for temporary files.

        Raises:
            SharedError: it cannot be written.
            OSError: it cannot be read.
        """
        if not artefact.is_folder:
            self._write(path, artefact.name)
            return
        packed = work / f"{uuid.uuid4().hex}.tar"
        with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(path.rglob("*")):
                archive.add(file, str(file.relative_to(path)), recursive=False, filter=_plain)
        self._write(packed, artefact.name)
        packed.unlink()

    def get(self, artefact: Artefact, target: Path) -> bool:
        """Read a file or a folder; False: it is not there, or is not what it should be, and nothing is.

        Raises:
            SharedError: the store does not answer.
            OSError: it cannot be written.
        """
        with TemporaryDirectory(prefix=".fetched-", dir=target.parent) as name:
            fetched = Path(name) / "file"
            if not self._read(artefact.name, fetched):
                return False
            if artefact.is_folder:
                folder = Path(name) / "folder"
                folder.mkdir()
                try:
                    with open_regular(fetched) as file, tarfile.open(fileobj=file, mode="r:") as archive:
                        _unpack(archive, folder)
                except (tarfile.TarError, ValueError, OverflowError, EOFError):
                    return False
                fetched = folder
            if content_hash(fetched) != artefact.sha256:
                return False
            os.rename(fetched, target)
            return True

    def keep(self, key: str, answer: Answer, output: Artefact | None, work: Path) -> None:
        """Write a result, whose output is there already; SharedError: it cannot be written."""
        said = {
            "status": answer.status,
            "data": answer.data,
            "output": output and [output.sha256, output.is_folder],
        }
        file = work / f"{uuid.uuid4().hex}.json"
        file.write_text(json.dumps(said, sort_keys=True), encoding="utf-8")
        self._write(file, f"results/{key}.json")
        file.unlink()

    def find(self, key: str) -> tuple[Answer, Artefact | None] | None:
        """A result, whose output may be damaged; None: there is none. SharedError: the store does not answer."""
        try:
            with self._named():
                text = self.files.cat_file(f"{self.root}/results/{key}.json")
        except NotThereError:
            return None
        try:
            said = json.loads(text)
            output = Artefact(str(said["output"][0]), bool(said["output"][1])) if said["output"] else None
            if output and not re.fullmatch(SHA256, output.sha256):
                return None
            return Answer(int(said["status"]), dict(said["data"])), output
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def _read(self, name: str, target: Path) -> bool:
        """In pieces; False: it is not there, or is gone meanwhile."""
        path = f"{self.root}/{name}"
        with target.open("wb") as file:
            try:
                with self._named():
                    size = self.files.info(path)["size"]
                for start in range(0, size, PIECE):
                    with self._named():
                        piece = self.files.cat_file(path, start, min(start + PIECE, size))
                    file.write(piece)
            except NotThereError:
                return False
        return True

    def _write(self, path: Path, name: str) -> None:
        """Under its name at once: object stores do that themselves."""
        target = f"{self.root}/{name}"
        with self._named():
            if self.is_local:
                fresh = f"{target}.{uuid.uuid4().hex}"
                self.files.put_file(str(path), fresh)
                os.replace(fresh, target)
            else:
                self.files.put_file(str(path), target)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Whatever the libraries of the many stores raise, as one sentence."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotThereError(f"{self.url}: {object_stores.reason(error)}") from error
        except Exception as error:
            raise SharedError(f"{self.url}: {object_stores.reason(error)}") from error


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack what `put` has packed: files and folders, below `folder`.

    Raises:
        tarfile.TarError: there is something else.
    """
    for entry in archive:
        name = PurePosixPath(entry.name)
        if not (entry.isreg() or entry.isdir()) or name.is_absolute() or ".." in name.parts:
            raise tarfile.ExtractError(f"{entry.name} is no file or folder of ours")
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter  # Python before 3.11.4 has no filters
    archive.extractall(folder)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same archive of the same content, whoever packs it and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
