# SPDX-License-Identifier: BSD-2-Clause
"""Draws digits in the terminal, side by side, each with a caption.

A character cell is about twice as tall as wide, so it takes two pixels, one above the other: as a half block
in 24-bit or 256-colour greys where the terminal has them, otherwise as one letter with about as much ink as
the two. Rich finds out what the terminal has (from `TERM`, `COLORTERM`, `NO_COLOR`, and whether it is a
terminal at all) and turns 24-bit greys into the nearest of the 256 colours.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rich.color import Color
from rich.columns import Columns
from rich.console import Console, Group
from rich.style import Style
from rich.text import Text

SHADES = " .:-=+*#%@"
UPPER_HALF = "\N{UPPER HALF BLOCK}"


def has_greys(console: Console) -> bool:
    """Whether the console shows enough greys, and the half block, to draw with them."""
    return (
        console.color_system in ("256", "truecolor")
        and not console.no_color
        and console.encoding.lower().startswith("utf")
    )


def digit(image: npt.NDArray[np.uint8], greys: bool, shrink: int = 1) -> Text:
    """Draws one picture, in lines of equal width.

    Args:
        image: uint8 (rows, columns), 0 is black and 255 white.
        greys: with half blocks in greys rather than with letters.
        shrink: the side of the squares of pixels averaged into one: 1 makes a 28x28 digit 14 lines of 28
            characters, 2 makes it 7 lines of 14.

    Raises:
        ValueError: the picture does not divide into whole cells.
    """
    rows, columns = image.shape
    if shrink < 1 or rows % (2 * shrink) or columns % shrink:
        raise ValueError(f"a {rows}x{columns} picture does not divide into {2 * shrink}x{shrink} pixel cells")
    small = image.reshape(rows // shrink, shrink, columns // shrink, shrink).mean((1, 3))
    text = Text(no_wrap=True)
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        if text:
            text.append("\n")
        for top, bottom in zip(upper, lower, strict=True):
            if greys:
                text.append(UPPER_HALF, Style(color=grey(top), bgcolor=grey(bottom)))
            else:
                text.append(SHADES[round((top + bottom) / 2 / 255 * (len(SHADES) - 1))])
    return text


def grey(level: float) -> Color:
    """The grey of a level, 0..255."""
    return Color.from_rgb(round(level), round(level), round(level))


def show(
    console: Console,
    images: Iterable[npt.NDArray[np.uint8]],
    captions: Iterable[str | Text],
    shrink: int = 1,
) -> None:
    """Prints pictures in as many columns as the console is wide, each above its caption.

    Args:
        console: where to print.
        images: each uint8 (28, 28), 0 is black and 255 white.
        captions: one for each picture; a Text may have colours of its own.
        shrink: as for `digit`.
    """
    greys = has_greys(console)
    cells = [
        Group(digit(image, greys, shrink), Text(caption) if isinstance(caption, str) else caption)
        for image, caption in zip(images, captions, strict=True)
    ]
    console.print(Columns(cells, padding=(1, 2)))
