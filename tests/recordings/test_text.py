# SPDX-License-Identifier: BSD-2-Clause
"""The public recordings as text: the same bytes again, raw and built, and every job with its descriptors."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build
from host_tools.text.annotate import job_fields
from host_tools.text.reader import assemble
from tests.recordings.test_gpureplay_import import RECORDINGS
from tests.support.trace_text import annotated
from trace_format.trace import Trace


@pytest.mark.parametrize(
    ("name", "jobs"),
    [pytest.param(*row[:2], marks=() if row[0] == "mnist" else pytest.mark.exhaustive) for row in RECORDINGS],
)
def test_dumped_and_assembled_it_is_the_same(recordings: Path, name: str, jobs: int) -> None:
    raw = import_gpureplay(recordings / name, name)
    for trace in (raw, build(raw) if name == "mnist" else raw):
        same_again(trace)
    found = job_fields(raw)
    assert len(found) == jobs
    for job in found:
        assert job.remarks == []
        headers = [d.fields for d in job.descriptors if d.name == "job header"]
        assert {header["type"] for header in headers} == {"compute"}
        operations = [line for clause in job.code for line in clause.text.split("\n")[1:]]
        assert len(operations) > 4
        assert not [line for line in operations if "unknown" in line]


def same_again(trace: Trace) -> None:
    data = trace.build(compress=not trace.raw)
    text = annotated(data)
    assert assemble(text, "net.txt")[0] == data
