# SPDX-License-Identifier: BSD-2-Clause
"""Firmware image packages (FIP) of TF-A: a table of contents by UUID, then the images.

Facts: TF-A 2.12, docs/design/firmware-design.rst ("Firmware Image Package layout"),
include/tools_share/firmware_image_package.h (structures, UUIDs), tools/fiptool/tbbr_config.c (names, order).
What `build` writes is what `fiptool create` writes (tests/optee/test_flash_optee.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from construct import Bytes, Const, Int32ul, Int64ul, Struct

from host_tools.flash.errors import ImageError, unpack, zeros

HEADER = Struct("name" / Const(0xAA640001, Int32ul), "serial_number" / Int32ul, "flags" / Int64ul)
ENTRY = Struct("uuid" / Bytes(16), "offset" / Int64ul, "bytes" / Int64ul, "flags" / Int64ul)
SERIAL_NUMBER = 0x12345678  # that fiptool writes; it "is non-zero"
END = bytes(16)
MAX_ENTRIES = 64
# fiptool's names of images and their UUIDs, in the order of its table.
IMAGES = {
    name: uuid.UUID(number)
    for name, number in {
        "scp-fwu-cfg": "65922703-2f74-e644-8dff-579ac1ff0610",
        "ap-fwu-cfg": "60b3eb37-c1e5-ea41-9df3-19eda11f6801",
        "fwu": "4f511d11-2be5-4e49-b4c5-83c2f715840a",
        "fwu-cert": "71408ab2-18d6-874c-8b2e-c6dccd50f096",
        "tb-fw": "5ff9ec0b-4d22-3e4d-a544-c39d81c73f0a",
        "scp-fw": "9766fd3d-89be-e849-ae5d-78a140608213",
        "soc-fw": "47d4086d-4cfe-9846-9b95-2950cbbd5a00",
        "tos-fw": "05d0e189-53dc-1347-8d2b-500a4b7a3e38",
        "tos-fw-extra1": "0b70c29b-2a5a-7840-9f65-0a5682738288",
        "tos-fw-extra2": "8ea87bb1-cfa2-3f4d-85fd-e7bba50220d9",
        "nt-fw": "d6d0eea7-fcea-d54b-9782-9934f234b6e4",
        "rmm-fw": "6c0762a6-12f2-4b56-92cb-ba8f633606d9",
        "fw-config": "5807e16a-8459-47be-8ed5-648e8dddab0e",
        "hw-config": "08b8f1d9-c9cf-9349-a962-6fbc6b7265cc",
        "tb-fw-config": "6c0458ff-af6b-7d4f-82ed-aa27bc69bfd2",
        "soc-fw-config": "9979814b-0376-fb46-8c8e-8d267f7859e0",
        "tos-fw-config": "26257c1a-dbc6-7f47-8d96-c4c4b0248021",
        "nt-fw-config": "28da9815-93e8-7e44-ac66-1aaf801550f9",
        "rot-cert": "862d1d72-f860-e411-920b-8be762160f24",
        "trusted-key-cert": "827ee890-f860-e411-a1b4-777a21b4f94c",
        "scp-fw-key-cert": "024221a1-f860-e411-8d9b-f33c0e15a014",
        "soc-fw-key-cert": "8ab8becc-f960-e411-9ad0-eb4822d8dcf8",
        "tos-fw-key-cert": "9477d603-fb60-e411-85dd-b7105b8cee04",
        "nt-fw-key-cert": "8ad5832a-fb60-e411-8aaf-df30bbc49859",
        "tb-fw-cert": "d6e269ea-5d63-e411-8d8c-9fbabe9956a5",
        "scp-fw-cert": "44be6f04-5e63-e411-b28b-73d8eaae9656",
        "soc-fw-cert": "e2b20c20-5e63-e411-9ce8-abccf92bb666",
        "tos-fw-cert": "a49f4411-5e63-e411-8728-3f05722af33d",
        "nt-fw-cert": "8ec4c1f3-5d63-e411-a7a9-87ee40b23fa7",
        "sip-sp-cert": "776dfd44-8697-4c3b-91eb-c13e025a2a6f",
        "plat-sp-cert": "ddcbbf4a-cad6-11ea-87d0-0242ac130003",
        "cca-cert": "36d83d85-761d-4daf-96f1-cd99d6569b00",
        "core-swd-cert": "52222d31-820f-494d-8bbc-ea6825d3c35a",
        "plat-key-cert": "d43cd902-5b9f-412e-8ac6-92b6d18be60d",
    }.items()
}


@dataclass(frozen=True)
class Image:
    """An image in a package.

    Attributes:
        offset: in the package.
        data: its bytes.
        flags: of its entry; none are defined.
    """

    offset: int
    data: bytes
    flags: int = 0


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        images: fiptool's name of the image, or else its UUID -> image, in the order of the table.
        flags: of the table; bits 32 to 47 are the platform's.
        bytes: size of the package.
    """

    images: Mapping[str, Image]
    flags: int
    bytes: int


def parse(data: bytes) -> Package:
    """Read a package, which fills `data`.

    Raises:
        ImageError: with the offset of the field at fault: no package, an image outside of it or over another, two
            images with one UUID, no end marker, one that does not give the package's size, padding that is not
            zero.
    """
    header = unpack(HEADER, data, 0, "FIP header")
    images: dict[str, Image] = {}
    at = HEADER.sizeof()
    table = [unpack(ENTRY, data, at, "FIP entry 0")]
    while table[-1].uuid != END:
        if len(table) > MAX_ENTRIES:
            raise ImageError(
                "FIP table", offset=at, expected=f"an end marker after {MAX_ENTRIES} entries", found="none"
            )
        at += ENTRY.sizeof()
        table.append(unpack(ENTRY, data, at, f"FIP entry {len(table)}"))
    table_end = at + ENTRY.sizeof()
    if table[-1].offset != len(data):
        raise ImageError(
            "FIP end marker: size of the package", offset=at, expected=len(data), found=table[-1].offset
        )
    if table[-1].bytes or table[-1].flags:
        raise ImageError("FIP end marker: size and flags", offset=at + 24, expected=0, found=table[-1].bytes)
    for index, entry in enumerate(table[:-1]):
        name = _name(entry.uuid)
        at = HEADER.sizeof() + index * ENTRY.sizeof()
        if name in images:
            raise ImageError(f"FIP entry {index}", offset=at, expected="a UUID of its own", found=name)
        if entry.offset < table_end or entry.offset > len(data) or entry.bytes > len(data) - entry.offset:
            raise ImageError(
                f"FIP entry {index} ({name}): place of the image",
                offset=at + 16,
                expected=f"in {table_end:#x} to {len(data):#x}",
                found=f"{entry.bytes:#x} bytes at {entry.offset:#x}",
            )
        images[name] = Image(entry.offset, data[entry.offset : entry.offset + entry.bytes], entry.flags)
    _check_gaps(data, table_end, images)
    return Package(images, header.flags, len(data))


def _check_gaps(data: bytes, table_end: int, images: Mapping[str, Image]) -> None:
    """Bytes between images are padding."""
    at = table_end
    for name, image in sorted(images.items(), key=lambda row: row[1].offset):
        if image.offset < at:
            raise ImageError(f"FIP image {name} lies over another", offset=image.offset)
        zeros(data, at, image.offset, "FIP: padding between images")
        at = image.offset + len(image.data)
    zeros(data, at, len(data), "FIP: padding after the images")


def build(images: Mapping[str, bytes], flags: int = 0) -> bytes:
    """A package of images, in the order of fiptool's table, followed by those with other UUIDs; none is empty.

    Args:
        images: fiptool's name, or a UUID as text -> contents.
        flags: of the table.
    """
    known = list(IMAGES)
    order = sorted(
        (name for name in images if images[name]), key=lambda n: known.index(n) if n in IMAGES else len(known)
    )
    at = HEADER.sizeof() + (len(order) + 1) * ENTRY.sizeof()
    table = HEADER.build({"serial_number": SERIAL_NUMBER, "flags": flags})
    for name in order:
        number = IMAGES[name] if name in IMAGES else uuid.UUID(name)
        table += ENTRY.build({"uuid": number.bytes, "offset": at, "bytes": len(images[name]), "flags": 0})
        at += len(images[name])
    table += ENTRY.build({"uuid": END, "offset": at, "bytes": 0, "flags": 0})
    return bytes(table) + b"".join(images[name] for name in order)


def update(package: bytes, images: Mapping[str, bytes]) -> bytes:
    """The package with these images in place of its own, as `fiptool update` does; ImageError as `parse`."""
    old = parse(package)
    return build({name: image.data for name, image in old.images.items()} | dict(images), old.flags)


def _name(number: bytes) -> str:
    found = uuid.UUID(bytes=number)
    return next((name for name, known in IMAGES.items() if known == found), str(found))
