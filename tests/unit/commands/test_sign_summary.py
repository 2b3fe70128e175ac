# SPDX-License-Identifier: BSD-2-Clause
"""What `sign` and `verify` say of what a trace does, and what they refuse because every device does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signing import key_files
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PROLOGUE, REPLAY, trace
from tests.support.signing_commands import run
from trace_format.actions import Op, action
from trace_format.schema import SectionType, SlotKind


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("key.pem", key_files.private_pem(s.ES256.key))
    write("pub.pem", s.KEY.pem())
    return tmp_path


def write(name: str, data: bytes) -> None:
    Path(name).write_bytes(data)


def run_json(*arguments: str, status: int = 0) -> dict[str, Any]:
    found = json.loads(run(*arguments, "--json", status=status).stdout)
    assert isinstance(found, dict)
    return found


def test_what_is_signed_is_said() -> None:
    """In words and for programs; a device with one key verifies no EdDSA."""
    write("net.gtr", trace(meta={"name": "a\x1bb", "security_version": 7}).build())
    text = run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr").stdout
    expected = [
        "name             a\\x1bb",
        "gpu              v3d42",
        "security version 7",
        "jobs             1, in 9 actions",
        "writes           hub.MMU_CTL, core0.INT_CLR",
        "memory           65536 bytes, GPU addresses below 0x20000",
        "time budget      60 s, 2 retries",
        "slot             input in float32[2, 3] at 0x00011000, bound",
        "slot             output out float32[2, 3] at 0x00011000",
    ]
    assert text.splitlines()[1:] == expected
    assert run("verify", "trace", "net.sgtr", "--key", "pub.pem").stdout.splitlines()[1:] == expected
    facts = run_json("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")["summary"]
    assert facts["registers_written"] == ["hub.MMU_CTL", "core0.INT_CLR"]
    assert (facts["name"], facts["security_version"], facts["time_budget_us"]) == ("a\x1bb", 7, 60_000_000)
    run("key", "new", "-o", "ed.pem", "--algorithm", "eddsa")
    assert (
        "devices with one key verify ES256 only"
        in run("sign", "net.gtr", "--signing-key", "ed.pem", "-o", "ed.sgtr").stderr
    )


def test_what_is_hardly_meant_is_said() -> None:
    """A version that burns rollback counters, and minutes of pauses: signed, and named."""
    usual = {"name": "a", "time_budget_us": 600_000_000}
    write("net.gtr", trace(meta=usual).build())
    assert run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr").stderr == ""
    pause = action(Op.INTERVAL, us=599_000_000)
    write("net.gtr", trace(*PROLOGUE, *REPLAY, pause, meta=usual | {"security_version": 2**32 - 1}).build())
    found = run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr").stderr.splitlines()
    assert [line.rpartition(" ")[2] for line in found] == ["[GR504]", "[GR006]"]
    assert found[0].startswith("warning: net.gtr: pauses add up to 599 s, with 2 retries to 1797 s; ")
    assert found[1].startswith("warning: net.gtr: security version 4294967295, above 65535: ")


def with_weights(*bound: bool) -> bytes:
    """A signed trace with a parameter for each."""
    meta = {"name": "a"}
    given = trace(meta=meta)
    slots = [
        replace(given.slots[0], name=f"w{index}", kind=SlotKind.PARAMETER, bound=one)
        for index, one in enumerate(bound)
    ]
    return given.with_(slots=[*given.slots, *slots]).build()


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ((False,), "the values of a parameter, which callers give: w0"),
        ((True, True), "the values of 2 parameters, which callers may replace: w0, w1"),
        (
            (True, False, True, True, False),
            "the values of 5 parameters, which callers give or may replace: w0, w1, w2",
        ),
    ],
)
def test_weights_that_callers_give_are_said(bound: tuple[bool, ...], words: str) -> None:
    """Whoever signs and whoever verifies sees it, at the top."""
    write("net.gtr", with_weights(*bound))
    found = run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    assert f"the signature does not cover {words}" in found.stderr
    assert "[GR408]" in found.stderr
    assert f"not signed       {words}" in found.stdout
    found = run("verify", "trace", "net.sgtr", "--key", "pub.pem")
    assert found.stdout.splitlines()[0].endswith(", but not its weights")
    assert f"warning: net.sgtr: the signature does not cover {words}" in found.stderr
    facts = run_json("verify", "trace", "net.sgtr", "--key", "pub.pem")
    assert facts["summary"]["unsigned_parameters"] == len(bound)
    assert facts["warnings"]


REFUSED = "the register policy does not allow this access, action 9: RegWrite hub.MMU_PT_PA_BASE"


def test_what_every_device_refuses_is_not_signed() -> None:
    bad = trace(*PROLOGUE, *REPLAY, s.write("hub.MMU_PT_PA_BASE", 0))
    write("bad.gtr", bad.build())
    found = run("sign", "bad.gtr", "--signing-key", "key.pem", "-o", "bad.sgtr", status=2)
    assert found.stderr.startswith(f"error: bad.gtr: {REFUSED}: expected a register that a trace may write")
    assert not Path("bad.sgtr").exists()
    device = s.Device()
    with pytest.raises(ReplayError, match=f"^{re.escape(REFUSED)}$"):
        device.replayer.load(s.signed(bad), s.KEY)


def test_a_raw_recording_that_devices_refuse_is_to_be_built() -> None:
    bad = trace(*PROLOGUE, *REPLAY, s.write("hub.MMU_PT_PA_BASE", 0), raw=True)
    write("raw.gtr", bad.build())
    found = run("sign", "raw.gtr", "--signing-key", "key.pem", "-o", "raw.sgtr", status=2)
    assert "every device refuses it, so it is not signed; 'gramophone build' makes a trace" in found.stderr


def test_verify_refuses_what_every_device_refuses() -> None:
    """Whoever holds the key signed it with another program."""
    bad = trace(*PROLOGUE, *REPLAY, s.write("hub.MMU_PT_PA_BASE", 0))
    write("bad.sgtr", s.signed(bad))
    found = run("verify", "trace", "bad.sgtr", "--key", "pub.pem", status=1)
    assert found.stdout.startswith(f"REFUSED: bad.sgtr: {REFUSED}: expected")
    assert run_json("verify", "trace", "bad.sgtr", "--key", "pub.pem", status=1)["verdict"] == "refused-by-devices"


def test_a_malformed_trace_with_a_good_signature_is_refused_at_its_place_in_the_file() -> None:
    parts = s.Parts.of()
    at = parts.section(SectionType.SLOTS)[1]
    write("bad.sgtr", parts.slot(0, "flags", 0x80).signed())
    found = run("verify", "trace", "bad.sgtr", "--key", "pub.pem", status=1)
    data = Path("bad.sgtr").read_bytes()
    where = at + len(data) - len(parts.data)
    assert found.stdout.startswith(f"REFUSED: bad.sgtr at offset {where:#x}: reserved slot flags"), found.stdout


def test_a_trace_of_another_policy_is_verified_and_not_judged() -> None:
    parts = s.Parts.of().manifest("profile_id", 5)
    write("old.sgtr", parts.signed())
    found = run("verify", "trace", "old.sgtr", "--key", "pub.pem")
    assert found.stdout.startswith("verified: old.sgtr: ")
    assert "warning: what it does was not judged: old.sgtr: made for another register policy" in found.stderr
