# SPDX-License-Identifier: BSD-2-Clause
"""Blocks of a trace's text (docs/TEXT.md): what their lines say, and what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from host_tools.text.action_lines import ActionLines
from host_tools.text.image_lines import Base64Reader, ImageReader
from host_tools.text.storage import TYPES, Stored
from host_tools.text.words import QUOTED, WordError, integer, shown, unquoted
from trace_format import limits, networks, profile
from trace_format.actions import Action
from trace_format.assembly import DEFAULT_CHUNK_BYTES
from trace_format.network import Network
from trace_format.schema import (
    MAX_CARVEOUT_BYTES,
    MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    PAGE_BYTES,
    Codec,
    DType,
    SectionType,
    SlotKind,
)
from trace_format.schema import Manifest as ManifestStruct
from trace_format.slots import Slot, check_slots
from trace_format.trace import Trace

_SLOT = re.compile(
    rf"slot\s+({QUOTED})\s+(\w+)\s+(\w+)\s+\[([\d\s,]*)\]\s+strides\s+\[([\d\s,]*)\]\s+at\s+(\w+)\s+as(\d+)(\s+bound)?"
)
_SLOT_HINT = '`slot "NAME" KIND TYPE [SHAPE] strides [BYTES] at 0xADDRESS asNUMBER`, and `bound` or nothing'
_NETWORK = re.compile(
    rf"network\s+({QUOTED})\s+"
    + r"\s+".join(rf"{key}\s+(?P<{key}>\d+)" for key in networks.NUMBERS)
    + r"\s+image\s+\[(?P<image>[\d\s:,]*)\](?P<exclusive>\s+exclusive)?"
)
_NETWORK_HINT = (
    f'`network "NAME"`, then {", ".join(networks.NUMBERS)}, each with its number, '
    "`image [FIRST:END, ...]`, and `exclusive` or nothing"
)
_SECTION = re.compile(
    r"(section\s+(?P<number>\d+)|(?P<name>\w+))\s+(?P<codec>\w+)(?P<size>\s+\d+)?"
    r"(\s+base64\s+(?P<packed>\d+))?"
)
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_SIZES = {item.name: item.sizeof() for item in ManifestStruct.subcons}
_MAX_BYTES = 1 << 32  # of a section


@dataclass
class Text:
    """What has been read so far."""

    most_bytes: int  # that the image, or a section, may have
    gpu: profile.Profile | None = None
    raw: bool = False
    numbers: dict[str, int] = field(default_factory=dict)  # of the manifest, not in `meta`
    meta: dict[str, Any] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)
    notes: bytes | None = None
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    sections: list[Stored] | None = None
    actions: list[Action] = field(default_factory=list)
    image: bytes = b""
    lines: dict[str, list[int]] = field(default_factory=dict)  # of blocks, actions and sections


class Block:
    """Reads the lines of a block; what they say is put into the text.

    Args:
        text: what the whole says.
        head: the line that the block begins with.
    """

    def __init__(self, text: Text, head: str) -> None:
        self.text = text
        self.words = head.split()

    def take(self, line: str) -> None:
        """A line that belongs to it; WordError."""
        raise WordError("a line in the first column, for nothing belongs to the one above", shown(line.strip()))

    def end(self) -> None:
        """All its lines were there; WordError: something is missing."""

    def _alone(self) -> None:
        if len(self.words) != 1:
            raise WordError(f"`{self.words[0]}` alone in its line", shown(" ".join(self.words[1:])))


class _Manifest(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        self._alone()
        self.seen: set[str] = set()

    def take(self, line: str) -> None:
        key, _, word = line.strip().partition(" ")
        word = word.strip()
        if key in self.seen:
            raise WordError("each key of the manifest once", f"{key} again")
        self.seen.add(key)
        default = Trace.META_DEFAULTS.get(key)
        if key == "gpu":
            if word not in profile.names():
                raise WordError(f"a GPU ({', '.join(profile.names())})", shown(word))
            self.text.gpu = profile.load(word)
        elif key == "raw":
            if word not in ("yes", "no"):
                raise WordError("yes or no", shown(word))
            self.text.raw = word == "yes"
        elif key == "profile_id":
            own = gpu_of(self.text).profile_id
            if integer(word, _U64) != own:
                what = f"{own:#018x}, the register policy that this version has of the GPU"
                raise WordError(what, shown(word))
        elif key in ("carveout_bytes", "va_bytes"):
            most = MAX_CARVEOUT_BYTES if key == "carveout_bytes" else 1 << gpu_of(self.text).mmu["va_bits"]
            size = integer(word, most)
            if size % PAGE_BYTES or not size:
                raise WordError(f"a multiple of {PAGE_BYTES}", shown(word))
            self.text.numbers[key] = size
        elif isinstance(default, bytes):
            if not re.fullmatch(rf"[0-9a-fA-F]{{{2 * _SIZES[key]}}}", word):
                raise WordError(f"{2 * _SIZES[key]} hexadecimal digits", shown(word))
            self.text.meta[key] = bytes.fromhex(word)
        elif isinstance(default, int):
            self.text.meta[key] = integer(word, _U64 if _SIZES[key] == 8 else _U32)
        elif isinstance(default, str):
            value = unquoted(word)
            if len(value.encode()) > _SIZES[key] or "\0" in value:
                raise WordError(f"at most {_SIZES[key]} bytes of UTF-8 without NUL", shown(word))
            self.text.meta[key] = value
        else:
            raise WordError("a key of the manifest", shown(key))

    def end(self) -> None:
        missing = [key for key in ("gpu", "carveout_bytes", "va_bytes") if key not in self.seen]
        if missing:
            raise WordError(f"{missing[0]} in the manifest", "none")


class _Slot(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        gpu = gpu_of(text)
        found = _SLOT.fullmatch(head)
        if found is None:
            raise WordError(_SLOT_HINT, shown(head, 100))
        name = unquoted(found[1])
        if len(name.encode()) > 32 or "\0" in name:
            raise WordError("a name of at most 32 bytes of UTF-8 without NUL", shown(found[1]))
        slot = Slot(
            name,
            _member(SlotKind, found[2], "a slot's kind"),
            _member(DType, found[3], "an element type"),
            _numbers(found[4]),
            _numbers(found[5]),
            integer(found[6], _U64, "an address"),
            integer(found[7], 0xFFFF, "an address space"),
            bool(found[8]),
        )
        text.slots.append(slot)
        check_slots(text.slots, text.numbers["va_bytes"], gpu.address_spaces)


class _Network(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        found = _NETWORK.fullmatch(head)
        if found is None:
            raise WordError(_NETWORK_HINT, shown(head, 100))
        name = unquoted(found[1])
        if not 0 < len(name.encode()) <= 32 or "\0" in name:
            raise WordError("a name of 1 to 32 bytes of UTF-8 without NUL", shown(found[1]))
        numbers = {key: integer(found[key], _U32) for key in networks.NUMBERS}
        ranges = [pages.split(":") for pages in found["image"].split(",")] if found["image"].strip() else []
        if any(len(pages) != 2 for pages in ranges):
            raise WordError("pages of the image as FIRST:END", shown(found["image"], 100))
        image = tuple((integer(first.strip(), _U32), integer(end.strip(), _U32)) for first, end in ranges)
        text.networks.append(Network(name, exclusive=bool(found["exclusive"]), image=image, **numbers))


class _Notes(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        self.base64 = Base64Reader()
        self.lines: list[str] = []
        self.data = bytearray()
        self.packed = len(self.words) == 3 and self.words[1] == "base64"
        if self.packed:
            self.base64.begin(integer(self.words[2], _MAX_BYTES))
        else:
            self._alone()

    def take(self, line: str) -> None:
        if self.packed:
            self.data += self.base64.take(line)
        else:
            self.lines.append(line)

    def end(self) -> None:
        if self.base64.missing:
            raise WordError(f"{self.base64.missing} more bytes in base64", "the end of the notes")
        try:
            found = json.loads(self.data if self.packed else "\n".join(self.lines))
        except (ValueError, RecursionError) as error:
            raise WordError("notes in JSON", str(error)) from None
        if not isinstance(found, dict):
            raise WordError("a JSON object", shown(str(found)))
        canonical = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
        self.text.notes = bytes(self.data) if self.packed else canonical


class _StorageBlock(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        self._alone()
        self.base64 = Base64Reader()
        self.data = bytearray()
        text.sections = []

    def take(self, line: str) -> None:
        assert self.text.sections is not None
        if self.base64.missing:
            self.data += self.base64.take(line)
            if not self.base64.missing:
                last = self.text.sections[-1]
                self.text.sections[-1] = Stored(last.type, last.codec, last.raw_bytes, bytes(self.data))
            return
        words = line.split()
        if words[0] == "chunk_bytes" and len(words) == 2:
            size = integer(words[1], MAX_CHUNK_BYTES)
            if size & (size - 1) or size < MIN_CHUNK_BYTES:
                raise WordError(f"a power of two from {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES}", shown(words[1]))
            self.text.chunk_bytes = size
            return
        self.text.sections.append(self._section(line.strip()))

    def _section(self, line: str) -> Stored:
        found = _SECTION.fullmatch(line)
        hint = "`chunk_bytes NUMBER`, or a section (slots, actions, image, notes, section NUMBER) and its codec"
        if found is None or (found["name"] and found["name"] not in TYPES):
            raise WordError(hint, shown(line))
        type = TYPES[found["name"]] if found["name"] else integer(found["number"], 0xFFFF)
        method = _member(Codec, found["codec"], "a codec")
        sized = type == SectionType.IMAGE or not found["name"]
        if sized != bool(found["size"]) or (not found["name"] and found["packed"] is None):
            raise WordError(
                f"{'a' if sized else 'no'} size in bytes" + ("" if found["name"] else " and base64"), shown(line)
            )
        if not found["name"] and type in list(SectionType):
            raise WordError("a number that no known section has", shown(line))
        size = integer(found["size"].strip(), _MAX_BYTES) if sized else 0
        packed = None
        if found["packed"] is not None:
            self.base64.begin(integer(found["packed"], _MAX_BYTES))
            self.data, packed = bytearray(), b""
        if not found["name"] and method == Codec.STORED and size != self.base64.missing:
            raise WordError(f"{size} bytes in base64, for it is stored as it is", str(self.base64.missing))
        return Stored(type, method, size, packed)

    def end(self) -> None:
        if self.base64.missing:
            raise WordError(f"{self.base64.missing} more bytes in base64", "the end of the sections")


class _Actions(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        self._alone()
        self.lines = ActionLines(gpu_of(text), [slot.name for slot in text.slots])

    def take(self, line: str) -> None:
        self.text.actions.append(self.lines.action(line))


class _Image(Block):
    def __init__(self, text: Text, head: str) -> None:
        super().__init__(text, head)
        if len(self.words) != 2:
            raise WordError("`image NUMBER`, its size in bytes", shown(head))
        size = integer(self.words[1], MAX_CARVEOUT_BYTES)
        limits.check("size of the image in bytes", size, text.most_bytes)
        self.image = ImageReader(size)

    def take(self, line: str) -> None:
        self.image.take(line.strip())

    def end(self) -> None:
        self.text.image = self.image.end()


# In the order in which they come; what of them must be there.
BLOCKS: dict[str, Callable[[Text, str], Block]] = {
    "manifest": _Manifest,
    "slot": _Slot,
    "network": _Network,
    "notes": _Notes,
    "storage": _StorageBlock,
    "actions": _Actions,
    "image": _Image,
}
MANY = ("slot", "network")
REQUIRED = ("manifest", "actions")


def gpu_of(text: Text) -> profile.Profile:
    """The GPU that the manifest names; WordError when it is not there yet."""
    if text.gpu is None:
        raise WordError("`gpu NAME` as the first line of the manifest", "something else")
    return text.gpu


def _member(kind: Any, word: str, what: str) -> Any:
    for member in kind:
        if member.name.lower() == word:
            return member
    raise WordError(f"{what} ({', '.join(m.name.lower() for m in kind)})", shown(word))


def _numbers(words: str) -> tuple[int, ...]:
    if not words.strip():
        return ()
    return tuple(integer(word.strip(), _U32) for word in words.split(","))
