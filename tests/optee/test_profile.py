# SPDX-License-Identifier: BSD-2-Clause
"""The profile `optee` (tee_replayer/profiles.toml), all of its features at once, in OP-TEE's core under Linux: the
tables of hostile traces, of trust policies and of encrypted traces, through the TA, many in one boot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from host_tools.machine.boot import GuestJob
from host_tools.machine.root import RecordRoot
from host_tools.runners import libraries
from host_tools.runners.optee import guest, images, ta
from host_tools.runners.optee import linux_machine as linux
from host_tools.runners.optee.normal_world import staged_bytes, tee_result
from signing import envelope
from signing.delivery import Delivery
from tee_replayer.generator import profiles
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report
from tests.optee.test_encryption import DEVICE
from tests.support import encryption_samples as e
from tests.support import hostile, hostile_envelope, hostile_operators
from tests.support import hostile_devices as devices
from tests.support import trust_samples as t
from tests.support.hostile_devices import Answer
from tests.support.hostile_rows import V3D, Hostile
from tests.support.hostile_trust import ON_DEVICES
from tests.support.sampling import SomeOf
from trace_format.operators import OPERATORS
from trace_format.schema.report import Phase
from trace_format.schema.trust import KeyKind

ALL = tuple(OPERATORS)
# Of firmware without some operators; of one key's envelope; of a device with a least version.
_OF_OTHERS = {str(row) for row in hostile_envelope.ROWS} | {
    str(row) for row in hostile_operators.ROWS if row.operators != ALL
}
# A message of several signatures is made by a program that refuses malformed headers.
_NOT_MADE = {"HEADER", "ROLLBACK"}
LOADS = [
    row
    for row in hostile.LOADS
    if row.gpu == V3D and str(row) not in _OF_OTHERS and row.status not in {"OK", *_NOT_MADE}
]
RUNS = [row for row in hostile.RUNS + hostile.GOOD if row.gpu == V3D and not row.hang]
POLICIES = {
    name: case
    for name, case in ON_DEVICES.items()
    if case.root == t.policy() and case.where.device_id == t.DEVICE_ID
}
# In one session, by gramophone-tee's own modules; entries of the replay log are taken, for only 64 of them wait.
JUDGE = b"""
import json, sys
sys.path.insert(0, "/usr/bin/gramophone-tee")
from host_tools.device.library import Session, TeeError
def read(name):
    with open("/job/" + name, "rb") as file:
        return file.read()
found = []
with Session() as session:
    for index, runs in enumerate(json.loads(read("runs"))):
        result, inputs = 0, read(f"{index}.input")
        try:
            session.load(read(f"{index}.sgtr"))
            if inputs:
                session.set_input(0, inputs)
            if runs:
                session.run()
        except TeeError as error:
            result = error.result
        found.append([result, session.log()])
        session.entries()
json.dump(found, open("/out/found", "w"))
"""


def resigned(signed: bytes) -> bytes:
    """As the device's policy asks for."""
    trace = bytes(envelope.split(signed).trace)
    return t.join(trace, t.signatures(trace))


@dataclass(frozen=True)
class Row:
    """A file, whether it is run if it loads, the status that it must come to, and the input of its first slot."""

    name: str
    make: Callable[[], bytes]
    status: str
    runs: bool = False
    inputs: bytes = b""
    hostile: Hostile | None = None


def of_hostile(row: Hostile, runs: bool) -> Row:
    inputs = b"".join(tensor.tobytes() for tensor in row.inputs.values())
    return Row(f"hostile: {row}", lambda: resigned(row.make()), row.status, runs, inputs, row)


def of_trace(name: str, trace: bytes, status: str) -> Row:
    return Row(name, lambda: resigned(e.signed(trace)), status)


@pytest.fixture(scope="module")
def device(root: RecordRoot, pta: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pseudo-TA with all of the profile; `root` and `pta` skip with the reason where there is no machine."""
    options = Options(
        V3D,
        platform_of("optee"),
        t.policy(),
        libraries.source(),
        decryption=Decryption(True),
        algorithms=tuple(KeyKind),
        device_id=t.DEVICE_ID,
        **profiles.named("optee").features.options,
    )
    assert profiles.of_options(options) == profiles.named("optee").features
    return generate(options, tmp_path_factory.mktemp("profile") / "pta")


@pytest.fixture(scope="module")
def image(device: Path) -> images.Image:
    return images.image_of(device, linux.NORMAL_WORLD)


def judged(rows: Sequence[Row], device: Path, image: images.Image) -> tuple[list[Report], dict[str, int]]:
    """Boot once, and give the TA all of these.

    Returns:
        The replayer's report on each, of which the client was told the same, and the virtual GPU's counters.
    """
    built = ta.build_ta(device / "ta")
    files = {"job/judge.py": JUDGE, "job/runs": json.dumps([row.runs for row in rows]).encode()}
    files[f"{guest.TAS}/{built.name}"] = built.read_bytes()
    for index, row in enumerate(rows):
        files[f"job/{index}.sgtr"], files[f"job/{index}.input"] = row.make(), row.inputs
    done = linux.boot(image, GuestJob("python3 /job/judge.py", files, uses_gpu=False), timeout_s=3000)
    reports = []
    for result, log in json.loads(done.files["found"]):
        reports.append(Report(**log))
        assert result == (0 if reports[-1].ok else tee_result(reports[-1].status)), log
    return reports, dict(done.counters)


def test_the_tables(device: Path, image: images.Image, some_of: SomeOf) -> None:
    """Everything is refused as its table says; what is good, and what is stopped, runs after all others."""
    staging = image.board.carveout_bytes // 4  # where the pseudo-TA keeps tensors: one of 4 GiB does not fit
    runs = [row for row in RUNS if staged_bytes(Delivery(row.make())) <= staging]
    rows = [
        *some_of([of_hostile(row, runs=False) for row in LOADS], 6),
        *some_of([Row(name, case.make, case.status.name) for name, case in POLICIES.items()], 6),
        *some_of([of_trace(*case) for case in e.cases(DEVICE)], 4),
        *some_of([of_hostile(row, runs=True) for row in runs], 5),
    ]
    reports, counts = judged(rows, device, image)
    jobs = 0
    assert len(reports) == len(rows)
    for row, report in zip(rows, reports, strict=True):
        assert report.name == row.status, row.name
        assert row.runs or report.ok or report.phase == Phase.LOAD, row.name
        if row.hostile and (row.runs or row.status != "OK"):
            here = devices.core(row.hostile)
            # Which action a replay is at when its time is over depends on the machine's clock.
            assert report.name == "BUDGET" or Answer(report, 0, 0, False).reason == here.reason, row.name
            jobs += here.jobs
    assert counts["jobs"] == jobs
    assert counts["carveout_bytes_left"] == 0
    assert counts["normal_accesses"] == 0
