# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces: the smallest budget, and what jobs access of pieces by the virtual GPU's access map."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from host_tools.accesses.job_accesses import job_accesses
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


def made(raw: Trace, budget: int, **options: Any) -> Trace:
    """A trace built for so much secure memory."""
    return build(raw, asked={PASS.name: budget}, **options)


def smallest(raw: Trace, **options: Any) -> int:
    """The budget that a refusal names."""
    with pytest.raises(TraceError, match="at least") as refused:
        made(raw, PAGE_BYTES, **options)
    found = re.search(r"at least (\d+)", str(refused.value))
    assert found
    return int(found[1])


def accesses_outside(trace: Trace) -> Mapping[int, set[int]]:
    """Job -> pieces in whose memory it accesses something while they are read, or need not be there."""
    found: dict[int, set[int]] = {}
    for number, job in enumerate(job_accesses(trace)):
        for index, piece in enumerate(trace.streamed):
            may_be_written = piece.from_job <= number < piece.first_job
            if may_be_written and not job.accesses.keys().isdisjoint(range(piece.page, piece.end_page)):
                found.setdefault(number, set()).add(index)
    return found
