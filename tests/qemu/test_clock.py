# SPDX-License-Identifier: BSD-2-Clause
"""Firmware that asks the emulated board's clock whether its trust policy holds: QEMU's PL031, and on Unicorn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.machine.boot import QEMU
from host_tools.runners import firmware, libraries
from signing.delivery import Delivery
from signing.trust import Policy
from signing.trust_verdict import Judge
from signing.verify import verify_by
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.trust_samples import policy, signed_policy

FROM, TO = 1_800_000_000, 1_900_000_000  # 2027 and 2030
LIMITED = policy(not_before=FROM, not_after=TO)
NEWER = replace(LIMITED, version=2, not_after=TO + 1_000_000)
CASES = {  # what time it is, newer versions in front of the trace -> status
    "in between": ((FROM + TO) // 2, (), "OK"),
    "the first second": (FROM, (), "OK"),
    "not yet valid": (FROM - 60, (), "TRUST_TIME"),
    "expired": (TO + 60, (), "TRUST_TIME"),
    "expired, and a newer one that is not": (TO + 60, (NEWER,), "OK"),
    "both expired": (TO + 2_000_000, (NEWER,), "TRUST_TIME"),
    "the clock is not set": (0, (), "TRUST_TIME"),
}


def firmware_with_clock(root: Policy) -> Path:
    require(COMPILER, "gcc-aarch64-linux-gnu")

    def write(folder: Path) -> None:
        generate(Options("v3d42", platform_of("qemu-virt"), root, libraries.source(), clock=True), folder)

    return firmware.compiled_once(write)


def signed(*links: Policy) -> bytes:
    trace = s.trace(meta={"name": "net"}).build()
    return t.join(trace, t.signatures(trace), [signed_policy(link) for link in links])


@pytest.mark.parametrize("on", ["unicorn", "qemu"])
@pytest.mark.parametrize("name", CASES)
def test_firmware_and_host_agree(on: str, name: str) -> None:
    require(QEMU, "qemu-system-arm")
    now, links, expected = CASES[name]
    data = signed(*links)
    folder = firmware_with_clock(LIMITED)
    found = runners.run(on, Delivery(data), LIMITED, gpu="v3d42", firmware=folder, clock=now)
    assert found.report.name == expected
    assert found.report.actions == 0 or found.ok
    judged = verify_by(Delivery(data), LIMITED, Judge("qemu-virt", now=now or 2**64 - 1))
    assert judged.ok == found.ok
    if not found.ok:
        assert "does not hold at this time" in judged.reason
        assert "does not hold at this time" in found.error


def test_a_policy_without_limits_needs_no_time() -> None:
    require(QEMU, "qemu-system-arm")
    folder = firmware_with_clock(policy())
    assert runners.run("qemu", Delivery(signed()), policy(), gpu="v3d42", firmware=folder, clock=0).ok


@pytest.mark.exhaustive
def test_audit_firmware_rebuilds_it(tmp_path: Path) -> None:
    path = tmp_path / "firmware.elf"
    path.write_bytes((firmware_with_clock(policy()) / firmware.ELF).read_bytes())
    done = CliRunner().invoke(main, ["audit-firmware", str(path), "--rebuild", "--json"])
    (found,) = json.loads(done.stdout)["firmware"]
    assert found["findings"] == []
