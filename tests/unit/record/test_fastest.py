# SPDX-License-Identifier: BSD-2-Clause
"""Which of several recordings is kept."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.machine.errors import RecordError
from host_tools.record import fastest as module
from host_tools.record.fastest import fastest
from host_tools.record.preflight import NetworkError
from tests.support import chips as no_chip
from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.trace import Trace


def half(trace: Trace) -> Trace:
    """The first of its jobs only, which take less time."""
    jobs = np.flatnonzero(trace.actions["op"] == Op.JOB)
    copies = np.isin(trace.actions["op"], (Op.COPY_TO_GPU, Op.COPY_FROM_GPU))
    kept = ~copies & (np.arange(len(trace.actions)) < jobs[len(jobs) // 2])
    return trace.with_(actions=trace.actions[kept], slots=[])


def test_what_takes_less_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Trace.read(RAW)
    shorter = half(whole)
    monkeypatch.setattr(
        module, "build", lambda trace, trust_note, timeout_margin: trace
    )  # half of a recording cannot be built
    for order in (("whole", "half"), ("half", "whole")):
        kept = fastest(lambda by: {"whole": whole, "half": shorter}[by], order, "v3d42")
        assert kept is shorter


def test_a_compiler_that_does_not_take_it_is_left_out() -> None:
    whole = Trace.read(RAW)

    def record(by: str) -> Trace:
        if by == "ncnn":
            raise RecordError("a layer on the CPU")
        return whole

    assert fastest(record, ("ncnn", "tinygrad"), "v3d42") is whole


def test_nobody_takes_it() -> None:
    def record(by: str) -> Trace:
        raise RecordError(f"{by} has no such layer")

    with pytest.raises(NetworkError, match=r"^no recording has a time; the last, by b: b has no such layer$"):
        fastest(record, ("a", "b"), "v3d42")


def test_operators_on_the_cpu_have_no_time() -> None:
    whole = Trace.read(RAW)
    operate = np.array([action(Op.OPERATE)], ACTION_DTYPE)
    mixed = whole.with_(actions=np.concatenate([whole.actions, operate]))
    with pytest.raises(NetworkError, match="the time model does not know the layers"):
        fastest(lambda by: mixed, ("ncnn",), "v3d42")


def test_a_gpu_without_constants_is_refused_before_anything_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(by: str) -> Trace:
        raise AssertionError

    no_chip.forget(monkeypatch)
    with pytest.raises(NetworkError, match=f"--compiler fastest: {no_chip.REFUSED}"):
        fastest(record, ("ncnn",), no_chip.GPU)
