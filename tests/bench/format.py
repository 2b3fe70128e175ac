# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: how fast traces are parsed. Not a test: `python -m tests.bench format`.

Parses one stream of actions three ways in one run: plain `construct`, the NumPy type derived from the same schema,
and that with every rule of the action table checked, as `Trace.parse` does. Then a whole trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from construct import GreedyRange

from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.schema import PAGE_BYTES
from trace_format.schema import Action as Structure
from trace_format.trace import Trace
from trace_format.validate import check_actions

CONSTRUCT_ACTIONS = 20_000  # plain construct is slow; its rate does not depend on the length
ACTIONS = 4_000_000
IMAGE_BYTES = 64 << 20
CARVEOUT_BYTES = IMAGE_BYTES + (1 << 20)


def rate(work: Callable[[], object], size: int, repeats: int) -> float:
    """Best MB/s of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return size / best / 1e6


def stream(count: int) -> np.ndarray:
    """A stream as recordings have them: register accesses, waits, mappings, uploads."""
    pattern = [
        action(Op.REG_WRITE, register=0x1241, value=7, mask=0xFFFFFFFF),
        action(Op.REG_READ_ONCE, register=0x14, expected=1, mask=0xFF),
        action(Op.REG_READ_WAIT, register=0x14, mask=1, timeout_us=500),
        action(Op.MAP_GPU_MEM, flags=7, pages=8, a=16, frame=IMAGE_BYTES // PAGE_BYTES),
        action(Op.UPLOAD, bytes=32, target=IMAGE_BYTES, source=16),
        action(Op.WAIT_IRQ, timeout_us=1000),
        action(Op.IRQ_ENTER),
        action(Op.IRQ_EXIT),
    ]
    return np.tile(np.array(pattern, dtype=ACTION_DTYPE), count // len(pattern))


def checked(data: bytes) -> None:
    """Actions from bytes, every rule checked."""
    check_actions(
        np.frombuffer(data, dtype=ACTION_DTYPE),
        image_bytes=IMAGE_BYTES,
        carveout_bytes=CARVEOUT_BYTES,
        va_bytes=64 * PAGE_BYTES,
        slot_count=0,
        window_bytes=0xC000,
        lines=1,
        address_spaces=1,
        where="",
    )


def touched(data: bytes) -> int:
    """Actions from bytes, every field of every one read."""
    rows = np.frombuffer(data, dtype=ACTION_DTYPE)
    return sum(int(rows[name].max()) for name in ACTION_DTYPE.names or ())


def measure() -> dict[str, float]:
    """MB/s by what is parsed, all of this run."""
    short, long = stream(CONSTRUCT_ACTIONS).tobytes(), stream(ACTIONS).tobytes()
    rows = GreedyRange(Structure).parse(short)
    fields = [[row[name] for name in ACTION_DTYPE.names or ()] for row in rows[:64]]
    if fields != [list(row) for row in np.frombuffer(short, ACTION_DTYPE)[:64].tolist()]:
        raise SystemExit("construct and NumPy read different actions")
    image = np.random.default_rng(1).integers(0, 256, IMAGE_BYTES, dtype=np.uint8).tobytes()
    trace = Trace("v3d42", stream(1 << 20), image, CARVEOUT_BYTES, 64 * PAGE_BYTES)
    whole = trace.build(compress=False, chunk_bytes=65536)
    return {
        "actions, plain construct": rate(lambda: GreedyRange(Structure).parse(short), len(short), 2),
        "actions, NumPy, all fields read": rate(lambda: touched(long), len(long), 3),
        "actions, NumPy, all rules checked": rate(lambda: checked(long), len(long), 3),
        "whole trace, hashes and rules checked": rate(lambda: Trace.parse(whole), len(whole), 3),
    }
