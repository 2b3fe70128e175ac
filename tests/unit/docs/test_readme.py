# SPDX-License-Identifier: BSD-2-Clause
"""The README is short, its pictures are there, and the figures in the road's picture are those of the tutorial."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

from docs.screenshot import HEIGHT, MAX_BYTES, SCALE, TARGET, WIDTH
from tests.support.places import CHECKOUT

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
ROAD = CHECKOUT / "docs/road.svg"
MAX_LINES = 120
MISSING = 5


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_what_is_missing_is_one_line_each() -> None:
    section = README.partition("## What is missing\n")[2].partition("\n[LIMITS.md]")[0]
    assert len(section.strip().splitlines()) == MISSING
    assert all(line.startswith("- ") for line in section.strip().splitlines())


def test_the_screenshot_is_one_of_this_size() -> None:
    data = TARGET.read_bytes()
    assert len(data) <= MAX_BYTES
    assert struct.unpack_from(">8s4x4sII", data) == (
        b"\x89PNG\r\n\x1a\n",
        b"IHDR",
        round(WIDTH * SCALE),
        round(HEIGHT * SCALE),
    )
    assert f'src="{TARGET.relative_to(CHECKOUT)}"' in README


def test_the_road_says_what_the_tutorial_says() -> None:
    words = " ".join(ElementTree.parse(ROAD).getroot().itertext())
    tutorial = (CHECKOUT / "docs/TUTORIAL.md").read_text(encoding="utf-8")
    raw = re.search(r"lenet.raw.gtr: \d+ bytes, \d+ jobs, (\d+) actions", tutorial)
    built = re.search(r"lenet.gtr: \d+ bytes, \d+ jobs, (\d+) actions", tutorial)
    signed = re.search(r"lenet.sgtr: (\d+) bytes, signed", tutorial)
    assert raw
    assert built
    assert signed
    assert f"{int(raw[1]):,} actions become {built[1]}" in words
    assert f"{int(signed[1]) // 1000} KB with weights" in words
    assert f"({ROAD.relative_to(CHECKOUT)})" in README
