# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as statistics, histograms and pictures; a reader of PNG by hand says what the picture has."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from host_tools.extras.window import picture, values
from host_tools.extras.window.picture import GAP, INFINITE, NAN, STEPS, Layout


def pixels(data: bytes) -> np.ndarray:
    """The indices of a picture's colours."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        parts[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + parts[kind])
        at += size + 12
    assert list(parts) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    width, height, *how = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert how == [8, 3, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    assert rows.max() < len(parts[b"PLTE"]) // 3
    return rows[:, 1:]


def test_a_picture_has_a_colour_for_each_number() -> None:
    numbers = np.array([0, 1, 2, np.nan, np.inf, -np.inf])
    found = values.shown(numbers, "float32", 6, Layout(width=3))
    assert pixels(base64.b64decode(found.image)).tolist() == [[0, 124, STEPS - 1], [NAN, INFINITE, INFINITE]]
    assert (found.least, found.most, found.mean, found.zeros, found.nans, found.infinities) == (0, 2, 1, 1, 1, 2)


def test_colours_below_and_above_zero() -> None:
    assert picture.limits(-1, 3) == (-3, 3)
    assert picture.limits(1, 3) == (1, 3)
    found = values.shown(np.array([-1.0, 0, 3]), "float32", 3, Layout(width=3))
    assert (found.low, found.high) == (-3, 3)


def test_channels_that_are_packed_become_planes() -> None:
    """Two channels of 2 x 2, whose numbers alternate."""
    numbers = np.array([0, 9, 1, 9, 2, 9, 3, 9], float)
    planes = Layout(width=2, packed=2).planes(picture.colours_of(numbers, 0, 9))
    assert planes.shape == (2, 2, 2)
    assert (planes[1] == STEPS - 1).all()
    tiles, shown = picture.tiled(planes)
    assert shown == 2
    assert (tiles == GAP).any()


@pytest.mark.parametrize(
    ("count", "row"), [(1, 1), (16, 4), (784, 28), (4608, 72), (13, 13), (1009, 32), (1 << 20, 1024)]
)
def test_a_width_is_chosen(count: int, row: int) -> None:
    assert Layout().width_for(count) == row


@pytest.mark.parametrize("count", [0, 1, 7, 1 << 19])
@pytest.mark.parametrize("layout", [Layout(), Layout(width=1024, packed=64), Layout(width=1), Layout((1 << 19,))])
def test_a_picture_has_a_bound(count: int, layout: Layout) -> None:
    found = values.shown(np.zeros(count), "float32", count, layout)
    height, width = pixels(base64.b64decode(found.image)).shape
    assert height <= picture.MOST_HEIGHT
    assert width <= picture.MOST_WIDTH
    assert found.planes_shown <= found.planes


@pytest.mark.parametrize("dtype", values.TYPES)
def test_bytes_of_any_length_are_numbers(dtype: str) -> None:
    for size in (0, 1, 63, 64):
        read = values.numbers(b"\xff" * size, dtype)
        found = values.shown(read, dtype, len(read), Layout(), first=5)
        assert sum(len(row) for _, row in found.lines) == max(0, len(read) - found.first)
    assert values.numbers(b"\x01\xff", "int8").tolist() == [1, -1]


def test_a_histogram() -> None:
    found = values.shown(np.array([0.0] * 99 + [1.0]), "float32", 100, Layout())
    assert len(found.bars) == values.BARS
    assert (found.bars[0], found.bars[-1] > 0) == (1.0, True)
    assert values.shown(np.ones(4), "float32", 4, Layout()).bars == []
