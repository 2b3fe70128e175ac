# SPDX-License-Identifier: BSD-2-Clause
"""Barriers and cache maintenance in AArch64 code (Arm DDI 0487, C5.1, C6.2: "Barriers", "SYS")."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

NOP = 0xD503201F
DSB, DMB, ISB = 4, 5, 6  # op2
_BARRIER, _BARRIER_BITS = 0xD503301F, 0xFFFFF01F
_SYSTEM, _REGISTER = 0xFFFFFFE0, 31
_TO_ALL = (0, 3)  # CRm >> 2: the outer shareable domain, in which the GPU is; the full system
_LOADS, _STORES = 1, 2  # CRm & 3; 3: both
_LOOP = 3  # instructions behind the maintenance in a loop over lines


class Maintenance(Enum):
    """What an instruction does to lines, or to all that is kept of translations or instructions."""

    INVALIDATE = "dc ivac"
    CLEAN = "dc cvac"
    CLEAN_AND_INVALIDATE = "dc civac"
    TRANSLATIONS = "tlbi alle3"
    INSTRUCTIONS = "ic iallu"


MAINTENANCE = {
    0xD5087620: Maintenance.INVALIDATE,
    0xD50B7A20: Maintenance.CLEAN,
    0xD50B7E20: Maintenance.CLEAN_AND_INVALIDATE,
    0xD50E8700: Maintenance.TRANSLATIONS,
    0xD5087500: Maintenance.INSTRUCTIONS,
}
CONTROL = "SCTLR_EL3"
SYSTEM_REGISTERS = {
    0xD51E1000: CONTROL,
    0xD51E2000: "TTBR0_EL3",
    0xD51E2040: "TCR_EL3",
    0xD51EA200: "MAIR_EL3",
}
SMPEN_WRITE = 0xD519F220  # msr CPUECTLR_EL1, of a Cortex-A72


@dataclass(frozen=True)
class Barrier:
    """A barrier, by its instruction word."""

    word: int

    @property
    def is_isb(self) -> bool:
        """Whether it synchronises the core's own context, and orders no memory."""
        return self.word >> 5 & 7 == ISB

    @property
    def completes(self) -> bool:
        """Whether maintenance before it has ended everywhere when it ends."""
        return self.word >> 5 & 7 == DSB and self.loads and self.stores

    @property
    def loads(self) -> bool:
        """Whether it orders loads for what is beyond the cores."""
        return bool(self._order & _LOADS)

    @property
    def stores(self) -> bool:
        """Whether it orders stores for what is beyond the cores."""
        return bool(self._order & _STORES)

    @property
    def _order(self) -> int:
        option = self.word >> 8 & 15
        return option & 3 if option >> 2 in _TO_ALL else 0

    def __str__(self) -> str:
        return {DSB: "dsb", DMB: "dmb", ISB: "isb"}[self.word >> 5 & 7]


@dataclass(frozen=True)
class Found:
    """An instruction of interest.

    Attributes:
        address: of it.
        what: a barrier, maintenance, or the name of a system register that it writes.
        register: the number of the general-purpose register that it takes; 31: none, or zero.
        ends_at: the number of the register that ends a loop over lines around it; None: it is in none.
    """

    address: int
    what: Barrier | Maintenance | str
    register: int
    ends_at: int | None = None


def instructions(segments: Iterable[tuple[int, bytes]]) -> Iterator[Found]:
    """All in code; a constant that looks like one is never executed."""
    for base, data in segments:
        words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
        for index, word in enumerate(words):
            address, register = base + 4 * index, word & _REGISTER
            system = word & _SYSTEM
            if word & _BARRIER_BITS == _BARRIER and word >> 5 & 7 in (DSB, DMB, ISB):
                yield Found(address, Barrier(word), _REGISTER)
            elif system in MAINTENANCE:
                end = _loop(words[index + 1 : index + 1 + _LOOP], register)
                yield Found(address, MAINTENANCE[system], register, end)
            elif system in SYSTEM_REGISTERS:
                yield Found(address, SYSTEM_REGISTERS[system], register)


def _loop(words: tuple[int, ...], register: int) -> int | None:
    """The register that ends `add xN, xN, #64; cmp xN, xM; b.lo` back to the instruction before; None: another."""
    add = 0x91010000 | register << 5 | register
    if len(words) < _LOOP or words[0] != add or words[2] != 0x54FFFFA3:
        return None
    compare = words[1]
    return compare >> 16 & _REGISTER if compare & 0xFFE0FFFF == 0xEB00001F | register << 5 else None
