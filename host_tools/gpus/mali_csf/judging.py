# SPDX-License-Identifier: BSD-2-Clause
"""Judges the command streams of a trace as a device does before each call.

Instructions are judged by the profile's table. A stream lies in the image, which nothing writes. What a device
refuses, `lint` reports, and `build` does not build.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from host_tools.families.accesses import Flaw
from host_tools.gpus.mali_csf.instructions import INSTRUCTION_BYTES
from host_tools.gpus.mali_csf.page_tables import RING, SPACE
from trace_format.actions import Action, Op, actions_of
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

RULE = "GR307"


class _Mapped:
    """What is mapped, as far as somebody asks for it."""

    def __init__(self) -> None:
        self.rows: list[Action] = []

    def take(self, row: Action) -> None:
        self.rows.append(row)

    def frame(self, page: int) -> int | None:
        """Of a virtual page of a trace's address space; None: it is not mapped."""
        for row in reversed(self.rows):
            if row.address_space == SPACE and row.va_page <= page < row.va_page + row.pages:
                return row.frame + page - row.va_page if row.op == Op.MAP_GPU_MEM else None
        return None


def flaws(trace: Trace) -> Iterator[Flaw]:
    """What a device would refuse, as rule and text (`Family.check`)."""
    mapped = _Mapped()
    job = -1
    for row in actions_of(trace.actions):
        match row.op:
            case Op.MAP_GPU_MEM | Op.UNMAP_GPU_MEM:
                mapped.take(row)
                if row.address_space != SPACE:
                    yield RULE, f"a mapping in address space {row.address_space}, which is no trace's"
                if (row.va_page + row.pages) * PAGE_BYTES > RING:
                    yield RULE, f"a mapping at GPU address {RING:#x} or above, where the driver has its ring"
            case Op.JOB:
                job = row.number
            case Op.RUN_STREAM:
                if flaw := _stream_flaw(trace, mapped, row):
                    yield RULE, f"command stream of job {job}: {flaw}"


def _stream_flaw(trace: Trace, mapped: _Mapped, row: Action) -> str:
    if row.address_space != SPACE:
        return f"it is in address space {row.address_space}, which is no trace's"
    rules = trace.profile.streams
    if rules is None:
        return f"a {trace.profile.title} has no command streams"
    at = row.stream
    for word in _words(trace, mapped, row):
        flaw = "it does not lie in the image" if word is None else rules.flaw(word)
        if flaw:
            return f"at GPU address {at:#x}: {flaw}"
        at += INSTRUCTION_BYTES
    return ""


def _words(trace: Trace, mapped: _Mapped, row: Action) -> Iterator[int | None]:
    """Its instructions; None for one that is not in the image, the last."""
    image = np.frombuffer(trace.image, np.uint8)
    at, end = row.stream, row.stream + INSTRUCTION_BYTES * row.instructions
    while at < end:
        frame = mapped.frame(at // PAGE_BYTES)
        if frame is None or frame >= -(-len(image) // PAGE_BYTES):
            yield None
            return
        here = min(end, (at // PAGE_BYTES + 1) * PAGE_BYTES)
        yield from _page(image, frame * PAGE_BYTES + at % PAGE_BYTES, here - at)
        at = here


def _page(image: NDArray[np.uint8], place: int, size: int) -> list[int]:
    found = np.zeros(size, np.uint8)
    part = image[place : place + size]
    found[: len(part)] = part
    words: list[int] = found.view("<u8").tolist()
    return words


def check(trace: Trace) -> None:
    """TraceError: a device would refuse a stream."""
    for _, flaw in flaws(trace):
        raise TraceError(f"{flaw}: a device refuses it; `build` without --skip makes streams straight")


def is_straight(trace: Trace) -> bool:
    """Whether a device takes all of its streams."""
    return not any(True for _ in flaws(trace))
