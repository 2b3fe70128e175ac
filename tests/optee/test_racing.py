# SPDX-License-Identifier: BSD-2-Clause
"""A second core of the normal world changes the shared memory during a load (racing.c)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.status import statuses
from tests.support.programs import run_program

CHUNK_BYTES = 4096  # racing.c
JOBS = 14
ANSWER = np.dtype([("result", "<u4"), ("origin", "<u4"), ("count", "<u4")])
OUTCOME = np.dtype([("result", "<u4"), ("changes", "<u4"), ("same", "<u4")])
MAX_CHUNKS = 256


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_racing_core_never_changes_what_is_replayed(step: int, pta: Path, signed: bytes) -> None:
    """Each `step`-th chunk is attacked while the core copies it: the trace is refused, or replayed as signed.

    The refused ones reach no register: the jobs are those of the accepted ones.
    """
    image = images.image_of(pta, Path(__file__).with_name("racing.c"))
    data, counts = run_program(image, signed, step, cpus=2, icount=False, timeout_s=600)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    count = -(-len(signed) // CHUNK_BYTES)
    assert answer["count"] == -(-count // step) * step
    chunks, loaded = np.split(np.frombuffer(data, OUTCOME, MAX_CHUNKS + 1, ANSWER.itemsize), [MAX_CHUNKS])
    chunks = chunks[:count:step]
    assert (chunks["changes"] > 0).all()
    accepted = chunks["result"] == 0
    assert accepted.any()
    assert not accepted.all()
    assert (chunks["same"] == accepted).all()
    known = {tee_result(status.value): status.name for status in statuses().values()}
    refusals = {known[int(code)] for code in chunks["result"][~accepted]}
    assert refusals <= {"FORMAT", "SIZE", "ENVELOPE", "KEY", "SIGNATURE", "HEADER", "CHUNK"}
    assert loaded["result"][0] == 0
    assert loaded["same"][0] == 1
    assert loaded["changes"][0] > 0
    assert counts["jobs"] == JOBS * (1 + accepted.sum() + 2)
    assert counts["carveout_bytes_left"] == 0
