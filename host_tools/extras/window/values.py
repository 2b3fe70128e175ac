# SPDX-License-Identifier: BSD-2-Clause
"""Bytes of memory as numbers, and what is said of them: statistics, a histogram, a picture, the numbers."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.window import picture
from host_tools.extras.window.picture import Layout

TYPES = {"float32": "<f4", "float16": "<f2", "int32": "<i4", "int16": "<i2", "int8": "i1", "uint8": "u1"}
BARS = 40
PER_LINE, LINES = 8, 16  # numbers that are shown as numbers
SIDE = 288  # CSS pixels of a picture that is enlarged
LARGEST_DOT = 16


@dataclass(frozen=True)
class View:
    """How the user wants to see memory.

    Attributes:
        dtype: element type (TYPES); "": float32, or that of the slot.
        width: numbers in a row; 0: chosen.
        packed: channels whose numbers alternate.
        first: index of the first number that is shown as a number.
    """

    dtype: str = ""
    width: int = 0
    packed: int = 1
    first: int = 0


@dataclass(frozen=True)
class Shown:
    """Numbers as a page shows them.

    Attributes:
        dtype: element type.
        count: numbers that all of this is about.
        total: numbers of the whole tensor.
        least, most, mean, deviation: of those that are finite; None: there are none.
        zeros, nans, infinities: how many of them.
        bars: heights of a histogram from `least` to `most`, 0 to 1, logarithmic; empty: nothing to show.
        image: the picture, as base64 of PNG.
        image_width, image_height: in CSS pixels.
        row: numbers in a row of the picture.
        planes, planes_shown: how many there are, and how many the picture has.
        low, high: what the first and the last colour stand for.
        lines: index and numbers.
        first: index of the first.
    """

    dtype: str
    count: int
    total: int
    least: float | None
    most: float | None
    mean: float | None
    deviation: float | None
    zeros: int
    nans: int
    infinities: int
    bars: list[float]
    image: str
    image_width: int
    image_height: int
    row: int
    planes: int
    planes_shown: int
    low: float
    high: float
    lines: list[tuple[int, list[str]]]
    first: int


def numbers(data: bytes, dtype: str) -> NDArray[np.float64]:
    """Numbers of an element type; bytes at the end that are no whole one are left out."""
    kind = np.dtype(TYPES[dtype])
    return np.frombuffer(data, kind, len(data) // kind.itemsize).astype(np.float64)


def shown(values: NDArray[np.float64], dtype: str, total: int, layout: Layout, first: int = 0) -> Shown:
    """What a page shows of numbers.

    Args:
        values: one after the other, as in memory.
        dtype: element type that they were read as (TYPES).
        total: of the whole tensor, of which these may be the first.
        layout: of the picture.
        first: index of the first number that is shown as a number.
    """
    finite = values[np.isfinite(values)]
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    low, high = picture.limits(least, most)
    planes = layout.planes(picture.colours_of(values, low, high))
    tiles, planes_shown = picture.tiled(planes) if len(values) else (np.zeros((1, 1), np.uint8), 0)
    height, width = tiles.shape
    dot = max(1, min(LARGEST_DOT, SIDE // max(width, height)))
    first = min(first, max(0, len(values) - 1))
    return Shown(
        dtype=dtype,
        count=len(values),
        total=total,
        least=least if len(finite) else None,
        most=most if len(finite) else None,
        mean=float(finite.mean()) if len(finite) else None,
        deviation=float(finite.std()) if len(finite) else None,
        zeros=int(np.count_nonzero(values == 0)),
        nans=int(np.count_nonzero(np.isnan(values))),
        infinities=int(np.count_nonzero(np.isinf(values))),
        bars=_bars(finite, least, most),
        image=base64.b64encode(picture.png(tiles, both_signs=least < 0 < most)).decode(),
        image_width=width * dot,
        image_height=height * dot,
        row=layout.width_for(len(values)),
        planes=len(planes),
        planes_shown=planes_shown,
        low=low,
        high=high,
        lines=_lines(values, dtype, first),
        first=first,
    )


def _bars(finite: NDArray[np.float64], least: float, most: float) -> list[float]:
    if not len(finite) or least == most:
        return []
    at = np.clip(((finite - least) * (BARS / (most - least))).astype(np.int64), 0, BARS - 1)
    heights = np.log1p(np.bincount(at, minlength=BARS))
    return [round(float(height), 3) for height in heights / heights.max()]


def _lines(values: NDArray[np.float64], dtype: str, first: int) -> list[tuple[int, list[str]]]:
    form = "{:.6g}" if dtype.startswith("float") else "{:.0f}"
    end = min(len(values), first + PER_LINE * LINES)
    return [
        (at, [form.format(value) for value in values[at : min(at + PER_LINE, end)]])
        for at in range(first, end, PER_LINE)
    ]
