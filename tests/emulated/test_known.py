# SPDX-License-Identifier: BSD-2-Clause
"""`audit-firmware` knows functions of the crypto libraries by what they do, and not by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.audit_firmware import target
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.digests import digest
from host_tools.audit_firmware.image import of_elf
from host_tools.audit_firmware.judge import findings
from host_tools.audit_firmware.known import KNOWN, accepted
from host_tools.audit_firmware.program import Program
from host_tools.audit_firmware.rules import FirmwareFinding
from host_tools.runners import firmware
from tee_replayer.generator.evidence import Evidence
from tests.support import trust_samples as t
from tests.support.bare_metal import COMPILER, require
from tests.support.firmware_samples import kept
from tests.support.planted import Defect, plant
from tests.support.sampling import SomeOf

HYBRID = [known for known in KNOWN if known.name.startswith("mldsa")]
NOPS = b"\x1f\x20\x03\xd5"  # nop


@pytest.fixture(scope="module")
def folder() -> Path:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return firmware.build(t.hybrid_policy(), "v3d42").folder


def known_in(folder: Path) -> list[tuple[FirmwareFinding, str | None]]:
    """Findings of the rules that known functions break, and why they are accepted; None: they are not."""
    image = of_elf("firmware", (folder / "firmware.elf").read_bytes())
    analysis = Analysis(image, target.of_image(image))
    found = [row for row in findings(analysis) if row.rule.id in {known.rule for known in KNOWN}]
    reasons = accepted(analysis.program, found)
    return [(row, reasons.get(index)) for index, row in enumerate(found)]


def function_of(finding: FirmwareFinding) -> str:
    return finding.where.partition("+")[0].partition(".")[0]


def program_of(path: Path) -> Program:
    return Program(of_elf(str(path), path.read_bytes()))


def digests(program: Program) -> dict[str, str]:
    """Name without what the compiler adds -> digest, of functions of these names."""
    names = {known.name for known in KNOWN}
    every = {row.name.partition(".")[0]: row for row in program.functions.values()}
    return {name: digest(program, row) for name, row in every.items() if name in names}


def test_of_a_hybrid_firmware_all_is_known(folder: Path) -> None:
    found = known_in(folder)
    right = {(known.rule, known.name, known.reason) for known in HYBRID}
    assert {(row.rule.id, function_of(row), reason) for row, reason in found} == right


@pytest.mark.exhaustive  # of the hybrid firmware, the test above knows them
def test_digests_are_of_what_the_compiler_makes(folder: Path) -> None:
    """If this fails, look at the functions again, then write what it found into known.py."""
    evidence = kept("mali_g71", evidence=Evidence(log=True, hashes=True, attestation=True))
    found = digests(program_of(folder / "firmware.elf")) | digests(program_of(evidence / "firmware.elf"))
    assert {known.name: found[known.name] in known.digests for known in KNOWN} == dict.fromkeys(found, True)


def test_a_function_of_the_same_name_that_does_something_else(folder: Path, tmp_path: Path) -> None:
    """SHAKE does not give zeros after so many blocks: the loop that draws from it has no end."""
    changes = (("crypto.c", "MOST_BLOCKS = 64", "MOST_BLOCKS = 0x7fffffff"),)
    found = known_in(plant(folder, tmp_path / "out", [Defect("GF401", "mldsa_poly_uniform", changes)]))
    assert {(row.rule.id, function_of(row)) for row, _ in found} == {(known.rule, known.name) for known in HYBRID}
    assert {reason for _, reason in found} == {None}  # both draw from it


def test_each_instruction_counts(folder: Path, tmp_path: Path, some_of: SomeOf) -> None:
    """One is made another, which still leads to the same instructions."""
    data = (folder / "firmware.elf").read_bytes()
    program = program_of(folder / "firmware.elf")
    before = digests(program)
    changed = tmp_path / "firmware.elf"
    for known in HYBRID:
        function = next(row for row in program.functions.values() if row.name.partition(".")[0] == known.name)
        branches = {call.at for call in function.calls}
        plain = [
            row
            for at, row in sorted(function.instructions.items())
            if at not in branches and row.mnemonic == "mov"
        ]
        for row in some_of(plain[:5], 1):
            word = program.image.read(row.address, 4)
            code = b"".join(program.image.read(at, 4) for at in range(function.start, row.address + 4, 4))
            assert data.count(code) == 1
            at = data.index(code) + len(code) - 4
            assert data[at : at + 4] == word
            changed.write_bytes(data[:at] + NOPS + data[at + 4 :])
            assert digests(program_of(changed))[known.name] != before[known.name]
