# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces in a process of Linux: a file that answers in parts or slowly replays; one that is cut short,
changes, fails or never answers while a replay reads it ends in a status with the piece, and no output (reader.c).
"""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.machine.boot import boot
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.runners import user_space
from host_tools.runners.firmware import CROSS
from host_tools.support.tensors import npy
from host_tools.vgpu.build import qemu_plugin
from signing.delivery import Delivery
from tee_replayer.generator.status import value_of
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import made, smallest

WEIGHTS = 12
INPUT = np.arange(16, dtype=np.int32)
GOOD = ("parts", "slow")
BAD = {
    "short": ("READ", "the file ends before"),
    "failing": ("READ", "Input/output error"),
    "never": ("READ", "the file gave no answer in time"),
    "changed": ("CHUNK", "piece 0, chunk "),
}
REPLAY = "gramophone-gpu replay /job/net.sgtr --json --input in=/job/in.npy --output out=/out"
LATER = 2  # calls into the replay


@pytest.fixture(scope="module")
def signed() -> bytes:
    raw = weighted(WEIGHTS)
    return s.signed(made(raw, smallest(raw)))


@pytest.fixture(scope="module")
def guest(root: RecordRoot, signed: bytes, tmp_path_factory: pytest.TempPathFactory) -> GuestResult:
    library = tmp_path_factory.mktemp("reader") / "reader.so"
    source = Path(__file__).with_name("reader.c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([f"{CROSS}gcc", *flags, "-o", str(library), str(source)], check=True)
    script = [
        user_space.LOAD,
        "gramophone-gpu take",
        "export LD_PRELOAD=/job/reader.so",
        "gramophone-gpu verify /job/net.sgtr 2>/out/calls",
        f"AFTER=$(cat /out/calls); {REPLAY}/plain.npy >/out/plain 2>/out/all",
    ]
    script += [
        f"MODE={mode} AFTER=$(($(cat /out/calls) + {later})) {REPLAY}/{mode}{later}.npy "
        f">/out/{mode}{later} 2>/out/{mode}{later}.error; echo status {mode}{later} $?"
        for mode in (*GOOD, *BAD)
        for later in (0, LATER)
    ]
    script += ["unset LD_PRELOAD", f"{REPLAY}/after.npy >/out/after", "gramophone-gpu give-back"]
    files = {"job/reader.so": library.read_bytes(), "job/net.sgtr": signed, "job/in.npy": npy(INPUT)}
    folder = user_space.build(s.KEY, s.GPU.name, streaming=True)
    return boot(user_space.job_with(root, folder, "\n".join(script), files, s.GPU.name), root, qemu_plugin())


def tensor(guest: GuestResult, name: str) -> list[int]:
    return [int(value) for value in np.load(io.BytesIO(guest.files[name]))]


def test_a_file_in_parts_or_slow_replays(guest: GuestResult, signed: bytes) -> None:
    right = runners.run("vgpu", Delivery(signed), s.KEY, {"in": INPUT}).outputs["out"].tolist()
    assert int(guest.files["all"]) > int(guest.files["calls"]) + LATER  # a replay reads
    for name in ("plain", "after", *(f"{mode}{later}" for mode in GOOD for later in (0, LATER))):
        assert tensor(guest, f"{name}.npy") == right, name


@pytest.mark.parametrize("mode", BAD)
@pytest.mark.parametrize("later", [0, LATER])
def test_a_file_that_fails_gives_a_status_and_no_output(mode: str, later: int, guest: GuestResult) -> None:
    name, (status, says) = f"{mode}{later}", BAD[mode]
    assert f"status {name} 1" in guest.output.splitlines()
    assert json.loads(guest.files[name])["status"] == value_of(status)
    error = guest.files[f"{name}.error"].decode()
    assert "piece " in error
    assert says in error or later
    assert f"{name}.npy" not in guest.files
