# SPDX-License-Identifier: BSD-2-Clause
"""`audit-firmware` and `inspect` of a firmware with a trust policy: both of its copies count, and no other one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import firmware
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.trust_samples import policy
from trace_format.schema.trust import TRUST_MAGIC


@pytest.fixture(scope="module")
def elf() -> bytes:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return (firmware.build(policy(), "v3d42").folder / firmware.ELF).read_bytes()


def audited(data: bytes, tmp_path: Path, *options: str) -> dict[str, Any]:
    path = tmp_path / "firmware.elf"
    path.write_bytes(data)
    (tmp_path / "fleet.gtp").write_bytes(t.signed_policy(policy()).encode())
    (tmp_path / "other.gtp").write_bytes(t.signed_policy(policy(name="other")).encode())
    done = CliRunner().invoke(main, ["audit-firmware", str(path), "--json", *options])
    (found,) = json.loads(done.stdout)["firmware"]
    assert isinstance(found, dict)
    return found


def rules(found: dict[str, Any]) -> set[str]:
    return {row["rule"] for row in found["findings"]}


@pytest.mark.exhaustive  # of a key, tests/emulated/test_audit_firmware.py
def test_the_policy_is_what_it_trusts(elf: bytes, tmp_path: Path) -> None:
    found = audited(elf, tmp_path, "--key", str(tmp_path / "fleet.gtp"))
    assert found["key_id"] == policy().kid.hex()
    assert rules(found) == set()
    assert rules(audited(elf, tmp_path, "--key", str(tmp_path / "other.gtp"))) == {"GF602"}


@pytest.mark.parametrize("copy", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_a_copy_that_was_exchanged(copy: int, elf: bytes, tmp_path: Path) -> None:
    """For a policy that lets one key of three sign: one judgement would be another's."""
    at = elf.index(TRUST_MAGIC)
    if copy:
        at = elf.index(TRUST_MAGIC, at + 1)
    weaker = t.policy(t.rule(threshold=1)).raw
    assert len(weaker) == len(policy().raw)
    assert rules(audited(elf[:at] + weaker + elf[at + len(weaker) :], tmp_path)) >= {"GF608"}
