# SPDX-License-Identifier: BSD-2-Clause
"""A job that needs more than the budget at once is cut, so that a part of its weights is enough at a time."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from host_tools import runners
from host_tools.accesses.job_times import job_times
from host_tools.accesses.observe import random_inputs
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Memory
from host_tools.model.reading import RATE, reading
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import secure_bytes
from host_tools.passes.units import filled_first
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.places import CHECKOUT
from tests.support.streamed import accesses_outside, made, smallest
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


@functools.cache
def pointwise() -> Trace:
    return Trace.read(CHECKOUT / "tests/support/pointwise.raw.gtr")


def outputs(trace: Trace) -> list[bytes]:
    """Of two replays, which are alike."""
    with interpreter(trace) as run:
        found = [run.run(random_inputs(trace, 3)) for _ in range(2)]
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    return [array.tobytes() for _, array in sorted(found[0].items())]


def test_below_what_one_job_needs_it_is_cut() -> None:
    raw = pointwise()
    whole, least = build(raw), smallest(raw)
    trace = made(raw, least)
    assert trace.jobs > whole.jobs
    assert secure_bytes(trace) <= least < secure_bytes(whole)
    assert not accesses_outside(trace)
    assert outputs(trace) == outputs(whole)
    given = random_inputs(raw, 3)
    found = [runners.run("vgpu", Delivery(s.signed(one)), s.KEY, given, repeat=2) for one in (whole, trace)]
    assert all(one.ok for one in found), found
    names = found[0].outputs
    assert names
    assert all(np.array_equal(names[name], found[1].outputs[name]) for name in names)


def test_where_whole_jobs_fit_none_is_cut() -> None:
    raw = pointwise()
    whole = build(raw)
    assert made(raw, secure_bytes(whole) + 8192).jobs == whole.jobs


def test_a_refusal_says_why_a_job_stays_whole() -> None:
    raw = pointwise()
    with pytest.raises(
        TraceError, match=r"job \d+ \(c2 \(Conv\)\) needs \d+ bytes at once, and is not cut: its work"
    ):
        made(raw, smallest(raw) - 8192)


def test_cuts_for_time_and_for_memory_together() -> None:
    """The recording's note is about whole jobs, and is still checked."""
    raw = pointwise()
    whole, least = build(raw), smallest(raw)
    longest = 50.0
    cut = build(raw, asked={"cut-jobs": longest})
    both = build(raw, asked={"cut-jobs": longest, "streaming": least + 65536})
    assert both.jobs >= cut.jobs > whole.jobs
    assert outputs(both) == outputs(whole)


def test_memory_of_an_input_is_free_after_the_last_job_that_reads_it() -> None:
    raw = pointwise()
    whole = build(raw)
    frames = filled_first(Memory.of(whole))
    assert len(frames) == next(slot for slot in whole.slots if slot.name == "image").span // PAGE_BYTES
    memory = Memory.of(made(raw, smallest(raw)))
    inputs = memory.frames_of(slot for slot in memory.trace.slots if slot.name == "image")
    assert sum(frame in inputs for frame in memory.mappings.frames.tolist()) > len(inputs)  # others lie there


def test_the_first_output_comes_no_later_for_pieces_that_stay() -> None:
    """Those that stay have memory into which others could be read while jobs run."""
    raw = pointwise()
    least = smallest(raw)
    us = []
    for budget in (least, least + 65536, secure_bytes(build(raw)) + 8192):
        trace = made(raw, budget)
        us.append(reading(trace.streamed, [time.us for _, time in job_times(trace, chip_of("v3d42"))], RATE).us)
    assert us[2] <= us[1] * 1.02
    assert us[1] <= us[0] * 1.02
