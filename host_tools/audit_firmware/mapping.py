# SPDX-License-Identifier: BSD-2-Clause
"""The MMU of a firmware: what its code writes to EL3's translation registers, and the tables behind them."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack

from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.target import TURN_ON
from host_tools.audit_firmware.values import Frame
from tee_replayer.generator.translation import MAIR
from trace_format.schema import PAGE_BYTES as PAGE

SCTLR_OFF = 0x30C50830  # RES1 bits
SCTLR_ON = SCTLR_OFF | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 12 | 1 << 19  # M, C, SA, I, WXN: baremetal/mmu.S
_REGISTERS = ("sctlr_el3", "mair_el3", "tcr_el3", "ttbr0_el3")


def findings(analysis: Analysis) -> Iterator[FirmwareFinding]:
    """What of the MMU is not as the board's description says."""
    board = analysis.target.board
    if board is None or not board.mmu:
        return
    written = _written(analysis)
    if not any(row.words == TURN_ON for row in analysis.system):
        yield FirmwareFinding(RULES["GF607"], f"the board {board.name} has `mmu = true`, and no code turns it on")
        return
    off = [at for at, value in written["sctlr_el3"] if value == SCTLR_OFF]
    for at in off[1:]:
        text = f"turns the MMU off, as {analysis.program.name(off[0])} does: expected one place"
        yield FirmwareFinding(RULES["GF607"], text, analysis.program.name(at), at)
    right = {
        "sctlr_el3": (SCTLR_ON, SCTLR_OFF),
        "mair_el3": (MAIR,),
        "tcr_el3": (board.translation.tcr,),
    }
    for name, values in right.items():
        found = sorted({value for _, value in written[name]}, key=str)
        if set(found) != set(values):
            expected = " and ".join(f"{value:#x}" for value in sorted(values))
            said = " and ".join("an unknown number" if value is None else f"{value:#x}" for value in found)
            yield _finding(analysis, written[name][0][0] if found else None, name, expected, said or "nothing")
    for at, base in written["ttbr0_el3"]:
        if base is None or base % PAGE:
            said = "an unknown number" if base is None else f"{base:#x}"
            yield _finding(analysis, at, "ttbr0_el3", f"the address of tables, a multiple of {PAGE:#x}", said)
        else:
            yield from _differences(analysis, base)


def _written(analysis: Analysis) -> dict[str, list[tuple[int, int | None]]]:
    """What is written to each register: (address of the instruction, number, or None where it is not known)."""
    found: dict[str, list[tuple[int, int | None]]] = {name: [] for name in _REGISTERS}
    for function in analysis.program.running:
        for at, row in function.instructions.items():
            if row.mnemonic == "msr" and row.operands[0] in found and row.registers:
                value = analysis.values.register(Frame(function), at, row.registers[0])
                found[str(row.operands[0])].append((at, value.low if value.is_single else None))
    return found


def _differences(analysis: Analysis, base: int) -> Iterator[FirmwareFinding]:
    """The first descriptor of the tables at an address that is not as it should be."""
    board = analysis.target.board
    assert board
    right = board.translation.encode(base)
    data = analysis.image.read(base, len(right)).ljust(len(right), b"\0")
    for at in range(0, len(right), 8):
        if data[at : at + 8] != right[at : at + 8]:
            expected, found = (unpack("<Q", part[at : at + 8])[0] for part in (right, data))
            text = f"descriptor {at % PAGE // 8} of table {at // PAGE}: expected {expected:#x}, found {found:#x}"
            yield FirmwareFinding(RULES["GF607"], text, "gr_translation", base + at)
            return


def _finding(analysis: Analysis, at: int | None, name: str, expected: str, found: str) -> FirmwareFinding:
    where = analysis.program.name(at) if at is not None else ""
    return FirmwareFinding(RULES["GF607"], f"{name}: expected {expected}, found {found}", where, at)
