# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces in OP-TEE's core: under Linux, where the client registers the memory in which the trace lies and
the TA passes it on, and with the small normal world, whose pages OP-TEE maps. Races are in test_racing.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.machine.boot import GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.runners import libraries
from host_tools.runners.optee import guest, images, ta
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee.normal_world import tee_result
from signing.delivery import Delivery
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import value_of
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import made, smallest
from trace_format.schema import PAGE_BYTES

WEIGHTS = 12
INPUT = np.arange(16, dtype=np.int32)
# A byte of a piece changes after loading, and changes back; then all pieces are zeros, and the head is.
PLAY = b"""
import json, sys
sys.path.insert(0, "/usr/bin/gramophone-tee")
from host_tools.device.library import Session, TeeError
found = []
with open("/job/net.sgtr", "rb") as file:
    data = bytearray(file.read())
with open("/job/input", "rb") as file:
    value = file.read()
def run():
    try:
        session.run()
        found.append([0, session.output(1, 64).hex()])
    except TeeError as error:
        found.append([error.result, session.log()["offset"]])
with Session() as session:
    session.load(data)
    session.set_input(0, value)
    run()
    data[-2000] ^= 1
    run()
    data[-2000] ^= 1
    run()
    half = len(data) // 2
    data[half:] = bytes(len(data) - half)
    run()
    data[:64] = bytes(64)
    try:
        session.load(data)
    except TeeError as error:
        found.append([error.result, 0])
json.dump(found, open("/out/found", "w"))
"""


@pytest.mark.parametrize("more", [0, 4 * PAGE_BYTES])
def test_it_replays_as_on_the_host(more: int, pta: Path) -> None:
    """`pta` skips with the reason where OP-TEE cannot be built."""
    raw = weighted(WEIGHTS)
    delivery = Delivery(s.signed(made(raw, smallest(raw) + more)))
    here, there = (runners.run(on, delivery, s.KEY, {"in": INPUT}, repeat=2) for on in ("vgpu", "optee"))
    assert (here.ok, there.ok) == (True, True)
    assert there.outputs["out"].tolist() == here.outputs["out"].tolist()
    assert (here.jobs, here.actions, here.secure_bytes) == (there.jobs, there.actions, there.secure_bytes)


def test_registered_memory_through_the_ta(root: RecordRoot, pta: Path, tmp_path: Path) -> None:
    raw = weighted(WEIGHTS)
    signed = s.signed(made(raw, smallest(raw)))
    folder = generate(
        Options("v3d42", platform_of("optee"), s.KEY, libraries.source(), streaming=True), tmp_path / "pta"
    )
    built = ta.build_ta(folder / "ta")
    files = {
        "job/play.py": PLAY,
        "job/net.sgtr": signed,
        "job/input": INPUT.tobytes(),
        f"{guest.TAS}/{built.name}": built.read_bytes(),
    }
    image = images.image_of(folder, linux.NORMAL_WORLD)
    done = linux.boot(image, GuestJob("python3 /job/play.py", files, uses_gpu=False))
    found = json.loads(done.files["found"])
    right = runners.run("vgpu", Delivery(signed), s.KEY, {"in": INPUT}).outputs["out"].tobytes().hex()
    chunk = tee_result(value_of("CHUNK"))
    assert len(found) == 5, found
    assert [row[0] for row in found[:4]] == [0, chunk, 0, chunk]
    assert found[0][1] == found[2][1] == right
    assert found[4][0] != 0
    assert done.counters["carveout_bytes_left"] == 0
    assert done.counters["normal_accesses"] == 0
