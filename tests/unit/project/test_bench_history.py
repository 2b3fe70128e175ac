# SPDX-License-Identifier: BSD-2-Clause
"""The history of `make bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import history
from trace_format.errors import GramophoneError

FOUND = {"networks": [{"name": "lenet", "load": 5, "ok": True}, {"name": "other", "load": 7.5}], "bytes": {"a": 1}}
FIGURES = {"networks.lenet.load": 5, "networks.other.load": 7.5, "bytes.a": 1}


def test_figures_have_the_names_that_lead_to_them() -> None:
    assert history.flat(FOUND) == FIGURES


def test_the_latest_entry_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "new" / "bench.jsonl"
    assert history.last(file) is None
    history.add(file, {"a": 1})
    history.add(file, FIGURES)
    found = history.last(file)
    assert found is not None
    assert found["figures"] == FIGURES
    assert len(file.read_text().splitlines()) == 2


def test_small_changes_are_left_out() -> None:
    before = {"same": 1000.0, "nearly": 1000.0, "less": 1000.0, "gone": 1.0}
    now = {"same": 1000.0, "nearly": 1004.0, "less": 900.0, "new": 1.0}
    assert history.changes(before, now) == [("less", 1000.0, 900.0)]


@pytest.mark.parametrize("line", ["", "{", "[]", '{"figures": {}}', '{"commit": "", "time": "", "figures": 1}'])
def test_another_file_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "bench.jsonl").write_text(f"{line}\n")
    with pytest.raises(GramophoneError, match=r"bench\.jsonl, line 1: expected an entry of 'make bench'"):
        history.last(tmp_path / "bench.jsonl")
