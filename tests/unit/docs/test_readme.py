# SPDX-License-Identifier: BSD-2-Clause
"""The README is short, its pictures are there, and its figures and commands are those of pages and tests."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import numpy as np

from docs.screenshot import HEIGHT, MAX_BYTES, SCALE, TARGET, WIDTH
from host_tools.demo import digits
from tests.support.places import CHECKOUT

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
ROAD = CHECKOUT / "docs/road.svg"
MAX_LINES = 120
MISSING = 5


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_what_is_missing_is_one_line_each() -> None:
    section = README.partition("## Missing\n")[2].partition("\n[LIMITS.md]")[0]
    assert len(section.strip().splitlines()) == MISSING
    assert all(line.startswith("- ") for line in section.strip().splitlines())


def test_the_first_lines_say_what_it_is_for_and_how_far_it_is() -> None:
    lines = README.splitlines()
    assert lines[2] == "Run a neural network on the GPU inside TrustZone, without the GPU driver.\\"
    assert lines[3].startswith("**Status: alpha. All GPUs are emulated; nothing has run on hardware yet**")


def test_what_three_people_type_is_run() -> None:
    """In the tour, or by the test of records from ONNX."""
    typed = re.findall(r"^\| [\w ]+ \| .* \| `(gramophone .*)` \|$", README, re.MULTILINE)
    tour = README.partition("## A tour")[2]
    elsewhere = (CHECKOUT / "tests/qemu/test_frontends.py").read_text(encoding="utf-8")
    assert len(typed) == 3
    assert [command for command in typed if f"$ {command}" not in tour] == [
        "gramophone record onnx net.onnx -o net.raw.gtr"
    ]
    assert '"record", "onnx"' in elsewhere


def test_the_line_of_figures_has_those_of_the_pages() -> None:
    breadth = (CHECKOUT / "docs/BREADTH.md").read_text(encoding="utf-8")
    table = breadth.partition("## Through the whole road")[2].partition("Sizes in bytes")[0]
    networks = re.findall(r"^\| (?!network |-)([^|]+) \|", table, re.MULTILINE)
    assert f"[{len(networks)} have run](docs/BREADTH.md)" in README
    assert "| float32 | 1e-5 |" in breadth
    time = (CHECKOUT / "docs/TIME.md").read_text(encoding="utf-8")
    for row, name in (("mobilenet_v1", "MobileNet v1"), ("resnet18", "ResNet-18")):
        estimate = re.search(rf"^\| {row} \| \d+ \| [\d.]+ \| [\d.]+ ms \| ([\d.]+) ms ", time, re.MULTILINE)
        assert estimate
        assert f"{name} {float(estimate[1]):.0f} ms" in README


def test_seven_is_the_first_seven_of_the_digits() -> None:
    seven = np.load(digits.COMMITTED.parent / "seven.npy")
    assert seven.dtype == np.float32
    assert np.array_equal(seven, np.load(digits.COMMITTED)["images"][7].astype(np.float32) / 255)


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
