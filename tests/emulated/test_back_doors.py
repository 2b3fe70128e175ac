# SPDX-License-Identifier: BSD-2-Clause
"""Back doors in generated C: what `gramophone audit-firmware` finds in the image alone, and what it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.audit_firmware import target
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.image import Image, of_elf
from host_tools.audit_firmware.judge import findings
from host_tools.audit_firmware.rebuild import compare
from host_tools.audit_firmware.rules import UNKNOWN
from host_tools.cli import main
from host_tools.runners import firmware
from host_tools.runners.firmware import BINARY, ELF
from tee_replayer.generator.evidence import Evidence
from tests.support import replayer_samples as s
from tests.support.back_doors import FOUND, IN_LOG, LEAKS, NOT_FOUND, WITH_MMU
from tests.support.firmware_samples import GCC, kept
from tests.support.planted import Defect, plant


@pytest.fixture(scope="module")
def good() -> Path:
    """A firmware with its objects, for the emulated board."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY).folder


@pytest.fixture(scope="module")
def with_mmu() -> Path:
    """One whose EL3 has an MMU."""
    return kept("v3d42", mmu=True)


def image(folder: Path) -> Image:
    return of_elf(str(folder / ELF), (folder / ELF).read_bytes())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FOUND)
def test_what_the_image_shows(name: str, good: Path, with_mmu: Path, tmp_path: Path) -> None:
    """By the rule that it breaks; nothing is found in the same firmware without it."""
    clean = with_mmu if name in WITH_MMU else good
    bad = image(plant(clean, tmp_path / "out", [FOUND[name]]))
    found = findings(Analysis(bad, target.of_image(bad)))
    defect = FOUND[name]
    assert any(row.rule.id == defect.rule and defect.where in f"{row.place} {row.text}" for row in found), found
    assert {row.rule.id for row in found} - defect.also == {defect.rule}
    assert compare(bad, image(clean)), "what is built again differs"


BOARDS = (("v3d42", "qemu-virt"), ("mali_g71", "qemu-virt"), ("v3d42", "rpi4"), ("mali_g71", "hikey960"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("gpu", "platform"), BOARDS)
@pytest.mark.parametrize("name", LEAKS)
def test_copies_of_the_carve_out_are_found(name: str, gpu: str, platform: str, tmp_path: Path) -> None:
    """And nothing else is, whichever board it is."""
    defect = LEAKS[name]
    bad = image(plant(kept(gpu, platform), tmp_path / "out", [defect]))
    found = findings(Analysis(bad, target.of_image(bad)))
    assert any(defect.where in f"{row.place} {row.text}" for row in found if row.rule.id == defect.rule), found
    assert {row.rule.id for row in found} == {defect.rule}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", IN_LOG)
def test_copies_through_the_log_are_found(name: str, tmp_path: Path) -> None:
    defect = IN_LOG[name]
    bad = image(plant(kept("v3d42", evidence=Evidence(log=True)), tmp_path / "out", [defect]))
    found = findings(Analysis(bad, target.of_image(bad)))
    assert [row.rule.id for row in found] == [defect.rule]
    assert defect.where in found[0].place


def test_every_kind_that_is_not_known_has_a_back_door() -> None:
    assert NOT_FOUND.keys() == UNKNOWN.keys()
    assert all(NOT_FOUND.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, rows in NOT_FOUND.items() for name in rows])
def test_what_only_a_build_shows(kind: str, name: str, good: Path, tmp_path: Path) -> None:
    """Nothing is found in the image; the first line of the report names its kind, and every other."""
    folder = plant(good, tmp_path / "out", [Defect("", "", NOT_FOUND[kind][name])])
    path = folder / BINARY if UNKNOWN[kind].bare else folder
    result = CliRunner().invoke(main, ["audit-firmware", str(path), "--strict"])
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert first.startswith("NOT KNOWN without --rebuild: ")
    assert UNKNOWN[kind].words in first
    assert all(row.words in first for row in UNKNOWN.values() if UNKNOWN[kind].bare or not row.bare)
    again = CliRunner().invoke(main, ["audit-firmware", str(path), "--rebuild"])
    assert again.exit_code == 1, again.output
    assert "GF801" in again.stdout
    assert "NOT KNOWN" not in again.stdout


@pytest.mark.exhaustive  # as in tests/emulated/test_audit_firmware.py and test_mmu.py
def test_nothing_is_found_without_a_back_door(good: Path, with_mmu: Path) -> None:
    for folder in (good, with_mmu):
        clean = image(folder)
        assert findings(Analysis(clean, target.of_image(clean))) == []
