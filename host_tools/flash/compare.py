# SPDX-License-Identifier: BSD-2-Clause
"""What differs between two images, or two firmwares: part by part, and what each was made for."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from host_tools.flash.check import check_opened
from host_tools.flash.containers import open_image, take_apart
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME, device_fields, sha256
from host_tools.support.elf import is_elf
from tee_replayer.generator.device import DeviceError, find
from trace_format import layout
from trace_format.errors import GramophoneError
from trace_format.schema.firmware import DEVICE_MAGIC

NOT_LOADED = "what is not loaded was compared only as a whole"
CONTRADICTS = "what contradicts itself in an image was not compared further"
SHF_ALLOC = 2  # flag of a section that is loaded (ELF gABI, chapter 4)


@dataclass(frozen=True)
class Parts:
    """An image or a firmware, taken apart.

    Attributes:
        kind: what it is, in words.
        made_for: what its own bytes say of the device: platform, GPU, key, policy.
        parts: name -> bytes. A part of a part has a name with a slash.
        whole: all of its bytes; None for a folder, which has none of its own.
        traces: names of the parts that are signed traces.
        findings: what contradicts itself in it.
        rest: what of it is in no part.
    """

    kind: str
    made_for: Mapping[str, str]
    parts: Mapping[str, bytes] = field(repr=False)
    whole: bytes | None = field(repr=False)
    traces: tuple[str, ...]
    findings: tuple[str, ...]
    rest: str


@dataclass(frozen=True)
class ChangedPart:
    """A part that differs: sizes, how many bytes of the shorter length differ, and the first and last of them.

    `old_bytes` or `new_bytes` is None where the part is not there; `differ`, `first` and `last` are None then, and
    where one is only longer.
    """

    name: str
    old_bytes: int | None
    new_bytes: int | None
    old_sha256: str | None
    new_sha256: str | None
    differ: int | None = None
    first: int | None = None
    last: int | None = None


def take_parts(path: Path, data: bytes | None) -> Parts:
    """Take an image or a firmware apart.

    Args:
        path: its name; a folder, too, to which an archive was unpacked, or a device.
        data: its content; None for a folder or a device, which is read here.

    Raises:
        ImageError, GramophoneError: it is neither; with the file's name.
        OSError: it cannot be read.
    """
    with layout.naming(str(path)):
        if data is not None and is_elf(data):
            return _firmware("firmware (ELF)", data, _sections(data, path), NOT_LOADED)
        try:
            opened = open_image(path) if data is None else take_apart(data)
            checked = check_opened(opened)
        except ImageError:
            if data is None or DEVICE_MAGIC not in data:
                raise
            return _firmware("firmware (plain bytes)", data, {"firmware": data}, "")
    contents = checked.contents
    return Parts(
        f"image for a board ({checked.kind})",
        _words(device_fields(contents.device)) if contents.device else {},
        {name: piece.data for name, piece in {**contents.pieces, NAME: opened.files[NAME]}.items()},
        opened.data,
        tuple(trace.file for trace in contents.traces),
        tuple(map(str, checked.findings)),
        "" if checked.ok else CONTRADICTS,
    )


def _words(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items()}


def _firmware(kind: str, data: bytes, parts: Mapping[str, bytes], rest: str) -> Parts:
    made_for: dict[str, str] = {}
    findings: list[str] = []
    try:
        for number, (_, device) in enumerate(find(data)):
            found = _words(device_fields(device) | {"carveout_bytes": device.carveout_bytes})
            made_for |= {f"{name} ({number + 1})" if number else name: value for name, value in found.items()}
    except DeviceError as error:
        findings.append(str(error))
    return Parts(kind, made_for, parts, data, (), tuple(findings), rest)


def _sections(data: bytes, path: Path) -> dict[str, bytes]:
    """Content of an ELF's sections that are loaded; of those that are only zeros, their size."""
    found: dict[str, bytes] = {}
    try:
        elf = ELFFile(io.BytesIO(data))
        for number, section in enumerate(elf.iter_sections()):
            name = section.name or f"section {number}"
            if not section["sh_flags"] & SHF_ALLOC:
                continue
            content = (
                section["sh_size"].to_bytes(8, "little") if section["sh_type"] == "SHT_NOBITS" else section.data()
            )
            found[name if name not in found else f"{name} ({number})"] = content
    except (ELFError, ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise GramophoneError(f"{path}: a damaged ELF file: {error}") from error
    return found


def changed_parts(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[ChangedPart]:
    """Parts that differ, in the order of the new image, then those that are gone."""
    names = [*new, *(name for name in old if name not in new)]
    return [_part(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _part(name: str, old: bytes | None, new: bytes | None) -> ChangedPart:
    part = ChangedPart(
        name,
        None if old is None else len(old),
        None if new is None else len(new),
        None if old is None else sha256(old),
        None if new is None else sha256(new),
    )
    both = min(len(old or b""), len(new or b""))
    wrong = np.flatnonzero(
        np.frombuffer(old or b"", np.uint8)[:both] != np.frombuffer(new or b"", np.uint8)[:both]
    )
    return replace(part, differ=len(wrong), first=int(wrong[0]), last=int(wrong[-1])) if len(wrong) else part
