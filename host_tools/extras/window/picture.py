# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as a picture: a colour a number, as PNG with a palette (RFC 2083)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from math import ceil, isqrt, prod

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.uint8]  # index in the palette
STEPS = 250  # colours of finite numbers, from the least to the largest
NAN, INFINITE, GAP = STEPS, STEPS + 1, STEPS + 2
MOST_PIXELS = 1 << 18
MOST_WIDTH, MOST_HEIGHT = 1024, 2048  # of one plane, and of the picture
WHITE, RED, BLUE, BLACK = (255, 255, 255), (178, 24, 43), (33, 102, 172), (0, 0, 0)
SPECIAL = (0, 200, 0), (255, 210, 0), (0, 0, 0)  # NAN, INFINITE, GAP


@dataclass(frozen=True)
class Layout:
    """How consecutive numbers lie in planes.

    Attributes:
        shape: of the tensor; its last two dimensions are a plane. (): not known.
        width: numbers in a row where the shape is not known; 0: a width that makes the plane nearly square.
        packed: channels whose numbers alternate, each of which is a plane; ncnn packs 4.
    """

    shape: tuple[int, ...] = ()
    width: int = 0
    packed: int = 1

    def width_for(self, count: int) -> int:
        """Numbers in a row."""
        if self.shape:
            return self.shape[-1]
        return self.width or _nearly_square(max(1, ceil(count / self.packed)))

    def planes(self, colours: Colours) -> Colours:
        """Planes, rows, columns; padded with GAP."""
        width = self.width_for(len(colours))
        if self.shape and len(colours) == prod(self.shape):
            rows = self.shape[-2] if len(self.shape) > 1 else 1
            return colours.reshape(-1, rows, width)
        step = width * self.packed
        padded = np.full(ceil(len(colours) / step) * step, GAP, np.uint8)
        padded[: len(colours)] = colours
        return np.ascontiguousarray(padded.reshape(-1, width, self.packed).transpose(2, 0, 1))


def _nearly_square(count: int) -> int:
    """The divisor of a number that is next to its root, or the root where all are far from it."""
    root = isqrt(count)
    found = next((root - less for less in range(root) if count % (root - less) == 0), 1)
    return count // found if count // found <= 4 * (root + 1) else min(root + 1, MOST_WIDTH)


def colours_of(numbers: NDArray[np.float64], low: float, high: float) -> Colours:
    """A colour for each number: from `low` to `high` in steps, what is not finite in colours of its own."""
    finite = np.isfinite(numbers)
    scale = (STEPS - 1) / (high - low) if high > low else 0.0
    steps = np.where(finite, (np.where(finite, numbers, low) - low) * scale, 0)
    found = np.clip(np.rint(steps), 0, STEPS - 1).astype(np.uint8)
    found[~finite] = INFINITE
    found[np.isnan(numbers)] = NAN
    return found


def limits(least: float, most: float) -> tuple[float, float]:
    """What the first and the last colour stand for: as much below 0 as above, where there are both signs."""
    if least < 0 < most:
        bound = max(-least, most)
        return -bound, bound
    return least, most


def tiled(planes: Colours) -> tuple[Colours, int]:
    """Planes beside and below each other with a gap between them, as many as fit, and how many these are."""
    planes = planes[:, :MOST_HEIGHT, :MOST_WIDTH]
    count, height, width = planes.shape
    shown = max(1, min(count, MOST_PIXELS // ((height + 1) * (width + 1))))
    across = max(1, min(shown, MOST_WIDTH // (width + 1), ceil((shown * (height + 1) / (width + 1)) ** 0.5)))
    down = ceil(shown / across)
    grid = np.full((down * across, height + 1, width + 1), GAP, np.uint8)
    grid[:shown, :height, :width] = planes[:shown]
    picture = grid.reshape(down, across, height + 1, width + 1).transpose(0, 2, 1, 3)
    return picture.reshape(down * (height + 1), -1)[:-1, :-1][:MOST_HEIGHT], shown


def png(picture: Colours, *, both_signs: bool) -> bytes:
    """A picture as PNG.

    Args:
        picture: rows and columns.
        both_signs: the colours are those of numbers below and above 0: blue, white, red; else black to white.
    """
    height, width = picture.shape
    ends = (BLUE, WHITE, RED) if both_signs else (BLACK, WHITE)
    at = np.linspace(0, len(ends) - 1, STEPS)
    scale = np.stack([np.interp(at, range(len(ends)), [end[k] for end in ends]) for k in range(3)], axis=1)
    palette = np.rint(scale).astype(np.uint8).tobytes() + bytes(np.array(SPECIAL, np.uint8))
    rows = np.zeros((height, width + 1), np.uint8)  # each begins with its filter, which is none
    rows[:, 1:] = picture
    opaque = bytes([255] * GAP + [0])
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", opaque),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
