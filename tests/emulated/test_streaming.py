# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces on real firmware, which has memory for the budget and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.runners import firmware, unicorn
from host_tools.runners.needs import secure_bytes
from host_tools.runners.replay import ReplayResult
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import made, smallest
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES

WEIGHTS, LATENCY_NS = 12, 6_000
INPUT = np.arange(16, dtype=np.int32)


@pytest.mark.parametrize("more", [0, 4 * PAGE_BYTES])
def test_it_replays_as_on_the_host(more: int) -> None:
    with pytest.raises(TraceError) as refused:
        build(weighted(WEIGHTS), asked={PASS.name: PAGE_BYTES})
    least = int(str(refused.value).split("at least ")[1].split()[0])
    delivery = Delivery(s.signed(build(weighted(WEIGHTS), asked={PASS.name: least + more})))
    assert secure_bytes(delivery) <= least + more
    options = {"latency_ns": LATENCY_NS, "repeat": 2}
    here = runners.run("vgpu", delivery, s.KEY, {"in": INPUT}, **options)
    there = runners.run("unicorn", delivery, s.KEY, {"in": INPUT}, **options)
    assert (here.ok, there.ok, there.report.name) == (True, True, "OK")
    assert there.outputs["out"].tolist() == here.outputs["out"].tolist()
    assert (here.jobs, here.actions, here.secure_bytes) == (there.jobs, there.actions, there.secure_bytes)


class Changing(unicorn.Machine):
    """The normal world changes the trace's last piece in the mailbox once the first replay has begun."""

    END = b""  # of the signed trace

    def _gpu_write(self, uc: Any, offset: int, size: int, value: int, user: Any) -> None:
        if not self.gpu_writes:
            memory = self._shared[1]
            memory[memory.tobytes().index(self.END)] ^= 1
        super()._gpu_write(uc, offset, size, value, user)


def test_memory_of_a_raspberry_pi_4_that_the_normal_world_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is filled with when the trace is loaded replays; what changes after that ends in CHUNK."""
    raw = weighted(WEIGHTS)
    signed = s.signed(made(raw, smallest(raw)))
    pi = firmware.build(s.KEY, platform="rpi4", streaming=True).folder

    def replayed() -> ReplayResult:
        return runners.run("unicorn", Delivery(signed), s.KEY, {"in": INPUT}, firmware=pi, repeat=2)

    right = runners.run("vgpu", Delivery(signed), s.KEY, {"in": INPUT}).outputs["out"].tolist()
    assert replayed().outputs["out"].tolist() == right
    monkeypatch.setattr(Changing, "END", signed[-64:])
    monkeypatch.setattr(unicorn, "Machine", Changing)
    changed = replayed()
    assert (changed.ok, changed.report.name) == (False, "CHUNK")
    assert not changed.outputs
