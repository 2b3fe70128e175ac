# SPDX-License-Identifier: BSD-2-Clause
"""The rollback store on Unicorn, over a model of QEMU's flash; what the runner and the generator refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import firmware, nor_flash
from host_tools.runners.replay import RunnerError
from host_tools.runners.unicorn import Machine
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.rollback_samples import boot, by_key, trace, under, with_store
from tests.support.trust_samples import policy

pytestmark = pytest.mark.usefixtures("checked_caches")

# The status register does not get a value that is waited for.
DIVERGES = (*s.PROLOGUE, s.REPLAY[0], s.read("core0.INT_STS", 0x5A), *s.REPLAY[1:])


@pytest.fixture(autouse=True)
def needs() -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")


def test_older_versions_after_a_reboot(tmp_path: Path) -> None:
    folder, flash = with_store(policy()), tmp_path / "device.flash"
    boots = [(1, 3, "OK"), (1, 2, "ROLLBACK"), (2, 3, "OK"), (1, 3, "TRUST_OLD"), (2, 3, "OK")]
    for policies, version, expected in boots:
        assert boot("unicorn", folder, policy(), flash, under(policies, version)).report.name == expected


def test_no_register_is_written_by_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMOPHONE_SANDBOX", "off")  # the machine is looked at
    machines: list[Machine] = []
    run = Machine.run

    def seen(machine: Machine) -> None:
        machines.append(machine)
        run(machine)

    monkeypatch.setattr(Machine, "run", seen)
    folder, flash = with_store(policy()), tmp_path / "device.flash"
    found = [boot("unicorn", folder, policy(), flash, under(*which)) for which in ((2, 3), (1, 3), (2, 2))]
    flash.write_bytes(bytes(nor_flash.FLASH_BYTES))
    found.append(boot("unicorn", folder, policy(), flash, under(2, 3)))
    assert [one.report.name for one in found] == ["OK", "TRUST_OLD", "ROLLBACK", "STORE"]
    assert [machine.gpu_writes > 0 for machine in machines] == [True, False, False, False]


def test_a_replay_that_fails_raises_nothing(tmp_path: Path) -> None:
    """It was verified and loaded: only its end counts."""
    folder, flash = with_store(s.KEY), tmp_path / "device.flash"
    diverges = s.signed(trace(9, "net", *DIVERGES))
    assert boot("unicorn", folder, s.KEY, flash, diverges).report.name == "DIVERGED"
    assert boot("unicorn", folder, s.KEY, flash, by_key(1)).ok
    assert boot("unicorn", folder, s.KEY, flash, by_key(9)).ok
    assert boot("unicorn", folder, s.KEY, flash, by_key(1)).report.name == "ROLLBACK"


def test_a_flash_of_another_size(tmp_path: Path) -> None:
    flash = tmp_path / "device.flash"
    flash.write_bytes(b"\xff" * 4096)
    with pytest.raises(RunnerError, match="expected 67108864 bytes, found 4096"):
        boot("unicorn", with_store(s.KEY), s.KEY, flash, by_key(1))


@pytest.mark.exhaustive
def test_audit_firmware_rebuilds_it(tmp_path: Path) -> None:
    path = tmp_path / "firmware.elf"
    path.write_bytes((with_store(s.KEY) / firmware.ELF).read_bytes())
    done = CliRunner().invoke(main, ["audit-firmware", str(path), "--rebuild", "--json"])
    (found,) = json.loads(done.stdout)["firmware"]
    assert found["findings"] == []


def test_the_models_commands() -> None:
    flash = nor_flash.NorFlash(b"\xff" * nor_flash.PLACE.bytes)
    for value in (0x00400040, 0x12345678):
        flash.write(8, value)
    assert flash.read(8) == 0x00800080
    flash.write(8, 0x00FF00FF)
    assert flash.read(8) == 0x12345678
    for value in (0x00400040, 0xF0F0F0F0, 0x00FF00FF):
        flash.write(8, value)
    assert flash.read(8) == 0x12345678 & 0xF0F0F0F0  # bits only become 0
    for value in (0x00200020, 0x00D000D0, 0x00500050, 0x00FF00FF):
        flash.write(nor_flash.SECTOR_BYTES, value)
    assert flash.read(8) == 0x12345678 & 0xF0F0F0F0  # of the other sector
    for wrong in (0x00000040, 0x00900090):
        with pytest.raises(RunnerError, match="command"):
            flash.write(0, wrong)
