# SPDX-License-Identifier: BSD-2-Clause
"""The parsers that are fuzzed: a few hundred damaged inputs each, in a process with limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.support import npy
from tests.fuzz import parsers, python_session, targets, worker
from trace_format.errors import GramophoneError

RUNS, SECONDS = 300, 30


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", parsers.PARSERS)
def test_a_moment_of_fuzzing(name: str, tmp_path: Path) -> None:
    result = python_session.run(name, tmp_path, SECONDS, RUNS)
    assert not result.findings, result.log
    assert result.runs == RUNS, result.log


# FINDING (fixed in tests/fuzz/targets.py): npy was both, and `make fuzz` tried the target twice, the parser never.
def test_a_name_is_of_a_parser_or_of_a_target() -> None:
    assert not set(parsers.PARSERS) & set(targets.TARGETS)


@pytest.mark.parametrize("name", parsers.PARSERS)
def test_samples_are_accepted(name: str) -> None:
    """At least one: what is refused at once tries nothing."""
    accepted = 0
    for sample in parsers.PARSERS[name].samples():
        try:
            parsers.PARSERS[name].run(sample)
            accepted += 1
        except GramophoneError:
            continue
    assert accepted


def test_an_error_of_another_kind_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        if len(data) > 40:
            raise KeyError(data)

    monkeypatch.setitem(parsers.PARSERS, "npy", parsers.Parser(broken, lambda: [bytes(40)], ()))
    (tmp_path / "findings").mkdir()
    assert worker.plain("npy", tmp_path, SECONDS, RUNS) == 1
    (finding,) = (tmp_path / "findings").iterdir()
    assert len(finding.read_bytes()) > 40


# FINDING (fixed in host_tools/support/npy.py): was an AttributeError.
def test_a_tensor_whose_header_is_no_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "in.npy"
    header = b"({'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)},)"
    path.write_bytes(npy.MAGIC + b"\1\0" + len(header).to_bytes(2, "little") + header + bytes(24))
    with pytest.raises(npy.NpyError, match="header"):
        npy.read(path)
