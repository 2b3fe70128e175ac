# SPDX-License-Identifier: BSD-2-Clause
"""What somebody does who packs an image of his own around our firmware: its manifest is what `--check` expects."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace

from host_tools.flash import contents
from host_tools.flash.containers import File, take_apart
from host_tools.flash.manifest import NAME, Manifest
from host_tools.flash.names import CONTAINERS
from host_tools.flash.pack import BUILDERS, image_sha256
from host_tools.support.version import TOOL
from tee_replayer.generator import boards

Files = dict[str, bytes]
Seen = Callable[[dict[str, File]], Mapping[str, File]]
PARTITION = 1 << 20
SECTOR = 512
ENTRY = 32
RESERVED = 32 * SECTOR


def forged(
    platform: str,
    files: Mapping[str, bytes],
    edit: Callable[[bytearray], None] = lambda image: None,
    *,
    seen: Seen = lambda files: files,
    build: Callable[[Mapping[str, bytes]], bytes] | None = None,
) -> bytes:
    """An image with a manifest that is made to match.

    Args:
        platform: that it is for.
        files: any, in any order.
        edit: what is then done to the image's bytes; its hash is made good.
        seen: the files as a reader sees them after the edit, from those before it: what the manifest says.
        build: makes the container; default: as the platform's images are built.
    """
    build = build or BUILDERS[CONTAINERS[boards.load(platform).flashed_with.kind]]
    text = b""
    for _ in range(4):
        image = build({**files, NAME: text})
        opened = take_apart(image)
        held = contents.read(seen(dict(opened.files)), boards.load(platform))
        manifest = Manifest(tool=TOOL, image_bytes=len(image), image_sha256="0" * 64, **held.fields())
        if manifest.encode() == text:
            break
        text = manifest.encode()
    place = opened.files[NAME]
    data = bytearray(image)
    edit(data)
    manifest = replace(manifest, image_bytes=len(data))
    manifest = replace(manifest, image_sha256=image_sha256(bytes(data), place))
    assert len(manifest.encode()) == len(text), "the edit must leave the manifest's size as it is"
    data[place.offset : place.offset + len(text)] = manifest.encode()
    return bytes(data)


def archive(change: Callable[[tarfile.TarInfo], None], format: int = tarfile.USTAR_FORMAT) -> Callable[..., bytes]:
    """A builder of archives whose members are changed."""

    def build(files: Mapping[str, bytes]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=format) as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
                change(info)
                tar.addfile(info, io.BytesIO(data))
        return out.getvalue()

    return build


def checksum(short: bytes) -> int:
    """Of an 8.3 name, as each part of its long name has it (FAT specification 1.03, "ChkSum")."""
    total = 0
    for byte in short:
        total = ((total & 1) << 7 | total >> 1) + byte & 0xFF
    return total


def long_part(name: str, number: int, short: bytes, *, last: bool = True, check: int | None = None) -> bytes:
    """An entry with part `number` of a long name of at most 13 characters."""
    text = (name + "\0").encode("utf-16-le")[:26].ljust(26, b"\xff")
    head = bytes([number | (0x40 if last else 0)]) + text[:10] + b"\x0f\0"
    return head + bytes([checksum(short) if check is None else check]) + text[10:22] + b"\0\0" + text[22:]


def entry_at(card: bytearray, short: bytes) -> int:
    """Where a file's own entry lies, by its 8.3 name of 11 bytes."""
    at = card.index(short, PARTITION)
    assert at % ENTRY == 0
    return at


def long_entries(card: bytearray, short: bytes) -> list[int]:
    """Where the parts of a file's long name lie, the first in the folder first."""
    at = entry_at(card, short)
    parts: list[int] = []
    while card[at - ENTRY + 11] == 0x0F:
        at -= ENTRY
        parts.insert(0, at)
    return parts


def rename(card: bytearray, short: bytes, new: bytes, long_name: str = "") -> None:
    """Give an entry another 8.3 name, and a long one of as many characters as it has, 13 at most."""
    at = entry_at(card, short)
    parts = long_entries(card, short)
    for part in parts:
        card[part + 13] = checksum(new)
    if long_name and parts:
        card[parts[0] : parts[0] + ENTRY] = long_part(long_name, 1, new)
    card[at : at + 11] = new
    card[at + 12] = 0  # no lower case by Windows NT's bits


def table_at(card: bytearray) -> int:
    """Where the first table lies."""
    return PARTITION + RESERVED


def table_bytes(card: bytearray) -> int:
    return int(struct.unpack_from("<I", card, PARTITION + 36)[0]) * SECTOR


def cluster_at(card: bytearray, cluster: int) -> int:
    return table_at(card) + 2 * table_bytes(card) + (cluster - 2) * SECTOR


def set_link(card: bytearray, cluster: int, value: int) -> None:
    """Change an entry of both tables."""
    for table in (0, 1):
        struct.pack_into("<I", card, table_at(card) + table * table_bytes(card) + 4 * cluster, value)


def root_end(card: bytearray) -> int:
    """Where the root folder's first unused entry lies."""
    at = cluster_at(card, 2)
    while card[at]:
        at += ENTRY
    return at


def append(card: bytearray, *entries: bytes) -> None:
    """Put entries after the last one of the root folder, in its cluster."""
    data = b"".join(entries)
    at = root_end(card)
    assert at % SECTOR + len(data) <= SECTOR, "no room in the folder's cluster"
    card[at : at + len(data)] = data


def first_cluster(card: bytearray, short: bytes) -> int:
    at = entry_at(card, short)
    return int(struct.unpack_from("<H", card, at + 20)[0] << 16 | struct.unpack_from("<H", card, at + 26)[0])
