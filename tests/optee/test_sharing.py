# SPDX-License-Identifier: BSD-2-Clause
"""Sessions that share the GPU, each with a network of a joint trace (sharing.c)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from host_tools.runners import libraries
from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import tee_result
from signing.sign import sign_trace
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import value_of
from tests.optee.test_client import (
    BAD_PARAMETERS,
    BAD_STATE,
    BUSY,
    ITEM_NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
)
from tests.optee.test_cycles import HEAP
from tests.support.programs import run_program
from tests.support.sampling import SomeOf
from tests.support.signing_samples import ES256
from tests.vgpu.test_checkpoints import both
from tests.vgpu.test_joined import FOUR, PAIR, expected, inputs, joint, single
from trace_format.operators import used
from trace_format.schema import SlotKind

SCENE_AT, SCENE, ROW = 0x1000000, struct.Struct("<6I"), struct.Struct("<4I2Q")
NETWORKS = 8
NUMBERS = ("result", "origin", "asked", "different", "pieces", "kept_out", "yields", "ident")
ANSWER = np.dtype(
    [
        *((name, "<u4") for name in (*NUMBERS, "longest_piece", "longest_yield")),
        ("before", HEAP),
        ("after", HEAP),
        ("count", "<u4"),
    ]
)
TICK_NS = 16  # of QEMU's counter, 62.5 MHz
SAMPLES, REQUESTS = 4, 10_000
ACCESS_DENIED = 0xFFFF0001
IDENT1 = 0x000E1124  # of the virtual V3D


@functools.cache
def image(folder: Path, *, share_gpu: bool = False) -> images.Image:
    """Firmware whose pseudo-TA has a queue, and the program."""
    options = Options(
        "v3d42",
        platform_of("optee"),
        ES256.public,
        libraries.source(),
        any_client=True,
        networks=4,
        schedule=4,
        operators=used(joint(PAIR).trace.actions),
        share_gpu=share_gpu,
    )
    out = generate_sources(options, folder / f"pta-{share_gpu}")
    return images.image_of(out, Path(__file__).with_name("sharing.c"))


@pytest.fixture(scope="module")
def folder(pta: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pta` is requested so that without OP-TEE the tests are skipped with its reason."""
    assert pta.is_dir()
    return tmp_path_factory.mktemp("sharing")


@functools.cache
def signed(names: Sequence[str], *, goes_on: bool = False) -> bytes:
    """The joint trace; one that goes on after others had the GPU, if it `goes_on`."""
    return sign_trace((both(names) if goes_on else joint(names).trace).build(), ES256)


def scene(names: Sequence[str], requests: int, *, yield_every: int = 0, walk: bool = False) -> bytes:
    """What the program does, with inputs and the outputs of single traces."""
    trace = joint(names).trace
    rows, data = b"", b""
    start = SCENE_AT + SCENE.size + NETWORKS * ROW.size
    for name, network in zip(names, trace.networks, strict=True):
        index = {
            slot.name.partition("/")[2]: network.first_slot + i
            for i, slot in enumerate(trace.slots[network.first_slot :][: network.slot_count])
        }
        (given,) = (slot for slot in single(name).slots if slot.kind is SlotKind.INPUT)
        taken = next(slot for slot in single(name).slots if slot.kind is SlotKind.OUTPUT)
        places = []
        for values in (
            [inputs(single(name), seed)[given.name].tobytes() for seed in range(SAMPLES)],
            [expected(name, seed)[taken.name] for seed in range(SAMPLES)],
        ):
            places.append(start + len(data))
            data += b"".join(values)
        rows += ROW.pack(index[given.name], given.dense_bytes, index[taken.name], taken.dense_bytes, *places)
    head = SCENE.pack(requests, len(names), SAMPLES, 1, yield_every, walk)
    return head + rows.ljust(NETWORKS * ROW.size, b"\0") + data


@pytest.mark.parametrize(
    "names", [pytest.param(PAIR, id="two", marks=pytest.mark.exhaustive), pytest.param(FOUR, id="four")]
)
def test_interleaved_requests(names: Sequence[str], folder: Path, some_of: SomeOf) -> None:
    """Ten thousand of them, or some: all outputs are those of single traces, and nobody reaches others' slots."""
    requests = len(some_of(range(REQUESTS), 100))
    data, counts = run_program(
        image(folder), signed(names), 1, extra=(SCENE_AT, scene(names, requests)), timeout_s=7200
    )
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}, request {answer['asked']}"
    assert (answer["asked"], answer["different"]) == (requests, 0)
    assert answer["pieces"] > 10 * requests
    assert answer["kept_out"] > answer["pieces"] / 100
    assert counts["normal_accesses"] == 0
    assert counts["carveout_bytes_left"] == 0
    assert counts["resets"] == 2, "of the first prologue and of the end"
    assert answer["after"]["allocated"] == answer["before"]["allocated"] > 0


def test_a_job_that_faults_costs_a_retry_and_no_output(folder: Path) -> None:
    data, counts = run_program(
        image(folder), signed(PAIR), 1, extra=(SCENE_AT, scene(PAIR, 12)), plugin_args={"fault": "40"}
    )
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}, request {answer['asked']}"
    assert (answer["asked"], answer["different"]) == (12, 0)
    assert counts["resets"] == 4, "two more: when it fails, and before it begins again"


@pytest.mark.exhaustive  # the test below does so more often
def test_the_normal_world_has_the_gpu_in_between(folder: Path) -> None:
    """It gets the GPU after a piece, wherever that ends, and all outputs are what they would be."""
    data, counts = run_program(
        image(folder, share_gpu=True),
        signed(PAIR),
        1,
        extra=(SCENE_AT, scene(PAIR, 20, yield_every=50)),
        timeout_s=600,
    )
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}, request {answer['asked']}"
    assert (answer["asked"], answer["different"], answer["ident"]) == (20, 0, IDENT1)
    assert answer["yields"] > 4
    piece, given = (int(answer[name]) * TICK_NS / 1000 for name in ("longest_piece", "longest_yield"))
    print(f"longest calls, in thousands of instructions: a piece {piece:.0f}, a yield {given:.0f}")
    assert given < piece, "the normal world waits for one piece, and for less to have the GPU"
    assert counts["handovers"] >= 2 * answer["yields"]
    assert (counts["refused_accesses"], counts["refused_memory"]) == (0, 0)
    assert counts["carveout_bytes_left"] == 0


def test_the_normal_world_has_the_gpu_after_each_second_piece(folder: Path) -> None:
    """What is under way goes on each time; it would never end if it began again."""
    data, counts = run_program(
        image(folder, share_gpu=True),
        signed(PAIR, goes_on=True),
        1,
        extra=(SCENE_AT, scene(PAIR, 8, yield_every=2)),
        timeout_s=600,
    )
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}, request {answer['asked']}"
    assert (answer["asked"], answer["different"], answer["ident"]) == (8, 0, IDENT1)
    assert answer["yields"] > 8 * 14 / 2 - 1
    assert answer["pieces"] <= 8 * 18, "no piece is replayed twice"
    assert (counts["refused_accesses"], counts["refused_memory"]) == (0, 0)
    assert counts["carveout_bytes_left"] == 0


WALK = {
    "open a": SUCCESS,
    "CHOOSE before LOAD": BAD_STATE,
    "SUBMIT before LOAD": BAD_STATE,
    "STEP before LOAD": BAD_STATE,
    "open b": SUCCESS,
    "open c, of two networks": SUCCESS,
    "a sends a trace": SUCCESS,
    "b's LOAD_BEGIN meanwhile": BUSY,
    "b's LOAD_DATA": BAD_STATE,
    "b's LOAD": BAD_STATE,
    "b's UNLOAD": SUCCESS,
    "a's LOAD": SUCCESS,
    "b's RUN without a network": BAD_STATE,
    "b's FORGET without a network": BAD_STATE,
    "b's GET_LOG before it has done anything": BAD_STATE,
    "b chooses a's": BUSY,
    "b chooses one that there is not": ITEM_NOT_FOUND,
    "CHOOSE with a second number": BAD_PARAMETERS,
    "b's SET_INPUT before CHOOSE": ACCESS_DENIED,
    "b chooses the second": SUCCESS,
    "DESCRIBE_NETWORK": SUCCESS,
    "its first slot": 2,
    "DESCRIBE_NETWORK of none": ITEM_NOT_FOUND,
    "a's LOAD_BEGIN while b has a network": BUSY,
    "b's SET_INPUT of a's": ACCESS_DENIED,
    "GET_OUTPUT before a replay": BAD_STATE,
    "STEP before SUBMIT": BAD_STATE,
    "b's SET_INPUT": SUCCESS,
    "SUBMIT of what is late": tee_result(value_of("DEADLINE")),
    "SUBMIT": SUCCESS,
    "SUBMIT again": BAD_STATE,
    "SET_INPUT while the request waits": BAD_STATE,
    "RUN while the request waits": BAD_STATE,
    "a's SET_INPUT meanwhile": SUCCESS,
    "a's RUN, which does b's first": SUCCESS,
    "a's GET_OUTPUT": SUCCESS,
    "b's GET_OUTPUT before its STEP": BAD_STATE,
    "b's STEP": SUCCESS,
    "says that it is over": 0,
    "b's GET_OUTPUT": SUCCESS,
    "STEP once more": BAD_STATE,
    "SUBMIT of another": SUCCESS,
    "a STEP of it": SUCCESS,
    "says that it is not over": 1,
    "close b": SUCCESS,
    "a chooses what was b's": SUCCESS,
    "and finds no output": BAD_STATE,
    "YIELD of a GPU that is the secure world's": NOT_SUPPORTED,
    "close a": SUCCESS,
}


def test_each_command_in_and_out_of_turn(folder: Path) -> None:
    data, counts = run_program(image(folder), signed(PAIR), 1, extra=(SCENE_AT, scene(PAIR, 0, walk=True)))
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert answer["result"] == 0
    found = np.frombuffer(data, "<u4", int(answer["count"]), ANSWER.itemsize).tolist()
    assert dict(zip(WALK, map(hex, found), strict=True)) == {step: hex(code) for step, code in WALK.items()}
    assert counts["normal_accesses"] == 0
