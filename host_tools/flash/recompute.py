# SPDX-License-Identifier: BSD-2-Clause
"""An image against the one that packing makes of its parts, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from host_tools.flash import fip
from host_tools.flash.containers import File, Opened, pack_archive, take_apart
from host_tools.flash.contents import Finding
from host_tools.flash.derive import Files, Given, complete, given_in, is_known
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME, Manifest
from host_tools.flash.names import CONTAINERS, FIP
from host_tools.flash.pack import BUILDERS
from tee_replayer.generator.boards import Board
from trace_format.errors import GramophoneError

SHOWN_BYTES = 8  # of two places that differ


def as_archive(opened: Opened, board: Board, manifest: Manifest | None) -> Opened:
    """A folder as the archive that it was unpacked from; traces are in the order that the manifest claims.

    Raises:
        ImageError: no archive of ours can hold its files.
    """
    places = {piece.name: piece.offset for piece in manifest.pieces} if manifest else {}
    ordered = sorted(opened.files, key=lambda name: (places.get(name, 0), name))
    found = {name: opened.files[name].data for name in ordered}
    try:
        made = complete(board, given_in(board, {name: data for name, data in found.items() if name != NAME}))
    except GramophoneError:
        made = {}
    files = _in_order(found, made)
    try:
        data = pack_archive(files)
    except ValueError as error:  # names and sizes that the format has no room for
        raise ImageError(f"not the files of an archive that 'gramophone flash' wrote: {error}") from None
    return Opened("folder", take_apart(data).files, data)


def differences(opened: Opened, board: Board) -> tuple[Given | None, list[Finding]]:
    """What is not as packing makes it.

    Args:
        opened: with the bytes of the whole image.
        board: what it is for.

    Returns:
        The parts that follow from nothing else, and the findings; no parts where they cannot be told.
    """
    files = {name: file.data for name, file in opened.files.items() if name != NAME}
    image = board.flashed_with
    findings = [
        Finding(name, file.offset, "is none of the files of such an image", "nothing", "there")
        for name, file in opened.files.items()
        if name != NAME and not is_known(image, name)
    ]
    given, made = None, Files()
    try:
        given = given_in(board, files)
        made = complete(board, given)
        findings += _compare(opened.files, made)
        findings += [
            Finding(name, None, "one of the files", "there", "not there") for name in made if name not in files
        ]
    except GramophoneError as error:
        findings.append(Finding("", None, f"packing makes no image of its parts: {error}", "", ""))
    return given, [*findings, *_layout(opened, board, made)]


def _compare(files: Mapping[str, File], made: Files) -> Iterator[Finding]:
    """Files that are there against what they must be."""
    for name, expected in made.items():
        if name not in files or files[name].data == expected:
            continue
        parts = list(_package(files[name], expected)) if name == FIP else []
        yield from parts or [_difference(name, files[name].offset, files[name].data, expected)]


def _package(file: File, expected: bytes) -> Iterator[Finding]:
    """Images of a package that differ."""
    found, right = fip.parse(file.data).images, fip.parse(expected).images
    for part in [*right, *(part for part in found if part not in right)]:
        if part not in found or part not in right:
            where = ("there", "not there") if part in right else ("nothing", "there")
            yield Finding(f"{FIP}/{part}", None, "one of the images of the package", *where)
        elif found[part].data != right[part].data:
            at = file.offset + found[part].offset
            yield _difference(f"{FIP}/{part}", at, found[part].data, right[part].data)


def _layout(opened: Opened, board: Board, made: Files) -> list[Finding]:
    """The container against the one that packing makes of the same files."""
    assert opened.data is not None
    build = BUILDERS[CONTAINERS[board.flashed_with.kind]]
    try:
        expected = build(_in_order({name: file.data for name, file in opened.files.items()}, made))
    except ValueError as error:  # names and sizes that its format has no room for
        return [Finding("", None, f"packing makes no image of its files: {error}", "", "")]
    if expected == opened.data:
        return []
    return [_difference("", 0, opened.data, expected, "is not as packing lays out these files")]


def _in_order(files: Files, made: Files) -> Files:
    """The files as packing orders those that it made; others, and the manifest, come last."""
    rest = [name for name in files if name not in made and name != NAME]
    return {name: files[name] for name in [*made, *rest, NAME] if name in files}


def _difference(
    name: str,
    offset: int,
    found: bytes,
    expected: bytes,
    what: str = "is not what packing makes of the image's other parts",
) -> Finding:
    """The first byte that differs."""
    at = first_difference(found, expected)
    right, wrong = (data[at : at + SHOWN_BYTES].hex() or "the end" for data in (expected, found))
    return Finding(name, offset + at, what, right, wrong)


def first_difference(one: bytes, other: bytes) -> int:
    """Index of the first byte that differs, or the shorter one's size."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:  # the first difference is in [low, high)
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low
