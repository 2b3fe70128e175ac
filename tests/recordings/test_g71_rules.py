# SPDX-License-Identifier: BSD-2-Clause
"""The rules to a Mali G71, held against what Arm's own driver wrote for one: there is nothing left to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.gpus.mali.rules import RuleFile, apply
from host_tools.gpus.mali.rules.file import load
from host_tools.record.importers.gpureplay_trace import import_gpureplay

# Recording, jobs that the driver itself split at 8; registers that are read before they are set are dropped.
RECORDINGS = [("mnist", 1), pytest.param("alexnet", 6, marks=pytest.mark.exhaustive), ("mobilenet", 1)]


@pytest.mark.parametrize(("name", "split"), RECORDINGS)
def test_a_g71s_recordings_have_the_values_that_the_rules_give(recordings: Path, name: str, split: int) -> None:
    shipped = load("mali_g52", "mali_g71")
    to_itself = RuleFile(shipped.file, "mali_g71", "mali_g71", shipped.rules)
    trace = import_gpureplay(recordings / name, name)
    new, applied = apply(trace, to_itself)
    places = {a.rule: a.places for a in applied}
    assert places == {
        "job-task-split": split,
        "shader-register-allocation": 0,
        "preload": 0,
        "shader-word": 0,
        "identity": 43,
        "power-override": 0,
        "job-manager-settings": 1,
        "core-settings": 3,
        "coherency": 0,
    }
    assert sum(a != b for a, b in zip(trace.image, new.image, strict=True)) == split
    assert len(trace.actions) - len(new.actions) == 43 + 1 + 3
