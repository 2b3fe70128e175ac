# SPDX-License-Identifier: BSD-2-Clause
"""Names of jobs are a file's claim: of one kind and number, short, and on one line."""

from __future__ import annotations

import pytest

from host_tools.model.description import describe_actions
from host_tools.model.job_names import LONGEST, job_names, name_before, names_by_action
from tests.support.small_jobs import DOUBLE_TWICE, small


def test_names_stand_beside_jobs() -> None:
    trace = small(*DOUBLE_TWICE).with_(notes={"calls": ["conv1", "relu1"]})
    assert job_names(trace) == ["conv1", "relu1"]
    lines = [line for line in describe_actions(trace) if line.startswith("Job")]
    assert lines == ["Job 0 (conv1)", "Job 1 (relu1)"]


def test_the_names_of_several_layers() -> None:
    calls = [["enc/Conv (Conv)", "enc/Relu (Relu)", "q (Reshape)"], ["y" * 99 + " (Mul)", "\n"]]
    trace = small(*DOUBLE_TWICE).with_(notes={"calls": calls})
    end = "... and 1 more (Mul)"
    assert job_names(trace) == ["enc/Conv and 2 more (Conv)", "y" * (LONGEST - len(end)) + end]


@pytest.mark.parametrize(
    "note",
    [None, "ab", ["one"], ["one", "two", "three"], ["one", 2], {"a": "b"}, [["one"], []], [["one"], ["two", 2]]],
)
def test_what_names_no_jobs(note: object) -> None:
    trace = small(*DOUBLE_TWICE).with_(notes={} if note is None else {"calls": note})
    assert job_names(trace) == []
    assert [line for line in describe_actions(trace) if line.startswith("Job")] == ["Job 0", "Job 1"]


def test_a_name_is_short_and_moves_no_terminal() -> None:
    trace = small(*DOUBLE_TWICE).with_(notes={"calls": ["\x1b[2J\nok", "x" * 1000]})
    first, second = job_names(trace)
    assert first == r"\x1b[2J\nok"
    assert second == "x" * (LONGEST - 3) + "..."


def test_an_action_is_of_the_last_job_that_was_announced() -> None:
    trace = small(*DOUBLE_TWICE).with_(notes={"calls": ["conv1", ""]})
    (marker, name), *others = names_by_action(trace).items()
    assert (name, others) == ("conv1", [])
    names = {marker: "conv1", marker + 9: "relu1"}
    places = (0, marker - 1, marker, marker + 8, marker + 9, 10**9)
    assert [name_before(names, at) for at in places] == ["", "", "conv1", "conv1", "relu1", "relu1"]
