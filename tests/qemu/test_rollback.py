# SPDX-License-Identifier: BSD-2-Clause
"""The rollback store in QEMU's NOR flash: versions outlive a reboot, in the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.machine.boot import QEMU
from host_tools.runners import nor_flash
from signing.trust import Anchor
from tests.support import replayer_samples as s
from tests.support import store_images as images
from tests.support.bare_metal import COMPILER, require
from tests.support.rollback_samples import boot, by_key, under, with_store
from tests.support.store_images import BANK, PAIRS, POLICY, TRACE, bank, pair
from tests.support.trust_samples import policy

LOAD = 1  # phase of a report


@pytest.fixture(autouse=True)
def needs() -> None:
    require(QEMU, "qemu-system-arm")
    require(COMPILER, "gcc-aarch64-linux-gnu")


def test_an_older_policy_and_an_older_trace_after_a_reboot(tmp_path: Path) -> None:
    folder, flash = with_store(policy()), tmp_path / "device.flash"

    def status(policies: int, version: int) -> str:
        return boot("qemu", folder, policy(), flash, under(policies, version)).report.name

    assert status(1, 0) == "OK"
    assert [status(1, 3), status(1, 2)] == ["OK", "ROLLBACK"]
    assert [status(2, 2), status(1, 3)] == ["ROLLBACK", "OK"]  # what is refused raises nothing
    assert [status(2, 3), status(1, 3)] == ["OK", "TRUST_OLD"]
    expected = {(BANK, ""): 1, (TRACE, "net"): 3, (POLICY, ""): 2}
    assert images.versions(nor_flash.read(flash)[: images.BANK_BYTES]) == expected


@pytest.mark.parametrize("mmu", [False, True])
def test_with_one_key_the_versions_of_traces_are_kept(mmu: bool, tmp_path: Path) -> None:
    key: Anchor = s.KEY
    folder, flash = with_store(key, mmu=mmu), tmp_path / "device.flash"
    found = [boot("qemu", folder, key, flash, by_key(version)).report.name for version in (5, 4, 5, 6, 5)]
    assert found == ["OK", "ROLLBACK", "OK", "OK", "ROLLBACK"]


def test_a_full_bank(tmp_path: Path) -> None:
    """QEMU's flash is erased by the firmware's driver, and the other sector goes on."""
    folder, flash = with_store(policy()), nor_flash.prepared(tmp_path / "device.flash")
    pairs = (pair(TRACE, number, f"net-{number % 5}") for number in range(1, PAIRS))
    with flash.open("r+b") as file:
        file.write(bank(pair(BANK, 1), *pairs))
    assert boot("qemu", folder, policy(), flash, under(2, 7)).ok
    sectors = nor_flash.read(flash)
    first, second = sectors[: images.BANK_BYTES], sectors[nor_flash.SECTOR_BYTES :][: images.BANK_BYTES]
    kept = {(TRACE, f"net-{number % 5}"): number for number in range(PAIRS - 5, PAIRS)}
    assert set(first) == {0xFF}
    assert images.versions(second) == {(BANK, ""): 2, (TRACE, "net"): 7, (POLICY, ""): 2, **kept}
    assert boot("qemu", folder, policy(), flash, under(2, 6)).report.name == "ROLLBACK"


def test_damaged_flash_is_refused(tmp_path: Path) -> None:
    folder, flash = with_store(policy()), tmp_path / "device.flash"
    assert boot("qemu", folder, policy(), flash, under(1, 1)).ok
    data = bytearray(nor_flash.read(flash))
    data[2 * images.RECORD : 4 * images.RECORD] = bytes(2 * images.RECORD)
    with flash.open("r+b") as file:
        file.write(data)
    refused = boot("qemu", folder, policy(), flash, under(1, 1))
    assert (refused.report.name, refused.report.phase, refused.report.actions) == ("STORE", LOAD, 0)
    assert nor_flash.read(flash) == data
