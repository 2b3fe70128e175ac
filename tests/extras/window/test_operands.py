# SPDX-License-Identifier: BSD-2-Clause
"""What a job reads and writes, before and after it."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.accesses.data_flow import JOB, SLOT
from host_tools.extras.window import operands
from tests.support.small_jobs import ADD_TO_SCRATCH, BYTES, DOUBLE_TWICE, INPUT, OUTPUT, SCRATCH, small
from trace_format.errors import GramophoneError

GIVEN = {"in": np.arange(16, dtype="<i4")}


def words(data: bytes) -> list[int]:
    return [int(value) for value in np.frombuffer(data, "<i4")]


def test_a_job_reads_what_the_one_before_wrote() -> None:
    first, second = (operands.of_job(small(*DOUBLE_TWICE), GIVEN, job) for job in (0, 1))
    (read,) = (operand for operand in first.read if operand.origin == SLOT)
    assert (read.number, read.address, read.size, read.slots) == (0, INPUT, BYTES, [0])
    assert words(read.data) == list(range(16))
    assert [(one.origin, one.number, one.address) for one in first.written] == [(JOB, 0, SCRATCH)]
    assert [one.data for one in second.read if one.origin == JOB] == [first.written[0].data]
    assert words(second.written[0].data) == [4 * value for value in range(16)]
    assert second.written[0].slots == [1]
    assert second.written[0].address == OUTPUT


def test_a_job_that_overwrites_what_it_read() -> None:
    """Before is before, and after is after."""
    second = operands.of_job(small(("add", INPUT, INPUT, SCRATCH), ("add", SCRATCH, SCRATCH, SCRATCH)), GIVEN, 1)
    (read,) = (operand for operand in second.read if operand.address == SCRATCH)
    assert words(read.data) == [2 * value for value in range(16)]
    assert words(second.written[0].data) == [4 * value for value in range(16)]


def test_memory_that_was_cleared() -> None:
    first = operands.of_job(small(*ADD_TO_SCRATCH), GIVEN, 0)
    (read,) = (operand for operand in first.read if operand.address == SCRATCH)
    assert read.origin == "cleared"
    assert words(read.data) == [0] * 16


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MOST", 1)
    monkeypatch.setattr(operands, "MOST_BYTES", 8)
    found = operands.of_job(small(*ADD_TO_SCRATCH), GIVEN, 0)
    assert (len(found.read), len(found.written)) == (1, 1)
    assert found.more_read >= 1
    assert (found.written[0].size, len(found.written[0].data)) == (BYTES, 8)


def test_a_job_that_is_not_there() -> None:
    with pytest.raises(GramophoneError, match="there is no job 2: the trace has 2, from 0 on"):
        operands.of_job(small(*DOUBLE_TWICE), {}, 2)
