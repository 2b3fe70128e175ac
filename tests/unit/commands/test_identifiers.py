# SPDX-License-Identifier: BSD-2-Clause
"""Every identifier that people are shown follows from what was verified, or is called a claim.

A trust policy's key ids are in test_policy.py, those of a firmware's key in tests/unit/generator/test_device.py.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from signing import device_keys
from signing.encryption import recipients
from signing.key_files import load_public_key
from signing.replay_log import head_hash
from signing.sign import signature_of
from tee_replayer.generator.device import Device
from tests.support.attestation_samples import NONCE, attest, claims_of
from tests.support.hostile_ids import flipped
from tests.support.log_samples import FIRMWARE, KEYS, LoggingDevice
from tests.support.signing_commands import enter, run, run_json
from tests.support.signing_samples import ES256, small_trace
from trace_format.schema.log import LogKind
from trace_format.trace import Trace

LIE = b"another trace's!"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    for name in ("me", "eve"):
        run("key", "new", "-o", f"{name}.pem")
        run("key", "public", f"{name}.pem", "-o", f"{name}.pub.pem")


def lying() -> bytes:
    """A trace whose manifest has another trace's id."""
    data = small_trace()
    return data.replace(Trace.parse(data).trace_id, LIE, 1)  # the manifest precedes the chunk hashes


@pytest.mark.parametrize(
    "line",
    [
        "inspect lie.gtr",
        "dump lie.sgtr",
        "report lie.sgtr --no-run -o r.html",
        "publish sbom lie.gtr -o b.json",
        "sign lie.gtr --signing-key key.pem -o x",
    ],
)
def test_a_trace_with_another_ones_id_is_refused(line: str) -> None:
    """Its id is computed from its actions and image; who signs it does not matter."""
    data = lying()
    Path("lie.gtr").write_bytes(data)
    Path("lie.sgtr").write_bytes(signature_of(memoryview(data), ES256) + data)
    assert f"trace_id: expected {Trace.parse(small_trace()).trace_id.hex()}" in run(*line.split(), status=2).stderr


def test_a_log_and_an_attestation_name_a_trace_by_its_head() -> None:
    """The device hashed the head; the id in it is what the trace's signers wrote."""
    device, head = LoggingDevice(), hashlib.sha256(b"a head").digest()
    device.start()
    device.write(LogKind.LOAD, head, trace_id=LIE)
    device.write(LogKind.REPLAY, head, trace_id=LIE, phase=3)
    claims = claims_of(device, head, trace_id=LIE)
    Path("a.log").write_bytes(device.data)
    Path("log.key").write_bytes(KEYS.log)
    Path("a.cbor").write_bytes(attest(claims))
    Path("device.pub.pem").write_bytes(KEYS.public.pem())
    shown = run("verify", "log", "a.log", "--log-key", "log.key").stdout
    assert f"  trace with head {head.hex()}: 1 loaded, 1 replayed\n" in shown
    assert LIE.hex() not in shown
    claim = f"(its signers call it {LIE.hex()})"
    other = run("verify", "log", "a.log", "--log-key", "log.key", "--trace", "net.gtr", status=1).stdout
    words = [
        "verify",
        "attestation",
        "a.cbor",
        "--key",
        "device.pub.pem",
        "--nonce",
        NONCE.hex(),
        "--trace",
        "net.gtr",
    ]
    for text in (other, run(*words, status=1).stdout):
        assert f"the head {head.hex()}" in text
        assert claim in text


def test_a_devices_id_is_that_of_the_key_that_signs() -> None:
    head = head_hash(small_trace())
    eve = load_public_key(Path("eve.pub.pem").read_bytes()).kid
    Path("a.cbor").write_bytes(attest(claims_of(LoggingDevice(), head, ueid=b"\1" + eve)))
    Path("device.pub.pem").write_bytes(KEYS.public.pem())
    found = run(
        "verify", "attestation", "a.cbor", "--key", "device.pub.pem", "--nonce", NONCE.hex(), status=1
    ).stdout
    assert f"other-device: the device's id is 01{eve.hex()}, which is not that of its key" in found


def test_a_firmwares_hash_is_that_of_the_image() -> None:
    """An attestation of another one is refused, whatever else it says."""
    head = head_hash(small_trace())
    Path("a.cbor").write_bytes(attest(claims_of(LoggingDevice(), head)))
    Path("device.pub.pem").write_bytes(KEYS.public.pem())
    image = Device("qemu-virt", 1, 0, ES256.public).encoded
    Path("firmware.bin").write_bytes(image)
    words = ["a.cbor", "--key", "device.pub.pem", "--nonce", NONCE.hex(), "--firmware-image", "firmware.bin"]
    found = run_json("verify", "attestation", *words, status=1)
    own = hashlib.sha256(image).hexdigest()
    assert found["firmware_image"]["sha256"] == own
    assert f"the firmware is {FIRMWARE.hex()}, not {own}" in [one["text"] for one in found["findings"]]


def test_keys_of_a_device_are_named_by_what_its_secret_gives() -> None:
    """The log key has no id: entries of another one are refused."""
    shown = run("enrol", "-o", "device").stdout
    derived = device_keys.derive(Path("device/device.secret").read_bytes())
    assert Path("device/log.key").read_bytes() == derived.log
    for name in ("device", "device.encryption"):
        kid = load_public_key(Path(f"device/{name}.pub.pem").read_bytes()).kid.hex()
        assert kid in shown
        assert kid == run_json("key", "show", f"device/{name}.pub.pem")["key_id"]
    device = LoggingDevice()
    device.session()
    Path("a.log").write_bytes(device.data)
    assert "REFUSED" in run("verify", "log", "a.log", "--log-key", "device/log.key", status=1).stdout


def test_recipients_are_claims_until_their_key_opens_it() -> None:
    """A row can have Bob's id and be for Eve; nobody but Bob can find out."""
    run("encrypt", "net.gtr", "--for", "me.pub.pem", "--for", "eve.pub.pem", "-o", "closed.gtr")
    me, eve = (load_public_key(Path(f"{name}.pub.pem").read_bytes()).kid for name in ("me", "eve"))
    bob = flipped(eve, 15)
    data = Path("closed.gtr").read_bytes()
    assert data.count(eve) == 1
    Path("closed.gtr").write_bytes(data.replace(eve, bob))
    assert sorted(recipients(Path("closed.gtr").read_bytes())) == sorted([me, bob])
    assert "claims to be encrypted for" in run("inspect", "closed.gtr").stdout
    line = ["sign", "closed.gtr", "--signing-key", "key.pem", "--decrypt-with", "me.pem", "-o", "x"]
    shown = run(*line).stdout
    assert f"\nencrypted for {me.hex()}\n" in shown
    assert f"\nclaims to be encrypted for {bob.hex()}: only that key can prove it\n" in shown
    found = run_json(*line)
    assert sorted(found["recipients"]) == sorted([me.hex(), bob.hex()])
    assert found["proven_recipients"] == [me.hex()]
    assert run("decrypt", "closed.gtr", "--decrypt-with", "eve.pem", "-o", "y", status=2)
    both = ["--encrypt-for", "me.pub.pem", "--encrypt-for", "eve.pub.pem", "-o", "z"]
    assert len(run_json("sign", "net.gtr", "--signing-key", "key.pem", *both)["proven_recipients"]) == 2
