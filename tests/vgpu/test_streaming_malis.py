# SPDX-License-Identifier: BSD-2-Clause
"""Networks of Malis that fit a budget of secure memory: LeNet as recorded with Mesa, on each Mali there is."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from host_tools import runners
from host_tools.gpus.mali.rules import retarget
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import secure_bytes
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.networks import COMMITTED
from tests.support.streamed import accesses_outside, made, smallest
from trace_format.actions import Op, actions_of, array_of
from trace_format.errors import TraceError
from trace_format.trace import Trace

MALIS = ["mali_g71", "mali_g72", "mali_g52r1", "mali_g31"]
INPUTS = {"data": np.random.default_rng(5).random((1, 28, 28), np.float32)}


@functools.cache
def recorded(gpu: str) -> Trace:
    raw = Trace.read(COMMITTED["mali_g71"])
    return raw if gpu == raw.gpu else retarget(raw, gpu)[0]


@pytest.mark.parametrize("gpu", MALIS)
def test_each_budget_gives_the_same_bits(gpu: str) -> None:
    raw = recorded(gpu)
    with interpreter(build(raw)) as run:
        expected = run.run(INPUTS)["prob"].tobytes()
    least, most = smallest(raw), secure_bytes(build(raw))
    again = []
    for budget in range(least, most, (most - least) // 3):
        trace = made(raw, budget)
        assert secure_bytes(trace) <= budget
        assert not accesses_outside(trace)
        with interpreter(trace) as run:
            assert all(run.run(INPUTS)["prob"].tobytes() == expected for _ in range(2))
        again.append(sum(len(piece.data) for piece in trace.streamed if not piece.resident))
    assert again == sorted(again, reverse=True)
    assert again[-1] < again[0]


@pytest.mark.parametrize("gpu", MALIS[:3])
def test_the_core_replays_it(gpu: str) -> None:
    raw = recorded(gpu)
    outputs = []
    for trace in (build(raw), made(raw, smallest(raw))):
        found = runners.run("vgpu", Delivery(s.signed(trace)), s.KEY, INPUTS, repeat=2)
        assert found.ok, found.error
        outputs.append(found.outputs["prob"].tobytes())
    assert outputs[0] == outputs[1]


def test_without_clean_caches_between_chains_it_is_refused() -> None:
    """What lies in a cache would be taken for what has been read to the same memory since."""
    raw = recorded("mali_g71")
    config = raw.profile.register("js1.CONFIG_NEXT").index
    rows = [
        row.with_(value=row.value & ~(3 << 12)) if row.op == Op.REG_WRITE and row.register == config else row
        for row in actions_of(raw.actions)
    ]
    with pytest.raises(TraceError, match="its caches are not written back"):
        made(raw.with_(actions=array_of(rows)), 1 << 20)
