# SPDX-License-Identifier: BSD-2-Clause
"""Digits drawn in the terminal."""

import io
import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from rich.console import Console

from host_tools.demo import digits, picture

ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def console(**options: object) -> tuple[Console, io.StringIO]:
    """A console of 80 columns that prints into a string, as a 24-bit terminal unless told otherwise."""
    out = io.StringIO()
    settings = {"width": 80, "force_terminal": True, "color_system": "truecolor", "_environ": {}} | options
    return Console(file=out, **settings), out  # type: ignore[arg-type]


@given(image=arrays(np.uint8, (28, 28)))
def test_every_pixel_is_there_in_24_bits(image: npt.NDArray[np.uint8]) -> None:
    screen, out = console()
    picture.show(screen, [image], ["x"])
    found = []
    for line in out.getvalue().splitlines():
        cells = re.findall(r"\x1b\[38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m(▀+)", line)
        if cells:
            pixels = [cell[:6] for cell in cells for _ in cell[6]]
            assert all(r == g == b and s == t == u for r, g, b, s, t, u in pixels)
            found += [[int(p[0]) for p in pixels], [int(p[3]) for p in pixels]]
    assert np.array_equal(np.array(found), image)


@given(image=arrays(np.uint8, (28, 28)))
def test_letters_have_the_ink_of_the_two_pixels(image: npt.NDArray[np.uint8]) -> None:
    lines = picture.digit(image, greys=False).plain.split("\n")
    assert len(lines) == 14
    ink = np.array([[picture.SHADES.index(letter) for letter in line] for line in lines]) / 9 * 255
    pairs = image.astype(float).reshape(14, 2, 28).mean(1)
    assert np.abs(ink - pairs).max() <= 255 / 18 + 1e-9  # half a shade


def test_letters_show_a_digit() -> None:
    shown = digits.load()
    one = shown.images[shown.labels == 1][0]
    screen, out = console(color_system=None)
    picture.show(screen, [one], ["1"])
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().isascii()
    assert sum(letter in "#%@" for letter in out.getvalue()) > 10


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        pytest.param({"color_system": "truecolor"}, {}, True, id="24-bit"),
        pytest.param({"color_system": "256"}, {}, True, id="256 colours"),
        pytest.param({"color_system": "standard"}, {}, False, id="16 colours"),
        pytest.param({"color_system": "truecolor"}, {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param({"color_system": "auto"}, {"TERM": "xterm-256color"}, True, id="TERM"),
        pytest.param({"color_system": "auto"}, {"TERM": "xterm", "COLORTERM": "24bit"}, True, id="COLORTERM"),
        pytest.param({"color_system": "auto"}, {"TERM": "dumb"}, False, id="dumb"),
        pytest.param(
            {"color_system": "auto", "force_terminal": False}, {"TERM": "xterm-256color"}, False, id="file"
        ),
    ],
)
def test_greys_are_used_where_the_terminal_has_them(
    options: dict[str, object], environment: dict[str, str], expected: bool
) -> None:
    screen, out = console(**options, _environ=environment)
    assert picture.has_greys(screen) is expected
    picture.show(screen, [digits.load().images[0]], ["x"])
    assert (picture.UPPER_HALF in out.getvalue()) is expected
    assert out.getvalue().isascii() is not expected


def test_a_console_without_unicode_gets_letters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = Console(file=out, force_terminal=True, color_system="truecolor", _environ={})
    picture.show(screen, [digits.load().images[0]], ["x"])
    out.flush()
    assert b"@" in out.buffer.getvalue()


@pytest.mark.parametrize(("shrink", "rows", "across"), [(1, 14, 2), (2, 7, 5)])
@pytest.mark.parametrize("color_system", ["truecolor", "256", None])
def test_digits_stand_side_by_side_above_their_captions(
    shrink: int, rows: int, across: int, color_system: str | None
) -> None:
    screen, out = console(color_system=color_system)
    shown = digits.load()[:5]
    captions = [f"<{label}> 99.9%" for label in shown.labels]
    picture.show(screen, shown.images, captions, shrink)
    lines = [ESCAPE.sub("", line) for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    captioned = [index for index, line in enumerate(lines) if "<" in line]
    assert lines[captioned[0]].count("<") == across
    assert re.findall(r"<\d> 99\.9%", "\n".join(lines)) == captions
    drawn = lines[captioned[0] - rows : captioned[0]]
    starts = [match.start() for match in re.finditer("<", lines[captioned[0]])]
    width = 28 // shrink
    for start, image in zip(starts, shown.images, strict=False):
        expected = picture.digit(image, color_system is not None, shrink).plain.split("\n")
        assert [line[start : start + width].ljust(width) for line in drawn] == expected


def test_captions_are_as_many_as_pictures() -> None:
    with pytest.raises(ValueError, match="shorter"):
        picture.show(console()[0], digits.load().images[:2], ["one"])


@pytest.mark.parametrize(("shape", "shrink"), [((27, 28), 1), ((28, 28), 3), ((28, 28), 0), ((26, 28), 2)])
def test_a_picture_that_does_not_divide_is_refused(shape: tuple[int, int], shrink: int) -> None:
    with pytest.raises(ValueError, match="does not divide"):
        picture.digit(np.zeros(shape, np.uint8), greys=True, shrink=shrink)
