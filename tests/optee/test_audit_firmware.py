# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone audit-firmware` on OP-TEE's core: the pseudo-TA by its symbols, packed binaries by constants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import libraries
from host_tools.runners.optee import build as optee
from signing.sign import FileSigner
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of


@pytest.fixture
def key(signer: FileSigner, tmp_path: Path) -> Path:
    (tmp_path / "pub.pem").write_bytes(signer.public.pem())
    return tmp_path / "pub.pem"


def audited(file: Path, key: Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["audit-firmware", str(file), "--key", str(key), "--json"])
    assert done.exit_code == 0, done.output
    (only,) = json.loads(done.stdout)["firmware"]
    assert isinstance(only, dict)
    return only


def test_the_pseudo_ta(pta: Path, key: Path) -> None:
    found = audited(optee.core_of(pta) / optee.CORE_ELF, key)
    assert (found["platform"], found["findings"]) == ("optee", [])
    names = {row["name"].partition(".")[0] for row in found["functions"]}
    assert {"invoke_command", "gr_load", "write_register", "execute_range"} <= names
    (computed,) = (row for row in found["device_stores"] if not row["targets"])
    assert (computed["device"], computed["where"].partition(".")[0]) == ("gpu", "write_register")
    assert computed["guard"]["masked"]


def test_a_pseudo_ta_with_a_replay_log(logging_pta: Path, key: Path) -> None:
    found = audited(optee.core_of(logging_pta) / optee.CORE_ELF, key)
    assert (found["platform"], found["findings"]) == ("optee", [])
    names = {row["name"].partition(".")[0] for row in found["functions"]}
    assert {"log_open", "get_entries", "attest", "p256_mul"} <= names


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "evidence", [Evidence(log=True), Evidence(log=True, hashes=True), Evidence(log=True, attestation=True)]
)
def test_other_kinds_of_evidence(
    evidence: Evidence, pta: Path, signer: FileSigner, key: Path, tmp_path: Path
) -> None:
    """They compile, too."""
    folder = generate(
        Options("v3d42", platform_of("optee"), signer.public, libraries.source(), evidence=evidence),
        tmp_path / "pta",
    )
    assert audited(optee.core_of(folder) / optee.CORE_ELF, key)["findings"] == []


def test_a_packed_core(pta: Path, key: Path) -> None:
    found = audited(optee.core_of(pta) / "tee-pager_v2.bin", key)
    assert (found["kind"], found["platform"], found["findings"]) == ("raw", "optee", [])
    assert "GF502" in found["not_judged"]
