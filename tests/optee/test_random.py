# SPDX-License-Identifier: BSD-2-Clause
"""Random commands with random parameters (random.c): documented results, and a session that still works."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.status import CORE, statuses
from tests.support.programs import run_program

STEPS, STEPS_AT, PROPER, EVERY = 2000, 0x1000000, 0xFFFF, 100
COMMANDS, LOAD_BEGIN, LOAD, UNLOAD = 11, 0, 2, 7  # enum gramophone_command
NONE, VALUE, IN, OUT = 0, 1, 9, 10  # enum tee_kind
# What each command takes; a random command has that, or anything.
TYPES = {0: [VALUE], 1: [IN], 3: [VALUE, OUT], 4: [VALUE, IN], 6: [VALUE, OUT], 8: [OUT], 9: [OUT]}
STEP = np.dtype([("command", "<u4"), ("params", [("kind", "<u4"), ("a", "<u4"), ("b", "<u4")], 4)])
ANSWER = np.dtype([(name, "<u4") for name in ("result", "origin", "count", "replays", "different")])
# Results that gramophone_pta.h documents, by their values in GlobalPlatform's TEE Internal Core API.
DOCUMENTED = {
    "TEE_ERROR_BAD_PARAMETERS": 0xFFFF0006,
    "TEE_ERROR_BAD_STATE": 0xFFFF0007,
    "TEE_ERROR_EXCESS_DATA": 0xFFFF0004,
    "TEE_ERROR_OUT_OF_MEMORY": 0xFFFF000C,
    "TEE_ERROR_SHORT_BUFFER": 0xFFFF0010,
    "TEE_ERROR_ITEM_NOT_FOUND": 0xFFFF0008,
    "TEE_ERROR_NOT_SUPPORTED": 0xFFFF000A,
    "TEE_ERROR_ACCESS_DENIED": 0xFFFF0001,
    "TEE_ERROR_BUSY": 0xFFFF000D,
}


def random_steps(seed: int) -> NDArray[np.void]:
    """Commands that get far, by the right types and small numbers, and others that do not."""
    random = np.random.default_rng(seed)
    steps = np.zeros(STEPS, STEP)
    # Commands that start over are rare, so that the others find something loaded.
    weights = np.array([0.1 if command in (LOAD_BEGIN, UNLOAD) else 1 for command in range(COMMANDS + 2)])
    steps["command"] = random.choice(len(weights), STEPS, p=weights / weights.sum())
    for step in steps:
        kinds = TYPES.get(int(step["command"]), [])
        if random.random() < 0.2:
            kinds = random.choice([NONE, VALUE, IN, OUT], 4).tolist()
        for param, kind in zip(step["params"], kinds, strict=False):
            high = 1 << random.choice([1, 1, 8, 13, 32])
            is_memory = kind in (IN, OUT)
            # A chunk has 2^20 bytes, and lies at the end of the shared memory.
            at = random.integers(0, 1 << random.choice([12, 21])) if is_memory else random.integers(0, high)
            size = random.integers(0, high) if is_memory or random.random() < 0.5 else 0
            param["kind"], param["a"], param["b"] = kind, at, size
    steps["command"][::EVERY] = PROPER
    return steps


def test_the_results_are_those_that_the_header_documents() -> None:
    text = (CORE.parent / "optee" / "gramophone_pta.h").read_text()
    commands, sessions = text.split("Opening a session returns")
    assert set(re.findall(r"^ \*   (TEE_ERROR_\w+)", commands, re.MULTILINE)) == DOCUMENTED.keys()
    assert "TEE_ERROR_BUSY" in sessions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_commands(seed: int, pta: Path, signed: bytes) -> None:
    image = images.image_of(pta, Path(__file__).with_name("random.c"))
    steps = random_steps(seed)
    data, counts = run_program(image, signed, STEPS, extra=(STEPS_AT, steps.tobytes()), timeout_s=600)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"step {answer['count']}: {steps[answer['count']]}"
    assert (answer["count"], answer["replays"], answer["different"]) == (STEPS, STEPS // EVERY, 0)
    results = np.frombuffer(data, "<u4", STEPS, ANSWER.itemsize)
    known = {0, *DOCUMENTED.values(), *(tee_result(status.value) for status in statuses().values())}
    assert {int(result) for result in results} <= known
    succeeded = steps["command"][(results == 0) & (steps["command"] != PROPER)]
    assert set(succeeded) >= set(range(COMMANDS)) - {LOAD}  # of a trace made at random
    assert counts["normal_accesses"] == 0
    assert counts["carveout_bytes_left"] == 0
