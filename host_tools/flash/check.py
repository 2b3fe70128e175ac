# SPDX-License-Identifier: BSD-2-Clause
"""Reads an image back and proves what is in it: its own bytes against its manifest, and against a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from host_tools.flash import bmap
from host_tools.flash.containers import File, Opened, open_image
from host_tools.flash.contents import Contents, Finding, read
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME, Manifest, key_sha256, sha256
from host_tools.flash.names import CONTAINERS
from host_tools.flash.pack import image_sha256
from host_tools.flash.recompute import as_archive, differences
from signing.trust import Anchor
from tee_replayer.generator import boards
from tee_replayer.generator.boards import Board
from trace_format import layout


@dataclass(frozen=True)
class Checked:
    """What came of a check.

    Attributes:
        kind: "archive", "folder", "flash" or "card".
        manifest: None where it cannot be read.
        manifest_sha256: hash of its bytes, to compare with what `flash` printed; in hex.
        contents: what the image's own bytes say.
        given: pieces that follow from nothing else in the image; all others were made again and compared.
        findings: what does not match; empty when everything does.
        block_map: the image's block map, where a file lies beside it.
    """

    kind: str
    manifest: Manifest | None
    manifest_sha256: str
    contents: Contents
    given: tuple[str, ...]
    findings: tuple[Finding, ...]
    block_map: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether everything matches."""
        return not self.findings


def check(path: Path, key: Anchor | None = None, board: Board | None = None) -> Checked:
    """Check an image, and the block map beside a card's.

    Args:
        path: a file, a device or a folder to which an archive was unpacked.
        key: the device's key as it should be.
        board: what the image is for; None: a board of the project.

    Raises:
        ImageError: it is not an image of ours; with the file's name.
        OSError: it cannot be read.
    """
    with layout.naming(str(path)):
        opened = open_image(path)
        found = check_opened(opened, key, board)
    block_map = bmap.beside(path)
    if opened.kind != "card" or opened.data is None or not path.is_file() or not block_map.is_file():
        return found
    return replace(found, findings=(*found.findings, *bmap.check(block_map, opened.data)), block_map=block_map)


def check_opened(opened: Opened, key: Anchor | None = None, board: Board | None = None) -> Checked:
    """As `check`, for an image that has been taken apart."""
    if NAME not in opened.files:
        raise ImageError("not an image that 'gramophone flash' wrote", expected=f"a file {NAME}", found="none")
    board = board or _board(opened)
    text = opened.files[NAME].data
    findings: list[Finding] = []
    manifest = None
    try:
        manifest = Manifest.decode(text)
    except ImageError as error:
        at = opened.files[NAME].offset + error.offset if error.offset is not None else None
        findings.append(Finding(NAME, at, error.what, _text(error.expected), _text(error.found)))
    if opened.data is None:
        opened = as_archive(opened, board, manifest)
    assert opened.data is not None
    contents = read(opened.files, board)
    findings += contents.findings
    given, differing = differences(opened, board)
    findings += differing
    if manifest is not None:
        findings += _compare(manifest, contents)
        findings += _compare_image(manifest, opened.data, opened.files[NAME])
    if key is not None and contents.device is not None and contents.device.key.kid != key.kid:
        findings.append(
            Finding(*contents.place, "the device's key", key_sha256(key), key_sha256(contents.device.key))
        )
    names = tuple(given.names) if given else ()
    return Checked(opened.kind, manifest, sha256(text), contents, names, tuple(findings))


def _board(opened: Opened) -> Board:
    """The board of the project that these files are for, whatever the manifest says."""
    container = "archive" if opened.kind == "folder" else opened.kind
    found: dict[str, int] = {}
    for platform in boards.names():
        image = boards.load(platform).flashed_with
        files = {name.split("/")[0] for name in image.firmware}
        if CONTAINERS[image.kind] == container and files <= opened.files.keys():
            found[platform] = len(files)
    if found:
        return boards.load(max(found, key=lambda platform: found[platform]))
    raise ImageError(
        "not an image that 'gramophone flash' wrote",
        expected="the files of one of the platforms " + ", ".join(boards.names()),
        found=", ".join(sorted(opened.files)[:8]),
    )


def _compare(manifest: Manifest, contents: Contents) -> list[Finding]:
    """The manifest against what the image's bytes say."""
    found: list[Finding] = []
    for name, value in contents.fields().items():
        claimed = getattr(manifest, name)
        if isinstance(value, tuple):
            found += _compare_rows(name, claimed, value)
        elif claimed != value:
            found.append(Finding(NAME, None, f"{name}, which the image's bytes say", _text(value), _text(claimed)))
    return found


def _compare_rows(field: str, claimed: Sequence[Any], actual: Sequence[Any]) -> list[Finding]:
    """A list of the manifest, row by row; the first field of a row is its name."""
    claims, facts = ({next(iter(vars(row).values())): row for row in rows} for rows in (claimed, actual))
    findings = []
    for name in [*claims, *(name for name in facts if name not in claims)]:
        claim, fact = claims.get(name), facts.get(name)
        place = getattr(fact, "offset", None)
        if claim is None or fact is None:
            where = ("in the manifest", "not there") if fact is None else ("nothing", "there")
            findings.append(Finding(name, place, f"one of the {field.replace('_', ' ')}", *where))
            continue
        for item, value in vars(claim).items():
            if getattr(fact, item) != value:
                findings.append(Finding(name, place, item, _text(value), _text(getattr(fact, item))))
    if not findings and list(claimed) != list(actual):
        findings.append(
            Finding(NAME, None, f"order of the {field.replace('_', ' ')}", "by their place", "another")
        )
    return findings


def _compare_image(manifest: Manifest, data: bytes, place: File) -> list[Finding]:
    if manifest.image_bytes != len(data):
        return [Finding("", len(data), "size of the image", str(manifest.image_bytes), str(len(data)))]
    found = image_sha256(data, place)
    if manifest.image_sha256 == found:
        return []
    return [Finding("", None, f"sha256 of all but {NAME}", manifest.image_sha256, found)]


def _text(value: object) -> str:
    return "" if value is None else str(value)
