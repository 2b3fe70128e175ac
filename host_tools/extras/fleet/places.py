# SPDX-License-Identifier: BSD-2-Clause
"""Where logs were collected: a folder, or an object store (obstore). The only code that reads them.

Names and sizes come from whoever uploads, and so does which objects may be read.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from host_tools.support import object_stores
from signing.replay_log import ENTRY_BYTES
from trace_format import limits
from trace_format.errors import GramophoneError, TruncatedError
from trace_format.files import open_regular, read_file

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BLOCK = 1 << 20  # bytes that are asked of an object store at a time
HELD = 32 << 20  # bytes of it that are kept
AT_ONCE = 16  # requests under way


class StoreError(GramophoneError):
    """An object store cannot be used: nothing that one device's objects are to blame for."""


@dataclass(frozen=True)
class File:
    """What a place has.

    Attributes:
        path: from the place on; names parts of folders and stores alike.
        size: bytes, at first sight.
        changed: when it was last changed, seconds of POSIX.
    """

    path: PurePosixPath
    size: int
    changed: float


class Place(ABC):
    """Somewhere that files were collected.

    Attributes:
        name: as people call it.
        unread: after `files`: folders that cannot be read, and why.
    """

    name: str
    unread: list[tuple[PurePosixPath, OSError]]

    def named(self, path: PurePosixPath) -> str:
        """What people call one of its files."""
        return f"{self.name.rstrip('/')}/{path}"

    @abstractmethod
    def files(self, suffixes: Collection[str]) -> Iterator[File]:
        """All whose names end so; OSError, StoreError: the place itself cannot be read."""

    @abstractmethod
    def read(self, file: File, offset: int, size: int) -> bytes:
        """Some bytes.

        Raises:
            TruncatedError: there are fewer.
            LimitError: it is no regular file.
            OSError: it cannot be read.
            StoreError: nothing can be read at all.
        """

    @abstractmethod
    def whole(self, file: File) -> bytes:
        """All bytes of a small file; LimitError: there are too many; others as `read`."""

    def ahead(self, files: Collection[File]) -> None:
        """These are read next, which a place may ignore."""
        del files


@dataclass
class Folder(Place):
    """A folder of this computer."""

    folder: Path
    unread: list[tuple[PurePosixPath, OSError]] = field(default_factory=list)

    @property
    def name(self) -> str:  # type: ignore[override]
        """As people call it."""
        return str(self.folder)

    def files(self, suffixes: Collection[str]) -> Iterator[File]:
        """As `Place.files`."""
        unread: list[OSError] = []
        for parent, _, names in os.walk(self.folder, onerror=unread.append):
            for path in (Path(parent, name) for name in names):
                try:
                    about = path.stat() if path.suffix in suffixes else None
                except OSError:  # it is gone, or a link to nothing
                    continue
                if about:
                    # What is no file, such as a pipe, is refused when it is opened.
                    size = about.st_size if stat.S_ISREG(about.st_mode) else ENTRY_BYTES
                    yield File(PurePosixPath(path.relative_to(self.folder)), size, about.st_mtime)
        for error in unread:
            if Path(error.filename) == self.folder:
                raise error
            self.unread.append((PurePosixPath(Path(error.filename).relative_to(self.folder)), error))

    def read(self, file: File, offset: int, size: int) -> bytes:
        """As `Place.read`."""
        with open_regular(self.folder / file.path) as opened:
            opened.seek(offset)
            data = opened.read(size)
        return _of_size(data, size, offset, self.named(file.path))

    def whole(self, file: File) -> bytes:
        """As `Place.whole`."""
        return read_file(self.folder / file.path, limits.SMALL_BYTES)


class Bucket(Place):
    """An object store, by its URL. What was read last is kept, since ends of logs are read several times."""

    def __init__(self, url: str) -> None:
        """StoreError: the URL, or what the environment says of the store, makes no sense."""
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        self.name = url
        self.unread = []
        self._error = BaseError
        self._held: OrderedDict[tuple[PurePosixPath, int], bytes] = OrderedDict()
        self._size = 0
        try:
            self._store: ObjectStore = from_url(url, retry_config=object_stores.RETRY)
        except (BaseError, ValueError) as error:
            raise StoreError(f"{url}: {object_stores.reason(error)}") from error

    def files(self, suffixes: Collection[str]) -> Iterator[File]:
        """As `Place.files`."""
        from obstore.exceptions import InvalidPathError

        try:
            try:
                found = [file for rows in self._store.list() for file in _files(rows, suffixes)]
            except InvalidPathError:  # a name like a//b, which obstore gives up at: in which folder?
                found = list(self._below(None, suffixes))
        except (self._error, FileNotFoundError) as error:
            raise StoreError(f"{self.name}: {object_stores.reason(error)}") from error
        yield from found

    def _below(self, folder: str | None, suffixes: Collection[str]) -> Iterator[File]:
        from obstore.exceptions import InvalidPathError

        try:
            found = self._store.list_with_delimiter(folder)
        except InvalidPathError as error:
            if folder is None:
                raise
            place = PurePosixPath(folder)
            self.unread.append((place, OSError(0, object_stores.reason(error), self.named(place))))
            return
        yield from _files(found["objects"], suffixes)
        for below in found["common_prefixes"]:
            yield from self._below(below, suffixes)

    def read(self, file: File, offset: int, size: int) -> bytes:
        """As `Place.read`."""
        end = min(offset + size, file.size)
        blocks = [self._block(file, number) for number in range(offset // BLOCK, -(-end // BLOCK))]
        start = offset % BLOCK
        data = b"".join(blocks)[start : start + max(end - offset, 0)]
        return _of_size(data, size, offset, self.named(file.path))

    def whole(self, file: File) -> bytes:
        """As `Place.whole`."""
        limits.check("size of the object in bytes", file.size, limits.SMALL_BYTES, file=self.named(file.path))
        return self.read(file, 0, file.size)

    def ahead(self, files: Collection[File]) -> None:
        """Ask for the first blocks of files at the same time: most files have one only."""
        wanted, size = [], 0
        for file in files:
            size += min(file.size, BLOCK)
            if size > HELD // 2:
                break
            if file.size and (file.path, 0) not in self._held:
                wanted.append(file)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for file, data in zip(wanted, pool.map(self._tried, wanted), strict=True):
                if data is not None:
                    self._keep((file.path, 0), data)

    def _tried(self, file: File) -> bytes | None:
        """The first block; None: whoever reads the file gets the error."""
        try:
            return self._asked(file, 0)
        except OSError:
            return None

    def _block(self, file: File, number: int) -> bytes:
        key = file.path, number
        if key in self._held:
            self._held.move_to_end(key)
        else:
            self._keep(key, self._asked(file, number))
        return self._held[key]

    def _keep(self, key: tuple[PurePosixPath, int], data: bytes) -> None:
        self._held[key] = data
        self._size += len(data)
        while self._size > HELD:
            self._size -= len(self._held.popitem(last=False)[1])

    def _asked(self, file: File, number: int) -> bytes:
        from obstore.exceptions import PermissionDeniedError

        try:
            first, end = number * BLOCK, min((number + 1) * BLOCK, file.size)
            return bytes(self._store.get_range(str(file.path), start=first, end=end))
        except FileNotFoundError:
            raise FileNotFoundError(2, "No such object", self.named(file.path)) from None
        except PermissionDeniedError as error:
            raise PermissionError(13, object_stores.reason(error), self.named(file.path)) from None
        except self._error as error:
            if "status code: 416" in object_stores.reason(error):  # it is shorter than it was
                return b""
            raise StoreError(f"{self.named(file.path)}: {object_stores.reason(error)}") from error


def place_of(address: str) -> Place:
    """A folder by its path, an object store by its URL.

    Raises:
        StoreError: the URL is of no kind that is known, or makes no sense.
        ModuleNotFoundError: obstore is missing.
    """
    kind, url, _ = address.partition("://")
    if not url:
        return Folder(Path(address))
    if object_stores.protocol(address) is None:
        known = ", ".join(f"{name}://" for name in object_stores.PROTOCOLS)
        raise StoreError(f"{address}: expected a folder, or one of {known}; found {kind}://")
    return Bucket(address)


def _files(rows: Collection[Any], suffixes: Collection[str]) -> Iterator[File]:
    for row in rows:
        path = PurePosixPath(row["path"])
        if path.suffix in suffixes:
            yield File(path, row["size"], row["last_modified"].timestamp())


def _of_size(data: bytes, size: int, offset: int, name: str) -> bytes:
    if len(data) != size:
        raise TruncatedError(
            "entries of a log", offset=offset, expected=f"{size} bytes", found=len(data), file=name
        )
    return data
