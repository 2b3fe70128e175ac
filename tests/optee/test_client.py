# SPDX-License-Identifier: BSD-2-Clause
"""A normal world that misuses the pseudo-TA (client.c)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.status import value_of
from tests.support.programs import MIN_SECURITY_VERSION, run_program

SUCCESS, BAD_PARAMETERS, BAD_STATE, EXCESS_DATA = 0, 0xFFFF0006, 0xFFFF0007, 0xFFFF0004
ITEM_NOT_FOUND, NOT_SUPPORTED, OUT_OF_MEMORY = 0xFFFF0008, 0xFFFF000A, 0xFFFF000C
BUSY, SHORT_BUFFER = 0xFFFF000D, 0xFFFF0010
WALK, READ_GPU, READ_CARVEOUT = 0, 1, 2
DATA_ABORT, EXTERNAL_ABORT = 0x25, 0x10  # ESR_EL1.EC and DFSC, Arm ARM D17.2.37

STEPS = {
    "open": SUCCESS,
    "open a second session": BUSY,
    # before LOAD_BEGIN
    "unknown command": NOT_SUPPORTED,
    "commands that the build lacks, and does not refuse like it": 0,
    "LOAD_DATA first": BAD_STATE,
    "LOAD first": BAD_STATE,
    "DESCRIBE first": BAD_STATE,
    "SET_INPUT first": BAD_STATE,
    "RUN first": BAD_STATE,
    "GET_OUTPUT first": BAD_STATE,
    "GET_LOG first": BAD_STATE,
    "DESCRIBE_TRACE first": BAD_STATE,
    "FORGET first": BAD_STATE,
    "UNLOAD first": SUCCESS,
    # loading
    "LOAD_BEGIN with a memref": BAD_PARAMETERS,
    "LOAD_BEGIN with one more": BAD_PARAMETERS,
    "LOAD_BEGIN of 0 bytes": BAD_PARAMETERS,
    "LOAD_BEGIN of 4 GiB": OUT_OF_MEMORY,
    "LOAD_BEGIN of 4096 bytes": SUCCESS,
    "LOAD_DATA with an output memref": BAD_PARAMETERS,
    "LOAD_DATA from secure memory": BAD_PARAMETERS,
    "LOAD_DATA of a byte more": EXCESS_DATA,
    "LOAD_DATA of nothing": SUCCESS,
    "LOAD before all is there": BAD_STATE,
    "LOAD_DATA of 4096 bytes": SUCCESS,
    "LOAD of zeros or worse": tee_result(value_of("FORMAT")),
    "load, while the shared memory changes": SUCCESS,
    # loaded
    "DESCRIBE no slot": ITEM_NOT_FOUND,
    "DESCRIBE with a second number": BAD_PARAMETERS,
    "DESCRIBE into too little": SHORT_BUFFER,
    "SET_INPUT of an output": BAD_PARAMETERS,
    "SET_INPUT of no slot": ITEM_NOT_FOUND,
    "SET_INPUT of a byte more": BAD_PARAMETERS,
    "SET_INPUT past the end": BAD_PARAMETERS,
    "SET_INPUT far past the end": BAD_PARAMETERS,
    "GET_OUTPUT before RUN": BAD_STATE,
    "RUN with a number": BAD_PARAMETERS,
    "RUN": SUCCESS,
    "GET_OUTPUT of an input": BAD_PARAMETERS,
    "GET_OUTPUT past the end": BAD_PARAMETERS,
    "GET_OUTPUT with room to spare": SUCCESS,
    "its size is what is left of the slot": 0,
    "GET_LOG into too little": SHORT_BUFFER,
    "DESCRIBE_TRACE into too little": SHORT_BUFFER,
    "DESCRIBE_TRACE": SUCCESS,
    "its security version": MIN_SECURITY_VERSION,
    "SET_INPUT": SUCCESS,
    "FORGET with a number": BAD_PARAMETERS,
    "FORGET": SUCCESS,
    "GET_OUTPUT after FORGET": BAD_STATE,
    "RUN after FORGET": SUCCESS,
    "GET_OUTPUT of what the recorded input gives": SUCCESS,
    "it is that of the first RUN": 0,
    # a session that ends without UNLOAD
    "close": SUCCESS,
    "open again": SUCCESS,
    "RUN in the new session": BAD_STATE,
    "load again": SUCCESS,
    "RUN again": SUCCESS,
    "UNLOAD": SUCCESS,
    "RUN after UNLOAD": BAD_STATE,
    "close again": SUCCESS,
}


@pytest.fixture(scope="module")
def image(pta: Path) -> images.Image:
    return images.image_of(pta, Path(__file__).with_name("client.c"))


def boot(image: images.Image, signed: bytes, mode: int) -> tuple[int, list[int], dict[str, int]]:
    """Run client.c: (syndrome of an exception, noted results, the device's counters)."""
    data, counts = run_program(image, signed, mode)
    syndrome, _origin, count = struct.unpack_from("<3I", data)
    return syndrome, list(struct.unpack_from(f"<{count}I", data, 12)), counts


def test_each_command_in_and_out_of_turn(image: images.Image, signed: bytes) -> None:
    syndrome, found, counts = boot(image, signed, WALK)
    assert syndrome == 0
    assert dict(zip(STEPS, map(hex, found), strict=True)) == {step: hex(code) for step, code in STEPS.items()}
    assert counts["jobs"] == 3 * 14
    assert counts["normal_accesses"] == 0
    assert counts["carveout_bytes_left"] == 0


@pytest.mark.parametrize(("mode", "counter"), [(READ_GPU, "refused_accesses"), (READ_CARVEOUT, "refused_memory")])
def test_the_normal_world_gets_an_external_abort(
    image: images.Image, signed: bytes, mode: int, counter: str
) -> None:
    syndrome, found, counts = boot(image, signed, mode)
    assert (syndrome >> 26, syndrome & 0x3F) == (DATA_ABORT, EXTERNAL_ABORT)
    assert found == []
    assert counts[counter] == 1
    assert counts["writes"] == 0
