# SPDX-License-Identifier: BSD-2-Clause
"""The notebook and the tour of the Python API: run, and what they show is what comes out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import notebook
from tests.support.places import CHECKOUT

NOTEBOOK = CHECKOUT / "docs/examples/lenet.ipynb"
TOUR = CHECKOUT / "docs/PYTHON.md"


def test_the_notebook_gives_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = notebook.code_cells(notebook.read(NOTEBOOK))
    monkeypatch.chdir(NOTEBOOK.parent)
    found = notebook.run(["".join(cell["source"]) for cell in cells], {})
    assert len(found) >= 10
    assert ["".join(answer) for answer in found] == [notebook.shown(cell) for cell in cells]
    assert ("", "(7, (10,))") in found


def test_the_tour_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TOUR.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    for name in ("lenet.raw.gtr", "lenet.param", "lenet.bin", "seven.npy"):
        (tmp_path / name).symlink_to(CHECKOUT / "host_tools/demo/lenet" / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gramophone.record", lambda *_, **__: pytest.fail("it would boot a guest"))
    (printed, value), *_ = notebook.run(["\n".join(blocks)], {})
    assert printed.split() == ["7", "verified"]
    assert value == ""


def test_a_value_that_differs_is_seen() -> None:
    assert notebook.run(["print(1)\n2 + 3", "x = 4", "x"], {}) == [("1\n", "5"), ("", ""), ("", "4")]
