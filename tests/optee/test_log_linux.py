# SPDX-License-Identifier: BSD-2-Clause
"""A device with OP-TEE that keeps a replay log: two boots with Linux, `gramophone-tee` there, attacks here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo.digits import load as load_digits
from host_tools.machine.boot import GuestJob
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.runners.optee import build, guest, images, ta
from host_tools.runners.optee import linux_machine as linux
from host_tools.support.tensors import npy
from signing.replay_log import read_log
from signing.sign import FileSigner, sign_trace
from tests.optee.test_ta_linux import Answers
from tests.support.log_attacks import ORDERS, entries_of
from trace_format.schema.log import LogKind
from trace_format.schema.report import Status
from trace_format.trace import Trace

# Two boots. The TA's part of the log is shown by tests/optee/test_ta_log.py, logs over several boots, attacks on
# them and attestations by tests/emulated/test_evidence.py and tests/qemu/test_evidence.py.
pytestmark = pytest.mark.exhaustive
NONCE, OTHER_NONCE = bytes(range(32)).hex(), bytes(32).hex()
LOG, TA_LOG, ACCESS_DENIED = 0x8F03FF03, 0x85A10004, 0xFFFF0001
WAITING = 64  # gramophone_pta_log.c
HUK = bytes(16)  # of OP-TEE's platform for QEMU: core/kernel/otp_stubs.c
LENET_JOBS = 14
REPLAY = "replay /job/net --input data=/job/data.npy --output prob=/out/prob.npy --entries /out/replay.log"
ATTEST = f"--nonce {NONCE} --attestation /out/report.cbor"
# Each line of `query NAME ARGUMENTS` leaves what gramophone-tee answers in /out/NAME.
START = """
query() { name=$1; shift; gramophone-tee "$@" --json >/out/$name 2>/tmp/said; echo status $name $?; }
"""
# The kernel's ways to be in the way: a TA without a log, a storage put back, no storage.
FIRST = f"""
cp /job/no_log.ta /{guest.TAS}/UUID
query not_open verify /job/net
ls /{guest.STORAGE} >/tmp/first
cp /job/log.ta /{guest.TAS}/UUID
query first {REPLAY} --repeat 2
query pta info --via pta
cp -r /{guest.STORAGE} /tmp/earlier
python3 /job/filler.py >/out/filled
query full replay /job/net --input data=/job/data.npy --output prob=/out/full.npy
query taken log /out/replay.log
rm -r /{guest.STORAGE}; cp -r /tmp/earlier /{guest.STORAGE}
query after {REPLAY}
cp -r /{guest.STORAGE} /out/store
mv /{guest.STORAGE} /tmp/away; echo >/{guest.STORAGE}
query no_storage {REPLAY}
rm /{guest.STORAGE}; mv /tmp/away /{guest.STORAGE}
for file in $(ls /{guest.STORAGE}); do
    grep -q -x "$file" /tmp/first && continue
    dd if=/dev/zero of=/{guest.STORAGE}/$file bs=1 seek=4096 count=64 conv=notrunc 2>/tmp/dd
done
query damaged {REPLAY}
"""
SECOND = f"""
cp /job/replay.log /out/replay.log
query key device-key -o /out/device.pub.pem
query second {REPLAY} {ATTEST}
"""
# In one session: traces that are refused until there is no room for another entry.
FILLER = b"""
import sys
sys.path.insert(0, "/usr/bin/gramophone-tee")
from host_tools.device.library import Session, TeeError
with Session() as session:
    results = []
    while len(results) < 100:
        try:
            session.load(b"no trace" * 16)
        except TeeError as error:
            results.append(error.result)
print(*results)
"""


@dataclass(frozen=True)
class Device:
    """A device after two boots.

    Attributes:
        at: folder with all that owner, device and verifier have.
        first, second: what its commands said.
    """

    at: Path
    first: Answers
    second: Answers


def command(*words: str | Path, status: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def device(
    root: RecordRoot, pta: Path, logging_pta: Path, network: Trace, signer: FileSigner, tmp_path_factory: Any
) -> Device:
    at: Path = tmp_path_factory.mktemp("device")
    image = images.image_of(logging_pta, linux.NORMAL_WORLD)
    built = ta.build_ta(logging_pta / "ta")
    digit = npy(next(iter(load_digits()[:1].inputs())))
    signed = sign_trace(network.build(), signer)
    files = {
        "job/data.npy": digit,
        "job/net": signed,
        "job/filler.py": FILLER,
        "job/log.ta": built.read_bytes(),
        "job/no_log.ta": ta.build_ta(pta / "ta").read_bytes(),
        f"{guest.TAS}/{built.name}": built.read_bytes(),
    }

    def boot(script: str, more: Mapping[str, bytes]) -> GuestResult:
        job = GuestJob(START + script.replace("UUID", built.name), {**files, **more}, uses_gpu=False)
        return linux.boot(image, job)

    first = boot(FIRST, {})
    kept = {name.removeprefix("store/"): data for name, data in first.files.items() if name.startswith("store/")}
    assert kept, first.output
    storage = {f"{guest.STORAGE}/{name}": data for name, data in kept.items()}
    second = boot(SECOND, {**storage, "job/replay.log": first.files["replay.log"]})
    for name in ("replay.log", "report.cbor", "device.pub.pem", "prob.npy"):
        (at / name).write_bytes(second.files[name])
    other = network.with_(meta={**network.meta, "name": "other"})
    for name, data in (("net.sgtr", signed), ("other.sgtr", sign_trace(other.build(), signer)), ("huk", HUK)):
        (at / name).write_bytes(data)
    (at / "digit.npy").write_bytes(digit)
    (at / "tee.elf").write_bytes((build.core_of(logging_pta) / build.CORE_ELF).read_bytes())
    return Device(at, Answers(first), Answers(second))


@pytest.fixture
def verify_log(device: Device) -> Callable[..., list[str]]:
    """The faults that verify-log finds in these entries of the device's log."""
    at = device.at

    def run(data: bytes, *more: str | Path, status: int = 1) -> list[str]:
        (at / "changed.log").write_bytes(data)
        proof = ("--attestation", at / "report.cbor", "--key", at / "device.pub.pem", "--nonce", NONCE)
        words = ("verify", "log", at / "changed.log", *proof, "--trace", at / "net.sgtr", *more)
        return [finding["fault"] for finding in command(*words, status=status)["findings"]]

    return run


def test_a_log_over_two_boots(device: Device, verify_log: Callable[..., list[str]]) -> None:
    data = (device.at / "replay.log").read_bytes()
    entries = read_log(data)
    boot, load, replay, refusal = LogKind.BOOT, LogKind.LOAD, LogKind.REPLAY, LogKind.REFUSAL
    kinds = [entry.kind for entry in entries]
    after = [boot, load, replay, replay, *[refusal] * WAITING, load, replay]
    assert kinds == [*after, boot, load, replay]
    assert [entry.boot for entry in entries] == [1] * len(after) + [2] * 3
    assert {entry.values["status"] for entry in entries if entry.kind is replay} == {Status.OK}
    assert verify_log(data, status=0) == []


@pytest.mark.parametrize("name", ORDERS)
def test_an_attacked_log_is_caught(
    name: str, device: Device, verify_log: Callable[..., list[str]], tmp_path: Path
) -> None:
    """By an attestation alone, and by the log key, which whoever knows the hardware unique key has."""
    done, fault = ORDERS[name]
    changed = b"".join(done(entries_of((device.at / "replay.log").read_bytes())))
    assert fault in verify_log(changed)
    made = command("enrol", "--huk", device.at / "huk", "-o", tmp_path / "enrolled")
    assert "16 times 0x00" in made["warnings"][0]
    assert verify_log(changed, "--log-key", tmp_path / "enrolled/log.key") == [fault]


@pytest.mark.parametrize("position", [0, 3, -1])
def test_an_altered_log_is_caught(position: int, device: Device, verify_log: Callable[..., list[str]]) -> None:
    entries = entries_of((device.at / "replay.log").read_bytes())
    altered = bytearray(entries[position])
    altered[28] ^= 1
    entries[position] = bytes(altered)
    assert "altered" in verify_log(b"".join(entries))


def test_the_device_has_the_keys_that_its_huk_gives(device: Device, tmp_path: Path) -> None:
    command("enrol", "--huk", device.at / "huk", "-o", tmp_path / "enrolled")
    assert (tmp_path / "enrolled/device.pub.pem").read_bytes() == (device.at / "device.pub.pem").read_bytes()


def report(device: Device, status: int, **changes: str | Path) -> list[str]:
    """The faults that verify-report finds."""
    at = device.at
    options: dict[str, str | Path] = {
        **{"key": at / "device.pub.pem", "nonce": NONCE, "firmware-image": at / "tee.elf"},
        **{"trace": at / "net.sgtr", "input": f"data={at / 'digit.npy'}", "expect": f"prob={at / 'prob.npy'}"},
        **changes,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    found = command("verify", "attestation", at / "report.cbor", *words, status=status)
    return [finding["fault"] for finding in found["findings"]]


def test_the_attestation_is_good(device: Device) -> None:
    """Also as to the core's code and constants, which the verifier computes from tee.elf."""
    assert report(device, 0) == []


def test_an_attestation_of_something_else_is_refused(device: Device, pta: Path, tmp_path: Path) -> None:
    core = bytearray((device.at / "tee.elf").read_bytes())
    core[0x20000] ^= 1  # in its code
    (tmp_path / "other.elf").write_bytes(core)
    np.save(tmp_path / "prob.npy", np.load(device.at / "prob.npy")[::-1])
    assert report(device, 1, nonce=OTHER_NONCE) == ["other-nonce"]
    assert report(device, 1, trace=device.at / "other.sgtr") == ["other-trace"]
    assert report(device, 1, **{"firmware-image": tmp_path / "other.elf"}) == ["other-firmware"]
    without = build.core_of(pta) / build.CORE_ELF
    assert report(device, 1, **{"firmware-image": without}) == ["other-firmware"]
    assert report(device, 1, expect=f"prob={tmp_path / 'prob.npy'}") == ["other-outputs"]


def test_nothing_is_replayed_before_the_log_is_open(device: Device) -> None:
    """A TA without a log opens none."""
    assert (device.first.statuses()["not_open"], device.first.code("not_open")) == (1, LOG)
    assert (device.first.statuses()["pta"], device.first.code("pta")) == (1, ACCESS_DENIED)


def test_without_room_for_an_entry_nothing_is_replayed(device: Device) -> None:
    results = [int(word) for word in device.first.guest.files["filled"].split()]
    assert len(results) == 100
    assert set(results[:WAITING]) & {LOG} == set()
    assert set(results[WAITING:]) == {LOG}
    assert (device.first.statuses()["full"], device.first.code("full")) == (1, LOG)
    assert "gramophone-tee log FILE" in device.first["full"]["error"]
    assert "full.npy" not in device.first.guest.files
    assert device.first["taken"]["entries"] == WAITING
    assert device.first.statuses()["after"] == 0, device.first["after"]
    assert (device.first["first"]["entries"], device.first["after"]["entries"]) == (4, 2)


def test_without_storage_nothing_is_replayed(device: Device) -> None:
    assert device.first.statuses()["no_storage"] in (1, 2), device.first["no_storage"]  # OP-TEE ends the TA
    assert (device.first.statuses()["damaged"], device.first.code("damaged")) == (1, TA_LOG)
    assert device.first.guest.counters["jobs"] == 3 * LENET_JOBS
    assert device.first.guest.counters["carveout_bytes_left"] == 0
