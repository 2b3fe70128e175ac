# SPDX-License-Identifier: BSD-2-Clause
"""Many sessions that load, replay and unload leave nothing in the core's heap (cycles.c)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from host_tools.runners.optee import images
from tests.support.programs import run_program
from tests.support.sampling import SomeOf

CYCLES = 1000
JOBS = 14
HEAP = np.dtype(
    [
        ("name", "S32"),
        ("free_squares", "<u8"),
        *((name, "<u4") for name in ("allocated", "max_allocated", "size", "failures")),
        *((name, "<u4") for name in ("biggest_failure", "used_at_failure")),
    ]
)
ANSWER = np.dtype(
    [
        ("result", "<u4"),
        ("origin", "<u4"),
        ("cycles", "<u4"),
        ("different", "<u4"),
        ("before", HEAP),
        ("after", HEAP),
    ]
)


def test_a_thousand_cycles_without_a_leak(pta: Path, signed: bytes, some_of: SomeOf) -> None:
    cycles = len(some_of(range(CYCLES), 30))
    image = images.image_of(pta, Path(__file__).with_name("cycles.c"))
    data, counts = run_program(image, signed, cycles, icount=False, timeout_s=1800)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    assert (answer["cycles"], answer["different"]) == (cycles, 0)
    before, after = answer["before"], answer["after"]
    print(f"core heap: {before['allocated']} bytes before, {after['allocated']} after, of {after['size']}")
    assert 0 < before["allocated"] < before["size"]
    assert after["allocated"] == before["allocated"]
    assert after["failures"] == 0
    assert counts["jobs"] == JOBS * cycles
    assert counts["carveout_bytes_left"] == 0
