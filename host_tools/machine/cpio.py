# SPDX-License-Identifier: BSD-2-Clause
"""cpio archives in the "newc" format, as the kernel's initramfs unpacker reads them.

The format is the kernel's Documentation/driver-api/early-userspace/buffer-format.rst: a header of 13 eight-digit
hexadecimal fields after the magic 070701, the name with its NUL, the data; name and data are padded to 4 bytes.
The kernel unpacks archives that follow one another, so that a small one can be laid over a large cached one.

Archives are deterministic: entries in path order, no times, no owners, inode numbers by position.
"""

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

MAGIC = b"070701"
TRAILER = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """One file, folder or symbolic link. `mode` is st_mode; a link's data is its target."""

    mode: int
    data: bytes = b""


class Archive:
    """The entries of one archive, by path relative to the root ("usr/bin/busybox")."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def add_file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Add a regular file and the folders above it."""
        self._add(path, Entry(stat.S_IFREG | mode, data))

    def add_folder(self, path: str) -> None:
        """Add a folder and those above it."""
        self._add(path, Entry(stat.S_IFDIR | 0o755))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link to `target` and the folders above it."""
        self._add(path, Entry(stat.S_IFLNK | 0o777, target.encode()))

    def _add(self, path: str, entry: Entry) -> None:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise ValueError(f"path in an archive must be relative and plain: {path!r}")
        for parent in pure.parents:
            if parent.parts and not stat.S_ISLNK(
                self.entries.setdefault(str(parent), Entry(stat.S_IFDIR | 0o755)).mode
            ):
                self.entries[str(parent)] = Entry(stat.S_IFDIR | 0o755)
        self.entries[str(pure)] = entry

    def to_bytes(self) -> bytes:
        """The archive, its length a multiple of 4, ending with the trailer."""
        chunks: list[bytes] = []
        for inode, (path, entry) in enumerate(sorted(self.entries.items()), start=1):
            chunks += _pack(path, entry, inode)
        chunks += _pack(TRAILER, Entry(0), 0)
        return b"".join(chunks)


def _pack(path: str, entry: Entry, inode: int) -> Iterable[bytes]:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = MAGIC + b"".join(b"%08X" % field for field in fields) + name
    return header, bytes(-len(header) % 4), entry.data, bytes(-len(entry.data) % 4)


def parse(blob: bytes) -> dict[str, Entry]:
    """Entries of one or several archives laid one after the other; a later entry replaces an earlier one.

    Raises:
        ValueError: not a newc archive, or cut short; names the offset.
    """
    entries: dict[str, Entry] = {}
    offset = 0
    while offset < len(blob):
        header = blob[offset : offset + 110]
        if len(header) < 110 or not header.startswith(MAGIC):
            raise ValueError(
                f"cpio: expected a {MAGIC.decode()} header of 110 bytes at offset {offset}, found {header[:6]!r}"
            )
        try:
            fields = [int(header[at : at + 8], 16) for at in range(6, 110, 8)]
        except ValueError as error:
            raise ValueError(f"cpio: header at offset {offset} has a field that is not hexadecimal") from error
        mode, size, name_size = fields[1], fields[6], fields[11]
        start = offset + 110 + name_size
        start += -start % 4
        if start + size > len(blob) or name_size == 0:
            raise ValueError(f"cpio: entry at offset {offset} wants {start + size} bytes, found {len(blob)}")
        name = blob[offset + 110 : offset + 110 + name_size - 1].decode()
        if name != TRAILER:
            entries[name] = Entry(mode, blob[start : start + size])
        offset = start + size
        offset += -offset % 4
    return entries
