# SPDX-License-Identifier: BSD-2-Clause
"""How far jobs are, and how long they take yet."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from host_tools.support import progress
from host_tools.support.messages import listening
from host_tools.support.progress import Jobs, jobs_in, kernels_in


def test_what_is_left_follows_from_the_rate() -> None:
    """From when the first count was seen: what came before is the start of a machine."""
    counts = iter([0, 3, 13, 40, 41])
    jobs = Jobs(lambda: next(counts), 40)
    assert jobs.told(100.0) == ("", "")
    assert jobs.told(160.0) == ("3 of 40 jobs", "")
    assert jobs.told(180.0) == ("13 of 40 jobs", "about 54 s left")
    assert jobs.told(200.0) == ("40 of 40 jobs", "")
    assert jobs.told(201.0) == ("41 jobs", "")


def test_a_number_that_nobody_knows() -> None:
    jobs = Jobs(lambda: 7)
    assert jobs.told(1.0) == ("7 jobs", "")


def test_the_virtual_gpu_s_file(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path / "progress", 300)
    assert jobs.told(0.0) == ("", "")
    (tmp_path / "progress").write_bytes((258).to_bytes(8, "little"))
    assert jobs.told(1.0) == ("258 of 300 jobs", "")


def test_a_compiler_s_file(tmp_path: Path) -> None:
    """It knows how many there are once it has begun."""
    jobs = kernels_in(tmp_path / "progress")
    assert jobs.told(0.0) == ("", "")
    for seconds, number, said in ((1.0, 37, ""), (3.0, 39, "about 81 s left")):
        (tmp_path / "progress").write_bytes(number.to_bytes(8, "little") + (120).to_bytes(8, "little"))
        assert jobs.told(seconds) == (f"{number} of 120 kernels", said)


def test_a_line_says_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SO_FAR_S", 0.01)
    asked = threading.Event()
    again = threading.Event()

    def done() -> int:
        (again if asked.is_set() else asked).set()
        return 12

    with listening(), progress.phase("run 1 of 3", Jobs(done, 40)):
        assert again.wait(30)
    assert "run 1 of 3, 12 of 40 jobs, 0 s so far" in capsys.readouterr().err


def test_a_download_without_rich_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core's packages do not have it."""
    monkeypatch.setitem(sys.modules, "rich", None)
    with progress.download("three packages", 3, lambda: pytest.fail("nobody asks")) as poll:
        poll()
