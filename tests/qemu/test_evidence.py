# SPDX-License-Identifier: BSD-2-Clause
"""A device with a replay log, by the command line: LeNet, a boot on Unicorn and one in QEMU, and every attack."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from click.testing import CliRunner
from pycose.keys import EC2Key
from pycose.messages import Sign1Message

from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.runners import firmware
from host_tools.vgpu import build as vgpu_build
from signing import key_files
from signing.replay_log import ENTRY_BYTES
from tests.support import device_files
from tests.support.log_attacks import ORDERS, Entries, entries_of
from tests.support.log_samples import SECRET
from tests.support.signing_samples import ES256

NONCE = bytes(range(32)).hex()
OTHER_NONCE = bytes(32).hex()


def command(*words: str | Path, status: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that owner, device and verifier have after two boots: see the names below."""
    if shutil.which(vgpu_build.QEMU) is None:
        pytest.skip(f"{vgpu_build.QEMU} is missing: apt-get install qemu-system-arm")
    at = tmp_path_factory.mktemp("device")
    (at / "secret").write_bytes(SECRET)
    (at / "key.pem").write_bytes(key_files.private_pem(ES256.key))
    (at / "pub.pem").write_bytes(ES256.public.pem())
    np.save(at / "digit.npy", load_digits().inputs()[0])
    np.save(at / "other.npy", load_digits().inputs()[1])
    command("build", RAW, "-o", at / "net.gtr")
    command("build", RAW, "-o", at / "newer.gtr", "--security-version", "2", "--name", "newer")
    for name in ("net", "newer"):
        command("sign", at / f"{name}.gtr", "--signing-key", at / "key.pem", "-o", at / f"{name}.sgtr")
    found = command("generate", device_files.written(at, profile="logged"), "-o", at / "out")
    assert "protects neither the device's secret" in found["warnings"][0]
    firmware.compile_firmware(at / "out")
    command("enrol", "--secret", at / "secret", "-o", at / "store")
    common = ("--key", at / "pub.pem", "--firmware", at / "out", "--store", at / "store")
    log = ("--entries", at / "replay.log", "--input", f"data={at / 'digit.npy'}")
    first = command("replay", at / "net.sgtr", *common, "--on", "unicorn", *log, "--repeat", "2")
    assert (first["log_bytes"], first["attestation_bytes"]) == (4 * ENTRY_BYTES, 0)
    asked = ("--nonce", NONCE, "--attestation", at / "report.cbor", "-o", f"prob={at / 'prob.npy'}")
    second = command("replay", at / "net.sgtr", *common, "--on", "qemu", *log, *asked)
    assert second["log_bytes"] == 3 * ENTRY_BYTES
    assert second["attestation_bytes"] == (at / "report.cbor").stat().st_size
    return at


@pytest.fixture
def verify_log(device: Path) -> Callable[..., list[str]]:
    """The faults that verify-log finds in these entries of the device's log."""

    def run(
        done: Callable[[Entries], Entries] | None = None, change: int | None = None, by: str = "tail"
    ) -> list[str]:
        data = bytearray((device / "replay.log").read_bytes())
        if change is not None:
            data[change] ^= 1
        entries = entries_of(bytes(data))
        (device / "changed.log").write_bytes(b"".join(done(entries) if done else entries))
        proofs: dict[str, tuple[str | Path, ...]] = {
            "tail": ("--log-key", device / "store/log.key", "--tail", device / "store/device.tail"),
            "report": (
                *("--attestation", device / "report.cbor", "--nonce", NONCE),
                *("--key", device / "store/device.pub.pem"),
            ),
        }
        words = ("verify", "log", device / "changed.log", *proofs[by], "--trace", device / "net.sgtr")
        is_whole = done is None and change is None
        found = command(*words, status=0 if is_whole else 1)
        assert found["ok"] == is_whole
        return [finding["fault"] for finding in found["findings"]]

    return run


@pytest.mark.parametrize("by", ["tail", "report"])
def test_the_log_of_two_boots_is_good(verify_log: Callable[..., list[str]], by: str) -> None:
    assert verify_log(by=by) == []


@pytest.mark.parametrize("name", ORDERS)
def test_an_attacked_log_is_caught(verify_log: Callable[..., list[str]], name: str) -> None:
    done, fault = ORDERS[name]
    assert verify_log(done) == [fault]
    assert fault in verify_log(done, by="report")


@pytest.mark.parametrize("position", [0, 3, 6])
def test_an_altered_log_is_caught(verify_log: Callable[..., list[str]], position: int) -> None:
    assert verify_log(change=position * ENTRY_BYTES + 28) == ["altered"]
    assert "altered" in verify_log(change=position * ENTRY_BYTES + 28, by="report")


def test_a_log_about_another_trace(device: Path) -> None:
    words = ("verify", "log", device / "replay.log", "--log-key", device / "store/log.key")
    found = command(*words, "--trace", device / "newer.sgtr", status=1)
    assert [finding["fault"] for finding in found["findings"]] == ["unknown-trace"]
    assert len(found["warnings"]) == 1, "nobody can tell whether the last entries are missing"


def report(device: Path, status: int, **changes: str | Path) -> list[str]:
    """The faults that verify-report finds."""
    options: dict[str, str | Path] = {
        "key": device / "store/device.pub.pem",
        "nonce": NONCE,
        "firmware-image": device / "out/firmware.bin",
        "trace": device / "net.sgtr",
        "input": f"data={device / 'digit.npy'}",
        "expect": f"prob={device / 'prob.npy'}",
        **changes,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    found = command("verify", "attestation", device / "report.cbor", *words, status=status)
    return [finding["fault"] for finding in found["findings"]]


def test_the_attestation_is_good(device: Path) -> None:
    assert report(device, 0) == []


def test_an_attestation_of_something_else_is_refused(device: Path, tmp_path: Path) -> None:
    image = bytearray((device / "out/firmware.bin").read_bytes())
    image[0x1000] ^= 1
    (tmp_path / "other.bin").write_bytes(image)
    np.save(tmp_path / "prob.npy", np.load(device / "prob.npy")[::-1])
    (tmp_path / "pub.pem").write_bytes((device / "pub.pem").read_bytes())
    assert report(device, 1, nonce=OTHER_NONCE) == ["other-nonce"]
    assert report(device, 1, trace=device / "newer.sgtr") == ["other-trace"]
    assert report(device, 1, **{"firmware-image": tmp_path / "other.bin"}) == ["other-firmware"]
    assert report(device, 1, input=f"data={device / 'other.npy'}") == ["other-inputs"]
    assert report(device, 1, expect=f"prob={tmp_path / 'prob.npy'}") == ["other-outputs"]
    assert report(device, 1, key=tmp_path / "pub.pem") == ["other-device"]


def test_pycose_verifies_what_the_device_signed(device: Path) -> None:
    public = key_files.load_public_key((device / "store/device.pub.pem").read_bytes()).raw
    message = Sign1Message.decode((device / "report.cbor").read_bytes())
    message.key = EC2Key(crv="P_256", x=public[1:33], y=public[33:])
    assert message.verify_signature()
    assert message.payload is not None
    assert cbor2.loads(message.payload)[10].hex() == NONCE


def test_options_that_do_not_fit(device: Path, tmp_path: Path) -> None:
    common = ("replay", device / "net.sgtr", "--key", device / "pub.pem")
    fw, store = ("--firmware", device / "out"), ("--store", device / "store")
    entries, asked = ("--entries", tmp_path / "log"), ("--nonce", NONCE, "--attestation", tmp_path / "a")
    for words, sentence in (
        ((*entries, "--on", "qemu", *fw), "--entries requires --store"),
        ((*store, *asked, "--on", "qemu", *fw), "--nonce requires --entries"),
        ((*store, *entries), "--store cannot be used with --on vgpu"),
        ((*store, *entries, "--on", "qemu"), "--store needs --firmware"),
        (("--nonce", NONCE), "--nonce requires --attestation"),
        (asked, "--nonce requires --store"),
        (
            ("--store", tmp_path / "none", *entries, "--on", "qemu", *fw),
            "expected a folder that 'gramophone enrol'",
        ),
        ((*store, "--entries", tmp_path / "no/log", "--on", "qemu", *fw), f"{tmp_path}/no/log"),
        (("--nonce", "00ff", "--attestation", tmp_path / "a"), "expected 8 to 64 bytes in hexadecimal"),
    ):
        assert sentence in command(*common, *words, status=2)["error"]
    assert not (tmp_path / "log").exists()
