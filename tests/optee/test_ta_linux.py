# SPDX-License-Identifier: BSD-2-Clause
"""The TA in OP-TEE's machine with Linux: replays through it, its policy, its counters, its signature."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo.digits import load as load_digits
from host_tools.machine.boot import GuestJob
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.runners.optee import guest, images, ta
from host_tools.runners.optee import linux_machine as linux
from host_tools.support.tensors import npy
from signing.delivery import Delivery
from signing.sign import FileSigner, sign_trace
from trace_format.trace import Trace

# One long boot. What the TA decides is shown by tests/optee/test_ta.py, test_ta_log.py and test_ta_trust.py, which
# compile it for this machine, and a client's replays and death under Linux by tests/optee/test_linux.py.
pytestmark = pytest.mark.exhaustive
ACCESS_DENIED, BUSY, SECURITY = 0xFFFF0001, 0xFFFF000D, 0xFFFF000F
API = 1  # TEEC_ORIGIN_API
KILLED = 128 + 9  # how a shell says so
OLDER, COUNTER = 0x85A10001, 0x85A10003  # gramophone_ta.h
TA_ONLY = "GRAMOPHONE_TA_ONLY ?= "
# Each line of `query NAME ARGUMENTS` leaves what gramophone-tee answers in /out/NAME.
SCRIPT = """
query() {{ name=$1; shift; gramophone-tee "$@" --json >/out/$name 2>/tmp/said; echo status $name $?; }}
as_user() {{ python3 -c 'import os, sys; os.setuid(1000); os.execvp(sys.argv[1], sys.argv[1:])' "$@"; }}
query pta info --via pta
query public info --login public
query group info --login group=0
as_user gramophone-tee info --json >/out/no_permission
chmod 666 /dev/tee0
as_user gramophone-tee info --json >/out/user
ls /{storage} >/tmp/first
query run replay /job/5 --input data=/job/data.npy --output prob=/out/prob.npy --repeat 2
query info info /job/5
python3 /job/holder.py >/tmp/holder 2>&1 & pid=$! tries=0
until grep -q ready /tmp/holder || [ $tries -ge 1000 ]; do usleep 1000; tries=$((tries + 1)); done
query busy info
kill -9 $pid; wait $pid 2>/tmp/job; echo status killed $?
query older verify /job/4
query again verify /job/4
query newer verify /job/6
query still verify /job/5
query newer_runs replay /job/6 --input data=/job/data.npy
query no_longer verify /job/5
query other_name verify /job/other
cp /job/default.ta /{tas}/{uuid}.ta; query other_key info
cp /job/tampered.ta /{tas}/{uuid}.ta; query tampered info
cp /job/good.ta /{tas}/{uuid}.ta; query good verify /job/6
for file in $(ls /{storage}); do
    grep -q -x "$file" /tmp/first && continue
    dd if=/dev/zero of=/{storage}/$file bs=1 seek=4096 count=64 conv=notrunc 2>/tmp/dd
done
query damaged verify /job/6
"""
# A client that has run a trace and keeps its session, by gramophone-tee's own modules.
HOLDER = b"""
import sys, time
sys.path.insert(0, "/usr/bin/gramophone-tee")
from host_tools.device.library import Session
session = Session()
session.load(open("/job/5", "rb").read())
session.run()
print("ready", flush=True)
time.sleep(1000)
"""


@dataclass(frozen=True)
class Answers:
    """What the guest's commands printed."""

    guest: GuestResult

    def __getitem__(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.guest.files[name])
        return found

    def code(self, name: str) -> int:
        """The TEEC_Result of a command that failed."""
        return int(self[name]["result"], 0)

    def statuses(self) -> dict[str, int]:
        """Exit statuses."""
        found = re.findall(r"^status (\w+) (\d+)$", self.guest.output, re.MULTILINE)
        return {name: int(status) for name, status in found}


@pytest.fixture(scope="module")
def answers(
    root: RecordRoot,
    pta: Path,
    ta_key: Path,
    network: Trace,
    signer: FileSigner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Answers:
    """One boot: OP-TEE that takes TAs of a key of our own, and whose pseudo-TA only the TA may call."""
    folder = tmp_path_factory.mktemp("ta") / "pta"
    shutil.copytree(pta, folder)
    settings = (folder / "sub.mk").read_text()
    (folder / "sub.mk").write_text(settings.replace(f"{TA_ONLY}n", f"{TA_ONLY}y"))
    image = images.image_of(folder, linux.NORMAL_WORLD, ta.public_part(ta_key))
    good, default = ta.build_ta(pta / "ta", ta_key), ta.build_ta(pta / "ta")
    tampered = bytearray(good.read_bytes())
    tampered[-100] ^= 1

    def signed(version: int, name: str = "lenet") -> bytes:
        meta = {**network.meta, "security_version": version, "name": name}
        return sign_trace(network.with_(meta=meta).build(), signer)

    files = {
        "job/data.npy": npy(next(iter(load_digits()[:1].inputs()))),
        "job/holder.py": HOLDER,
        "job/4": signed(4),
        "job/5": signed(5),
        "job/6": signed(6),
        "job/other": signed(4, "other"),
        "job/default.ta": default.read_bytes(),
        "job/tampered.ta": bytes(tampered),
        "job/good.ta": good.read_bytes(),
        f"{guest.TAS}/{good.name}": good.read_bytes(),
    }
    script = SCRIPT.format(tas=guest.TAS, storage=guest.STORAGE, uuid=good.stem)
    return Answers(linux.boot(image, GuestJob(script, files, uses_gpu=False)))


def test_the_same_bytes_as_the_bare_metal_firmware(answers: Answers, signed: bytes, signer: FileSigner) -> None:
    assert answers.statuses()["run"] == 0, answers.guest.output
    expected = runners.run(
        "qemu", Delivery(signed), signer.public, {"data": next(iter(load_digits()[:1].inputs()))}
    )
    assert np.load(io.BytesIO(answers.guest.files["prob.npy"])).tobytes() == expected.outputs["prob"].tobytes()
    assert answers["run"]["via"] == "ta"
    assert answers["run"]["log"]["jobs"] == expected.jobs


def test_the_manifest_comes_through(answers: Answers, network: Trace) -> None:
    found = answers["info"]
    assert (found["name"], found["security_version"]) == ("lenet", 5)
    assert found["trace_id"] == network.trace_id.hex()
    assert (found["job_count"], found["action_count"]) == (network.jobs, len(network.actions))


def test_who_may_not(answers: Answers) -> None:
    """No way round the TA, and only root through it."""
    for name in ("pta", "public", "group", "user"):
        assert answers.code(name) == ACCESS_DENIED, name
    assert [answers.statuses()[name] for name in ("pta", "public", "group")] == [1, 1, 1]
    assert answers["no_permission"]["origin"] == API
    assert "no permission to use it" in answers["no_permission"]["error"]


def test_an_older_version_is_refused(answers: Answers) -> None:
    """Also in a session of its own, and only under the trace's own name."""
    for name in ("older", "again", "no_longer"):
        assert (answers.statuses()[name], answers.code(name)) == (1, OLDER)
        assert "a newer version of this trace has been replayed before" in answers[name]["error"]
    assert [answers.statuses()[name] for name in ("newer", "newer_runs", "other_name")] == [0, 0, 0]


def test_loading_alone_raises_no_version(answers: Answers) -> None:
    assert answers.statuses()["still"] == 0, "after LOAD of a newer one, without a replay"


def test_a_client_that_dies_gives_the_gpu_back(answers: Answers) -> None:
    assert (answers.statuses()["busy"], answers.code("busy")) == (2, BUSY)
    assert answers.statuses()["killed"] == KILLED
    assert answers.code("older") == OLDER, "the next client was not the replayer's"


def test_a_ta_of_another_key_or_damaged_is_refused(answers: Answers) -> None:
    for name in ("other_key", "tampered"):
        assert answers.statuses()[name] == 2
        assert answers.code(name) == SECURITY
    assert answers.statuses()["good"] == 0


def test_a_damaged_counter_is_no_counter(answers: Answers) -> None:
    assert answers.statuses()["damaged"] == 1, answers["damaged"]
    assert answers.code("damaged") == COUNTER


def test_the_gpu_is_left_alone(answers: Answers) -> None:
    """One trace ran, three times, and a newer one once; nothing is left, and nobody else reached the GPU."""
    counters = answers.guest.counters
    assert counters["jobs"] == 4 * answers["run"]["log"]["jobs"]
    assert counters["normal_accesses"] == 0
    assert counters["carveout_bytes_left"] == 0
