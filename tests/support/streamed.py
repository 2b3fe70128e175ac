# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces: the smallest budget, what jobs access of pieces by the virtual GPU's access map, and replays of
a network of weights (`small_jobs.weighted`) by the compiled core.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from host_tools.accesses.job_accesses import job_accesses
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tests.support import replayer_samples as s
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

WEIGHTS = 12
INPUT = np.arange(16, dtype=np.int32) * 1000 - 7
LATENCY_NS = 5_000_000  # of a job; a clock of the host port moves with each look at it


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


@contextmanager
def loaded(
    data: bytearray, memory: int, latency_ns: int = 0, secret: bytes | None = None
) -> Iterator[tuple[hostlib.HostReplayer, mmap.mmap]]:
    """A replayer that has loaded a file, whose bytes can change meanwhile; `secret`: the device's."""
    carveout = mmap.mmap(-1, memory)
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}, latency_ns=latency_ns) as gpu:
        library = s.library(streaming=True)
        replayer = hostlib.HostReplayer(library, s.GPU, gpu.c_interface, carveout, s.CARVEOUT_PHYS)
        replayer.decrypts_with(secret)
        file = hostlib._ffi().from_buffer("uint8_t[]", data)
        replayer.load(file, s.KEY)
        yield replayer, carveout


def output(replayer: hostlib.HostReplayer) -> list[int]:
    """Of a replay of the network."""
    given, taken = INPUT.copy(), np.full(16, 99, np.int32)
    replayer.bind(0, given)
    replayer.bind(1, taken)
    replayer.run()
    return [int(value) for value in taken]


def expected(raw: Trace) -> list[int]:
    """What the network computes."""
    weights = np.frombuffer(bytes(raw.image), np.int32, offset=2 * PAGE_BYTES).reshape(WEIGHTS, -1)
    return [int(value) for value in INPUT + weights[:, :16].sum(axis=0, dtype=np.int32)]
