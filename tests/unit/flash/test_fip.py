# SPDX-License-Identifier: BSD-2-Clause
"""Firmware image packages: what is built is read back, what is malformed is named with its offset."""

from __future__ import annotations

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.flash import fip
from host_tools.flash.errors import ImageError

NAMES = st.one_of(st.sampled_from(sorted(fip.IMAGES)), st.uuids(version=4).map(str))
IMAGES = st.dictionaries(NAMES, st.binary(min_size=1, max_size=200), max_size=6)
OWN = str(uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10))
SAMPLE = fip.build({"soc-fw": b"abc" * 20, "nt-fw": b"d", OWN: b"e" * 9}, flags=0x5 << 32)
FIRST, SECOND, END = 16, 56, 136  # offsets of the table's entries


@given(IMAGES, st.integers(0, 2**64 - 1))
def test_what_is_built_is_read_back(images: dict[str, bytes], flags: int) -> None:
    data = fip.build(images, flags)
    found = fip.parse(data)
    assert {name: image.data for name, image in found.images.items()} == images
    assert (found.flags, found.bytes) == (flags, len(data))
    assert all(data[i.offset :].startswith(i.data) for i in found.images.values())
    known = [name for name in found.images if name in fip.IMAGES]
    assert known == sorted(known, key=list(fip.IMAGES).index)


@given(IMAGES, IMAGES)
def test_update_replaces_and_adds(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    found = fip.parse(fip.update(fip.build(old, 3), new))
    assert {name: image.data for name, image in found.images.items()} == old | new
    assert found.flags == 3


def test_an_empty_image_is_left_out() -> None:
    assert list(fip.parse(fip.build({"soc-fw": b"a", "tos-fw-extra2": b""})).images) == ["soc-fw"]


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ImageError):
        fip.parse(data)


@given(st.integers(0, len(SAMPLE) - 1))
def test_every_truncation_is_refused(size: int) -> None:
    with pytest.raises(ImageError):
        fip.parse(SAMPLE[:size])


def test_padding_between_images_is_read() -> None:
    """As `fiptool --align` leaves it."""
    data = bytearray(fip.build({"soc-fw": b"a" * 8, "nt-fw": b"b" * 8}))
    data[144:] = b"b" * 8
    data[136:144] = bytes(8)
    data = bytearray(data[:136] + b"a" * 8 + bytes(16) + b"b" * 8)
    struct.pack_into("<Q", data, SECOND + 16, 160)
    struct.pack_into("<Q", data, 96 + 16, len(data))
    assert [i.offset for i in fip.parse(bytes(data)).images.values()] == [136, 160]


MALFORMED = {
    "magic": (0, "<I", 0xAA640002, "at offset 0x0: FIP header, name: expected 010064aa, found 020064aa"),
    "an image of the end's size": (FIRST + 24, "<Q", 2**64 - 1, "at offset 0x20: FIP entry 0 (soc-fw): place"),
    "size of the first image": (FIRST + 24, "<Q", 62, "at offset 0xec: FIP image nt-fw lies over another"),
    "an image in the table": (FIRST + 16, "<Q", 16, "at offset 0x20: FIP entry 0 (soc-fw): place of the image"),
    "an image past the end": (SECOND + 16, "<Q", 2**63, "at offset 0x48: FIP entry 1 (nt-fw): place"),
    "size of the package": (
        END + 16,
        "<Q",
        7,
        "at offset 0x88: FIP end marker: size of the package: expected 246",
    ),
    "flags of the end": (END + 32, "<Q", 1, "at offset 0xa0: FIP end marker: size and flags"),
    "no end": (END, "<Q", 1, "at offset 0xd8: FIP entry 5: expected 40 bytes, found 30"),
    "a smaller image": (
        FIRST + 24,
        "<Q",
        59,
        "at offset 0xeb: FIP: padding between images: expected zero, found 0x63",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    at, kind, value, reason = MALFORMED[name]
    data = bytearray(SAMPLE)
    struct.pack_into(kind, data, at, value)
    with pytest.raises(ImageError) as error:
        fip.parse(bytes(data))
    assert str(error.value).startswith(reason)


def test_two_images_of_one_name() -> None:
    data = bytearray(SAMPLE)
    data[SECOND : SECOND + 16] = data[FIRST : FIRST + 16]
    with pytest.raises(ImageError, match="FIP entry 1: expected a UUID of its own, found soc-fw"):
        fip.parse(bytes(data))
