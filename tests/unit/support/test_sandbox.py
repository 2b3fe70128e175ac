# SPDX-License-Identifier: BSD-2-Clause
"""Whether there is a sandbox, and what is said where there is none; what it does is in test_contained.py."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from host_tools.support import contained, sandbox
from host_tools.support.messages import LOG
from host_tools.support.sandbox import VARIABLE, SandboxError
from host_tools.support.system_calls import PROGRAM, ROWS


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "missing", lambda: ("no limit to files, the kernel has no Landlock",))
    sandbox._say_missing.cache_clear()


@pytest.mark.usefixtures("no_landlock")
def test_what_is_missing_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with caplog.at_level(logging.WARNING, LOG.name):
        assert sandbox.wanted()
        assert sandbox.wanted()
    assert [record.getMessage() for record in caplog.records] == [
        "warning: foreign code runs with a part of the sandbox only: no limit to files, the kernel has no "
        "Landlock (GRAMOPHONE_SANDBOX)"
    ]


@pytest.mark.usefixtures("no_landlock")
def test_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "require")
    with pytest.raises(SandboxError, match="GRAMOPHONE_SANDBOX=require: no limit to files"):
        contained.call("it", os.getpid, int)


@pytest.mark.usefixtures("no_landlock")
def test_off_says_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert not sandbox.wanted()
    assert not caplog.records


def test_no_folder_of_the_user_is_readable() -> None:
    """Nor one that has one in it: a home, the working directory, a checkout with keys."""
    checkout = Path(sandbox.__file__).resolve().parents[2]
    for path in (Path.home(), Path("/etc"), Path("/tmp"), Path("/var"), checkout):
        assert not [entry for entry in sandbox.runtime() if path.is_relative_to(entry)]


def test_each_call_is_named_once() -> None:
    names = [name for row in ROWS + PROGRAM for name in row.names.split()]
    assert len(names) == len(set(names))


def test_packages_that_are_found_by_path_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a .pth file or PYTHONPATH adds them; a folder of the user's on the path is not."""
    packages, own = tmp_path / "site-packages", tmp_path / "work"
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.syspath_prepend(str(own))
    found = sandbox.runtime()
    assert packages in found
    assert own not in found
