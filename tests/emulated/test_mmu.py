# SPDX-License-Identifier: BSD-2-Clause
"""Firmware with MMU and caches on, on Unicorn, which translates addresses at EL3 as the processor does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import arm64_const as arm64

from host_tools import runners
from host_tools.audit_firmware import mapping, target
from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.image import of_elf
from host_tools.audit_firmware.judge import findings
from host_tools.runners import firmware, libraries, unicorn
from host_tools.runners.needs import secure_bytes
from host_tools.runners.replay import RunnerError
from host_tools.support import sandbox
from signing.delivery import Delivery
from tee_replayer.generator import boards
from tee_replayer.generator.board_checks import BoardError
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.translation import cached_bytes
from tests.support import replayer_samples as s
from tests.support.firmware_samples import compiled, kept
from tests.support.planted import Defect, plant
from tests.support.replayer_samples import signed, trace
from tests.support.sampling import SomeOf
from trace_format.schema import PAGE_BYTES as PAGE

pytestmark = pytest.mark.usefixtures("checked_caches")

SCTLR_EL3 = (1, 0, 3, 6, 0)  # CRn, CRm, op0, op1, op2
INPUT = np.arange(6, dtype="<f4").reshape(2, 3)
TABLES = "gr_translation"


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept("v3d42", mmu=True)


@pytest.fixture
def board_of(folder: Path, request: pytest.FixtureRequest) -> Callable[[str], tuple[Path, boards.Board]]:
    """A compiled firmware with an MMU, and the description of its board."""

    def found(name: str) -> tuple[Path, boards.Board]:
        out = folder if name == boards.QEMU_VIRT else Path(request.getfixturevalue(name))
        return out, boards.load(name).with_mmu(True)

    return found


def symbols(folder: Path) -> dict[str, int]:
    with (folder / firmware.ELF).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}


def test_it_replays_as_the_host_does_with_the_mmu_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is off, with what was cached in memory, before the firmware's last instruction."""
    monkeypatch.setenv(sandbox.VARIABLE, sandbox.OFF)  # a replay in a process of its own could not be looked at
    seen: list[int] = []
    machines: list[unicorn.Machine] = []
    write = unicorn.Machine._gpu_write

    def look(self: unicorn.Machine, *arguments: object) -> None:
        seen.append(sctlr(self))
        machines.append(self)
        write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(unicorn.Machine, "_gpu_write", look)
    delivery = Delivery(signed(trace()))
    here = runners.run("vgpu", delivery, s.KEY, {"in": INPUT}, repeat=3)
    there = runners.run("unicorn", delivery, s.KEY, {"in": INPUT}, firmware=folder, repeat=3)
    assert there.ok, there.error
    assert here.outputs["out"].tobytes() == there.outputs["out"].tobytes()
    assert set(seen) == {mapping.SCTLR_ON}
    assert sctlr(machines[-1]) == mapping.SCTLR_OFF


def sctlr(machine: unicorn.Machine) -> int:
    engine: Any = machine._uc
    return int(engine.reg_read(arm64.UC_ARM64_REG_CP_REG, SCTLR_EL3))


@pytest.mark.parametrize("name", [boards.QEMU_VIRT, "rpi4", "hikey960"])
def test_the_linked_tables_are_those_that_were_checked(
    name: str, board_of: Callable[[str], tuple[Path, boards.Board]]
) -> None:
    """Whatever assembler and linker made of them; and the stack lies above the page that is not mapped."""
    folder, board = board_of(name)
    found = symbols(folder)
    right = board.translation.encode(found[TABLES])
    image = of_elf(name, (folder / firmware.ELF).read_bytes())
    assert image.read(found[TABLES], len(right)) == right
    rom, ram = board.memory["rom"], board.memory["ram"]
    assert rom.base <= found[TABLES] < found["gr_rom_end"] <= rom.end
    assert (found["gr_stack_start"], found["gr_stack_end"]) == (ram.base + PAGE, ram.base + PAGE + 0x4000)
    assert found["gr_bss_start"] == found["gr_stack_end"]


def test_what_the_gpu_reaches_is_not_cached(tmp_path: Path, some_of: SomeOf) -> None:
    """A trace whose memory would reach into the part that is cached is refused, one page less is not."""
    plain = trace(carveout_bytes=256 * PAGE)
    sample = Delivery(signed(plain))
    needed = secure_bytes(sample)
    low = secure_bytes(sample, 1 << 30) - (1 << 30)
    size = next(n for n in range(-(-needed // PAGE) * PAGE, 1 << 30, PAGE) if n - cached(n) >= low)
    for bytes_there, status in some_of(((size - PAGE, "MEMORY"), (size, "OK")), 1):
        assert bytes_there >= needed
        out = compiled(tmp_path / str(bytes_there), "v3d42", carveout_bytes=bytes_there, mmu=True)
        result = runners.run("unicorn", sample, s.KEY, {"in": INPUT}, firmware=out)
        assert (result.report.name, result.ok) == (status, status == "OK"), result.error


def cached(carveout_bytes: int) -> int:
    return cached_bytes(boards.load(boards.QEMU_VIRT).with_carveout(carveout_bytes).memory["carveout"])


def judged(folder: Path) -> list[str]:
    image = of_elf("firmware", (folder / firmware.ELF).read_bytes())
    return [f"{row.rule.id} {row.place}: {row.text}" for row in findings(Analysis(image, target.of_image(image)))]


def test_an_audit_finds_nothing(folder: Path) -> None:
    assert judged(folder) == []


PLANTED = {
    "code that can be written": (
        ("translation.S", "    .set .Lentry, 0x7c7\n", "    .set .Lentry, 0x747\n"),
        "descriptor 0 of table 2: expected 0x7c7, found 0x747",
    ),
    "the guard is memory": (
        ("translation.S", "    .set .Lentry, 0x4000000e001747", "    .set .Lentry, 0x4000000e000747"),
        "descriptor 1 of table",
    ),
    "writable memory can be executed": (
        ("mmu.S", " | 1 << 12 | 1 << 19", " | 1 << 12"),
        "sctlr_el3: expected 0x30c50830 and 0x30cd183d, found 0x30c50830 and 0x30c5183d",
    ),
    "devices are cached": (("board.h", "GR_MAIR 0x44ff00", "GR_MAIR 0x44ffff"), "found 0x44ffff"),
    "other walks": (("board.h", "GR_TCR 0x80823", "GR_TCR 0x80820"), "tcr_el3: expected 0x80823519"),
    "other tables": (("mmu.S", "=gr_translation", "=GR_RAM_BASE"), "descriptor 0 of table 0"),
    "it stays on": (("port.c", "    gr_mmu_off();\n", ""), "sctlr_el3: expected 0x30c50830 and"),
    "it is never on": (("main.c", "    gr_mmu_on();\n", ""), "sctlr_el3: expected 0x30c50830 and"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PLANTED)
def test_planted_defects_are_found(folder: Path, tmp_path: Path, name: str) -> None:
    (file, old, new), said = PLANTED[name]
    found = judged(plant(folder, tmp_path / "out", [Defect("GF607", said, ((file, old, new),))]))
    assert any(row.startswith("GF607 ") and said in row for row in found), found


@pytest.mark.exhaustive  # another board than the one whose defects are planted above
def test_without_what_the_board_has(rpi4: Path) -> None:
    """An image of a board with an MMU that leaves it off."""
    out = kept("v3d42", "rpi4", mmu=False)
    found = judged(out)
    assert found.pop() == "GF607 image: the board rpi4 has `mmu = true`, and no code turns it on"
    mailbox = boards.load("rpi4").memory["mailbox"].base  # which firmware with an MMU finds elsewhere
    assert found
    assert all(row.startswith("GF503 gr_main") and f"a store to {mailbox >> 16:#x}" in row for row in found)
    assert TABLES in symbols(rpi4)
    assert TABLES not in symbols(out)


def test_where_it_is_no_choice(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"optee\.toml: mmu: OP-TEE has tables of its own"):
        generate(Options("v3d42", platform_of("optee"), s.KEY, libraries.source(), mmu=True), tmp_path / "out")
    with pytest.raises(GenerateError, match="platform linux: Linux has the MMU"):
        generate(Options("v3d42", platform_of("linux"), s.KEY, libraries.source(), mmu=True), tmp_path / "out")


def test_other_numbers_need_other_tables(folder: Path, tmp_path: Path) -> None:
    header = (
        (folder / "board.h")
        .read_text(encoding="utf-8")
        .replace("GR_UART_BASE 0x9040000", "GR_UART_BASE 0x9050000")
    )
    (tmp_path / "other.h").write_text(header, encoding="utf-8")
    again = Path(shutil.copytree(folder, tmp_path / "out"))
    with pytest.raises(RunnerError, match=r"GR_UART_.*: the translation tables are for other numbers"):
        firmware.compile_firmware(again, f"BOARD={tmp_path / 'other.h'}", "translation.o")
