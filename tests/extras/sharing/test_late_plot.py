# SPDX-License-Identifier: BSD-2-Clause
"""The plot of late requests is well-formed, and its bars are as high as what they show."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from host_tools.extras.sharing.late_plot import GROUND, TOP, Bars, drawn

SPACE = "{http://www.w3.org/2000/svg}"


def test_bars() -> None:
    root = ET.fromstring(drawn("Late <here>", ["a&b", "c"], [Bars("fifo", [0.5, 0.25]), Bars("edf", [0.0, 0.1])]))
    texts = [item.text for item in root.iter(f"{SPACE}text")]
    assert {"Late <here>", "a&b", "c", "fifo", "edf", "50 %", "25 %", "0 %"} <= set(texts)
    tall = [float(box.attrib["height"]) for box in list(root.iter(f"{SPACE}rect"))[3:]]
    assert tall == [pytest.approx(share / 0.5 * (GROUND - TOP), abs=0.1) for share in (0.5, 0.25, 0, 0.1)]


def test_nothing_is_late() -> None:
    root = ET.fromstring(drawn("Late", ["a"], [Bars("edf", [0.0])]))
    assert "1 %" in [item.text for item in root.iter(f"{SPACE}text")]
