# SPDX-License-Identifier: BSD-2-Clause
"""Log and attestation of firmware with a trust policy: they name the policy under which a trace was accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import Evidence as Said
from signing.attestation import Expected, check_attestation, read_attestation
from signing.delivery import Delivery
from signing.log_checks import Fault, check_log
from signing.replay_log import read_log
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.log_samples import KEYS, SECRET
from tests.support.trust_samples import ROOTS, policy, signed_policy
from trace_format.schema.log import LogKind

NONCE = bytes(range(20))
NEWER = replace(policy(), version=2)


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, id="", marks=pytest.mark.exhaustive), pytest.param(True, id="hashes")],
)
def folder(request: pytest.FixtureRequest) -> Path:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    evidence = Evidence(log=True, hashes=request.param, attestation=True)

    def write(out: Path) -> None:
        generate(Options("v3d42", platform_of("qemu-virt"), policy(), libraries.source(), evidence=evidence), out)

    return firmware.compiled_once(write)


@pytest.fixture
def boot(folder: Path, tmp_path: Path) -> Callable[[bytes], Said]:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "device.secret").write_bytes(SECRET)

    def run(data: bytes) -> Said:
        options: dict[str, Any] = {"gpu": "v3d42", "firmware": folder, "store": tmp_path / "store", "nonce": NONCE}
        return runners.run("unicorn", Delivery(data), policy(), **options).evidence

    return run


def signed(version: int, signers: int = 2) -> bytes:
    trace = s.trace(meta={"name": "net"}).build()
    links = [signed_policy(NEWER)] if version == 2 else []
    return t.join(trace, t.signatures(trace, t.TRACERS[:signers]), links)


def test_both_name_the_policy(boot: Callable[[bytes], Said]) -> None:
    log = b""
    for accepted in (policy(), NEWER):
        said = boot(signed(accepted.version))
        log += said.entries
        load = next(entry for entry in read_log(said.entries) if entry.kind is LogKind.LOAD)
        assert (load.trust_policy, load.trust_version) == (accepted.hash, accepted.version)
        report = read_attestation(said.attestation)
        assert report.claims["trust_policy"] == accepted.hash
        assert report.claims["trust_version"] == accepted.version
        for asked, fault in ((accepted, []), (policy(name="other"), ["other-trust-policy"])):
            expected = Expected(NONCE, trust_policy=asked.hash)
            assert [name for name, _ in check_attestation(report, KEYS.public, expected)] == fault
    good = check_log(read_log(log), key=KEYS.log, policies=[policy().hash, NEWER.hash])
    assert good.findings == ()
    (finding,) = check_log(read_log(log), key=KEYS.log, policies=[NEWER.hash]).findings
    assert (finding.fault, finding.position) == (Fault.OTHER_POLICY, 1)
    assert policy().kid.hex() in finding.text


def test_what_was_refused_names_none(boot: Callable[[bytes], Said]) -> None:
    said = boot(signed(1, signers=1))
    entries = read_log(said.entries)
    assert [entry.kind for entry in entries] == [LogKind.BOOT, LogKind.REFUSAL]
    assert all(not entry.trust_policy and not any(entry.values["inputs"]) for entry in entries)
    claims = read_attestation(said.attestation).claims
    assert (claims["trust_policy"], claims["trust_version"]) == (bytes(32), 0)


def test_by_the_command_line(boot: Callable[[bytes], Said], tmp_path: Path) -> None:
    said = boot(signed(2))
    (tmp_path / "replay.log").write_bytes(said.entries)
    (tmp_path / "report.cbor").write_bytes(said.attestation)
    (tmp_path / "device.pub.pem").write_bytes(KEYS.public.pem())
    first, second = signed_policy(policy()), signed_policy(NEWER, ROOTS[:2])
    (tmp_path / "fleet.gtp").write_bytes(t.chain(first, second).encode())
    (tmp_path / "old.gtp").write_bytes(t.chain(first).encode())

    def command(*words: str | Path) -> tuple[int, dict[str, Any], str]:
        plain = CliRunner().invoke(main, list(map(str, words)))
        done = CliRunner().invoke(main, [*map(str, words), "--json"])
        assert plain.exit_code == done.exit_code, plain.output
        return done.exit_code, json.loads(done.stdout), plain.stdout

    asked = ("--nonce", NONCE.hex(), "--key", tmp_path / "device.pub.pem")
    log = ("verify", "log", tmp_path / "replay.log", "--attestation", tmp_path / "report.cbor", *asked)
    status, found, text = command(*log, "--trust-policy", tmp_path / "fleet.gtp")
    assert (status, found["entries"][1]["trust_policy"], found["entries"][1]["trust_version"]) == (
        0,
        NEWER.hash.hex(),
        2,
    )
    assert f"accepted under trust policy {NEWER.kid.hex()}, version 2" in text
    status, found, text = command(*log, "--trust-policy", tmp_path / "old.gtp")
    assert (status, [row["fault"] for row in found["findings"]]) == (1, ["other-policy"])

    report = ("verify", "attestation", tmp_path / "report.cbor", *asked)
    status, found, text = command(*report, "--trust-policy", tmp_path / "fleet.gtp")
    assert (status, found["claims"]["trust_version"]) == (0, 2)
    assert text.endswith("verified: key, nonce, trust policy\n")
    status, found, text = command(*report, "--trust-policy", tmp_path / "old.gtp")
    assert (status, [row["fault"] for row in found["findings"]]) == (1, ["other-trust-policy"])
    assert f"the trust policy is {NEWER.kid.hex()}, version 2, not {policy().kid.hex()}" in text
