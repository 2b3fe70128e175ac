# SPDX-License-Identifier: BSD-2-Clause
"""A trace as text, in one piece."""

from __future__ import annotations

from host_tools.text.annotate import annotations_of
from host_tools.text.writer import Annotations, text_of
from trace_format.trace import Trace


def plain(data: bytes) -> str:
    """Without what is said of jobs."""
    return "\n".join(text_of(data, Trace.parse(data), Annotations())) + "\n"


def annotated(data: bytes) -> str:
    """With descriptors and code of the jobs, in comments."""
    trace = Trace.parse(data)
    return "\n".join(text_of(data, trace, annotations_of(trace))) + "\n"
