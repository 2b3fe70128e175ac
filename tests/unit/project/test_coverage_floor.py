# SPDX-License-Identifier: BSD-2-Clause
"""The floor of coverage: what is below it is named, and it names folders and tests that there are."""

from __future__ import annotations

import tomllib

from tests.coverage.__main__ import FLOOR, Points, below
from tests.support.places import CHECKOUT

POINTS: Points = {
    "a/one.py": {"all": ["1", "2", "3", "1->2", "1->3"], "hit": ["1", "2", "1->2"]},
    "a/two.py": {"all": ["1"], "hit": ["1"]},
    "a/b/three.py": {"all": ["1", "2"], "hit": []},
}


def test_what_is_below_is_named() -> None:
    assert below(POINTS, {"a": [75, 50]}) == []
    assert below(POINTS, {"a": [75.1, 50.1]}) == [
        "a: expected at least 75.1 % of its lines, found 75.0 %",
        "a: expected at least 50.1 % of its branches, found 50.0 %",
    ]
    assert below(POINTS, {"a/b": [1, 0]}) == ["a/b: expected at least 1 % of its lines, found 0.0 %"]


def test_a_folder_that_nothing_was_executed_of_is_below() -> None:
    assert below(POINTS, {"gone": [1, 1]}) == [
        f"gone: expected at least 1 % of its {what}, found 0.0 %" for what in ("lines", "branches")
    ]


def test_the_floor_is_one() -> None:
    said = tomllib.loads(FLOOR.read_text(encoding="utf-8"))
    for name in (*said["tests"], *said["python"]):
        assert (CHECKOUT / name).exists(), name
    for lines, branches in said["python"].values():
        assert 50 < branches <= lines <= 100
