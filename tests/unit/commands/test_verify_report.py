# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone verify attestation` says what an attestation does not tell of a trace with state."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from signing.attestation import may_keep_state
from signing.replay_log import head_hash
from tee_replayer.generator.device import Device
from tests.support.attestation_samples import NONCE, attest, claims_of
from tests.support.log_samples import KEYS, LoggingDevice
from tests.support.signing_samples import ES256
from tests.support.small_jobs import CLEAR, INPUT, OUTPUT, SCRATCH, UPLOAD, small
from trace_format.actions import Action, Op, action
from trace_format.trace import Trace

JOB = ("add", INPUT, SCRATCH, OUTPUT)


def trace(state: bool, *once: Action, retry_limit: int = 2) -> Trace:
    """Memory is filled before each replay, or only before the first."""
    fills = (UPLOAD, CLEAR)
    return small(
        JOB, first=() if state else fills, once=(*once, *(fills if state else ())), retry_limit=retry_limit
    )


@pytest.mark.parametrize("state", [False, True])
def test_a_trace_with_state_is_warned_of(state: bool, tmp_path: Path) -> None:
    data = trace(state).build()
    files = {
        "net.gtr": data,
        "a.cbor": attest(claims_of(LoggingDevice(), head_hash(data))),
        "pub.pem": KEYS.public.pem(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    words = [f"{tmp_path}/a.cbor", "--key", f"{tmp_path}/pub.pem", "--nonce", NONCE.hex()]
    found = CliRunner().invoke(main, ["verify", "attestation", *words, "--trace", f"{tmp_path}/net.gtr"])
    assert found.exit_code == 0, found.output
    warned = f"warning: {tmp_path}/net.gtr: this trace may have state" in found.stderr
    assert warned == state


def test_the_firmware_is_named_by_its_hash(tmp_path: Path) -> None:
    """By that of the file, which `audit-firmware` and `flash` print of the same bytes."""
    image = Device("qemu-virt", 1, 0, ES256.public).encoded
    files = {
        "a.cbor": attest(claims_of(LoggingDevice(), head_hash(trace(False).build()))),
        "pub.pem": KEYS.public.pem(),
        "firmware.bin": image,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    words = [f"{tmp_path}/a.cbor", "--key", f"{tmp_path}/pub.pem", "--nonce", NONCE.hex()]
    found = CliRunner().invoke(
        main, ["verify", "attestation", *words, "--firmware-image", f"{tmp_path}/firmware.bin"]
    )
    digest = hashlib.sha256(image).hexdigest()
    assert f"firmware image   {tmp_path}/firmware.bin: sha256 {digest}\n" in found.stdout


def test_constants_that_jobs_of_the_prologue_are_given_are_no_state() -> None:
    """Unless no retry is allowed: there may be both."""
    job = action(Op.JOB)
    assert may_keep_state(trace(True))
    assert not may_keep_state(trace(True, job, retry_limit=1))
    assert may_keep_state(trace(True, job, retry_limit=0))
