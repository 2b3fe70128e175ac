# SPDX-License-Identifier: BSD-2-Clause
"""FIT images, which U-Boot's SPL loads: a flattened device tree with the images as properties.

Facts: Devicetree Specification 0.4, chapter 5 (header, tokens); U-Boot doc/usage/fit/source_file_format.rst
(nodes, properties), common/spl/spl_fit.c (what the SPL reads). U-Boot's dumpimage reads what `build` writes
(tests/unit/flash/test_fit.py).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from construct import Const, Int32ub, Struct

from host_tools.flash.errors import ImageError, unpack, zeros

HEADER = Struct(
    "magic" / Const(0xD00DFEED, Int32ub),
    "bytes" / Int32ub,
    "nodes_at" / Int32ub,
    "names_at" / Int32ub,
    "reserved_at" / Const(40, Int32ub),
    "version" / Const(17, Int32ub),
    "compatible_version" / Const(16, Int32ub),
    "core" / Const(0, Int32ub),
    "names_bytes" / Int32ub,
    "nodes_bytes" / Int32ub,
)
NODES_AT = HEADER.sizeof() + 16  # after a list of reserved memory that only ends
BEGIN, END, PROPERTY, LAST = 1, 2, 3, 9
MAX_TOKENS = 1000
CONFIGURATION = "gramophone"


@dataclass(frozen=True)
class Image:
    """An image in a FIT.

    Attributes:
        data: its bytes.
        load: address that the SPL copies it to.
        is_firmware: the SPL enters it at its first byte, at EL3, as it enters TF-A's BL31.
        offset: in the FIT.
    """

    data: bytes
    load: int
    is_firmware: bool = False
    offset: int = 0


def build(images: Mapping[str, Image]) -> bytes:
    """A FIT of images, one of them the firmware; the same images always give the same bytes.

    Args:
        images: name -> image.
    """
    names = _Names()
    firmware = next(name for name, image in images.items() if image.is_firmware)
    others = "".join(f"{name}\0" for name in images if name != firmware).encode()
    configuration = names.text("description", "Gramophone") + names.text("firmware", firmware)
    if others:
        configuration += names.property("loadables", others)
    nodes = _node(
        "",
        names.text("description", "Gramophone, and what the SPL loads with it")
        + names.property("timestamp", bytes(4))
        + names.property("#address-cells", struct.pack(">I", 1)),
        _node("images", b"", *(_image(names, name, image) for name, image in images.items())),
        _node("configurations", names.text("default", CONFIGURATION), _node(CONFIGURATION, configuration)),
    ) + struct.pack(">I", LAST)
    names_at = NODES_AT + len(nodes)
    size = names_at + len(names.bytes)
    head = HEADER.build(
        {
            "bytes": size,
            "nodes_at": NODES_AT,
            "names_at": names_at,
            "names_bytes": len(names.bytes),
            "nodes_bytes": len(nodes),
        }
    )
    return bytes(head) + bytes(16) + nodes + names.bytes


def parse(data: bytes) -> dict[str, Image]:
    """The images of a FIT, which fills `data`: name -> image.

    Raises:
        ImageError: with the offset of the field at fault: no device tree, one that is cut short or goes on, a name
            outside of the names, or an image without its data or address.
    """
    head = unpack(HEADER, data, 0, "FIT header")
    ends = (head.nodes_at + head.nodes_bytes, head.names_at)
    if head.bytes != len(data) or head.names_at + head.names_bytes != len(data):
        raise ImageError("FIT header: size", offset=4, expected=len(data), found=head.bytes)
    if head.nodes_at != NODES_AT or ends[0] != ends[1]:
        expected = f"nodes from {NODES_AT:#x} to the names"
        raise ImageError("FIT header: nodes", offset=8, expected=expected, found=f"{head.nodes_at:#x}")
    zeros(data, HEADER.sizeof(), NODES_AT, "FIT: reserved memory")
    found: dict[str, dict[str, tuple[int, bytes]]] = {}
    for path, name, at, value in _properties(data, head.names_at):
        if len(path) == 3 and path[:2] == ("", "images"):
            found.setdefault(path[2], {})[name] = (at, value)
    return {name: _read_image(name, fields) for name, fields in found.items()}


def _read_image(name: str, fields: Mapping[str, tuple[int, bytes]]) -> Image:
    for needed in ("data", "load"):
        if needed not in fields:
            raise ImageError(f"FIT image {name}: {needed}", expected="there", found="not there")
    (at, data), (load_at, load) = fields["data"], fields["load"]
    if len(load) != 4:
        raise ImageError(f"FIT image {name}: load", offset=load_at, expected="4 bytes", found=len(load))
    return Image(data, int.from_bytes(load), "entry" in fields, at)


def _properties(data: bytes, end: int) -> Iterator[tuple[tuple[str, ...], str, int, bytes]]:
    """(names of the nodes around it, its name, offset and bytes of its value) of each property."""
    path: list[str] = []
    at = NODES_AT
    for _ in range(MAX_TOKENS):
        token, start = _word(data, at, end), at
        at += 4
        if token == BEGIN:
            name = _text(data, at, end)
            path.append(name)
            at += len(name) + 1
        elif token == PROPERTY:
            size, name_at = _word(data, at, end), _word(data, at + 4, end)
            at += 8
            if size > end - at:
                raise ImageError("FIT property: size", offset=at - 8, expected=f"at most {end - at}", found=size)
            yield tuple(path), _text(data, end + name_at, len(data)), at, data[at : at + size]
            at += size
        elif token == END and path:
            path.pop()
        elif token == LAST and not path and at == end:
            return
        else:
            raise ImageError("FIT token", offset=start, expected="one of a tree", found=token)
        zeros(data, at, -(-at // 4) * 4, "FIT: padding")
        at = -(-at // 4) * 4
    raise ImageError("FIT tokens", offset=at, expected=f"at most {MAX_TOKENS}", found="more")


def _word(data: bytes, at: int, end: int) -> int:
    if at > end - 4:
        raise ImageError("FIT: end of the nodes", offset=at, expected="4 bytes", found=max(0, end - at))
    return int.from_bytes(data[at : at + 4])


def _text(data: bytes, at: int, end: int) -> str:
    stop = data.find(b"\0", at, end) if at <= end else -1
    if stop < 0 or not data[at:stop].isascii():
        raise ImageError("FIT: a name", offset=at, expected="ASCII that ends", found=data[at : at + 8].hex())
    return data[at:stop].decode()


class _Names:
    """Properties, and their names, each once."""

    def __init__(self) -> None:
        self.bytes = b""
        self._at: dict[str, int] = {}

    def property(self, name: str, value: bytes) -> bytes:
        if name not in self._at:
            self._at[name] = len(self.bytes)
            self.bytes += name.encode() + b"\0"
        return struct.pack(">III", PROPERTY, len(value), self._at[name]) + value + bytes(-len(value) % 4)

    def text(self, name: str, value: str) -> bytes:
        return self.property(name, value.encode() + b"\0")


def _node(name: str, properties: bytes, *nodes: bytes) -> bytes:
    stored = name.encode() + b"\0"
    head = struct.pack(">I", BEGIN) + stored + bytes(-len(stored) % 4)
    return head + properties + b"".join(nodes) + struct.pack(">I", END)


def _image(names: _Names, name: str, image: Image) -> bytes:
    """The hash is SHA-256: an SPL that asks for hashes refuses an image whose bytes are others."""
    properties = (
        names.text("description", name)
        + names.text("type", "firmware")
        + names.text("arch", "arm64")
        + names.text("compression", "none")
        + names.property("load", struct.pack(">I", image.load))
    )
    if image.is_firmware:
        properties += names.text("os", "arm-trusted-firmware")
        properties += names.property("entry", struct.pack(">I", image.load))
    properties += names.property("data", image.data)
    digest = names.property("value", hashlib.sha256(image.data).digest())
    return _node(name, properties, _node("hash-1", digest + names.text("algo", "sha256")))
