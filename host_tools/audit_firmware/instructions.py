# SPDX-License-Identifier: BSD-2-Clause
"""AArch64 instructions as the firmware audit needs them: what each reads, writes and leads to.

Capstone decodes. What an instruction reads and writes is decided here, because Capstone's lists of accesses are
wrong for compares and for bit-field moves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import capstone
from capstone import arm64

SP, FLAGS, ZERO = 31, 32, -1  # besides x0 to x30; ZERO reads as 0
LINK = 30
FIRST_SAVED, LAST_SAVED = 19, 29  # callee-saved registers (AAPCS64, 6.1.1)
BYTES = 4  # of an instruction

_COMPARES = frozenset(("cmp", "cmn", "tst", "ccmp", "ccmn"))
_NO_TARGET = _COMPARES | {
    "cbz",
    "cbnz",
    "tbz",
    "tbnz",
    "br",
    "blr",
    "ret",
    "msr",
    "prfm",
    "sys",
    "dc",
    "ic",
    "tlbi",
    "at",
}
_SETS_FLAGS = _COMPARES | {"adds", "subs", "ands", "bics", "negs", "adcs", "sbcs", "ngcs"}
_SELECTS = frozenset(("csel", "csinc", "csinv", "csneg", "cset", "csetm", "cinc", "cinv", "cneg"))
_TAKES_FLAGS = _SELECTS | {"ccmp", "ccmn", "adc", "adcs", "sbc", "sbcs", "ngc", "ngcs"}
_KEEPS_TARGET = frozenset(("movk", "bfi", "bfxil", "bfm", "bfc"))
_PAIRS = frozenset(("ldp", "ldpsw", "ldnp", "ldxp", "ldaxp"))
_TESTS = frozenset(("cbz", "cbnz", "tbz", "tbnz"))
_SHIFTS = {1: "lsl", 2: "msl", 3: "lsr", 4: "asr", 5: "ror"}
_EXTENDS = {1: "uxtb", 2: "uxth", 3: "uxtw", 4: "uxtx", 5: "sxtb", 6: "sxth", 7: "sxtw", 8: "sxtx"}

_STEP = re.compile(r"\], #(-?\w+)$")


class Register(NamedTuple):
    """A register operand: number, whether all 64 bits of it, and what is done to it before it is used."""

    number: int
    is_64: bool
    change: str = ""
    amount: int = 0


class Memory(NamedTuple):
    """A memory operand: base + offset + scaled; `step` is added to the base, before ("pre") or after it."""

    base: int
    offset: int
    scaled: Register | None
    mode: str
    step: int


Operand = Register | Memory | int | str


@dataclass(frozen=True)
class Instruction:
    """One instruction; operands that are of no concern here are their text."""

    address: int
    mnemonic: str
    text: str
    operands: tuple[Operand, ...]

    @property
    def end(self) -> int:
        """Address of the next."""
        return self.address + BYTES

    @cached_property
    def memory(self) -> Memory | None:
        """Its memory operand."""
        return next((item for item in self.operands if isinstance(item, Memory)), None)

    @cached_property
    def registers(self) -> tuple[Register, ...]:
        """Its register operands, in order, without those in a memory operand."""
        return tuple(item for item in self.operands if isinstance(item, Register))

    @property
    def is_store(self) -> bool:
        """Whether it writes to memory."""
        return self.mnemonic.startswith(("st", "cas", "swp", "ldadd", "ldset", "ldclr", "ldeor")) and bool(
            self.memory
        )

    @property
    def is_load(self) -> bool:
        """Whether it only reads memory."""
        return self.mnemonic.startswith("ld") and not self.is_store

    @property
    def is_conditional(self) -> bool:
        """Whether it is a branch that may not be taken."""
        return self.mnemonic.startswith("b.") or self.mnemonic in _TESTS

    @property
    def ends_block(self) -> bool:
        """Whether the next instruction is not simply the one after it."""
        return self.mnemonic in ("b", "br", "ret", "eret", "brk", "udf") or self.is_conditional

    @property
    def target(self) -> int | None:
        """Where a direct branch or call leads."""
        if self.mnemonic not in ("b", "bl") and not self.is_conditional:
            return None
        return next((item for item in reversed(self.operands) if isinstance(item, int)), None)

    @property
    def access_bytes(self) -> int:
        """Bytes that a load or store moves at once."""
        name, first = self.mnemonic, self.registers[0] if self.registers else None
        if name.endswith("b"):
            return 1
        if name.endswith("h"):
            return 2
        if name.endswith("sw"):
            return 4
        size = 8 if first is None or first.is_64 else 4
        return size * 2 if name in ("stp", "stnp", "ldp", "ldnp") else size

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Registers that it changes; those that a call changes are the callee's."""
        found = []
        if not self.is_store and self.mnemonic not in _NO_TARGET and not self.is_conditional:
            found = [reg.number for reg in self.registers[: 2 if self.mnemonic in _PAIRS else 1]]
        elif self.is_store and self.mnemonic.startswith(("stx", "stlx")):
            found = [self.registers[0].number]  # whether it succeeded
        if self.memory and self.memory.mode:
            found.append(self.memory.base)
        if self.mnemonic in _SETS_FLAGS:
            found.append(FLAGS)
        if self.mnemonic in ("bl", "blr"):
            found.append(LINK)
        return tuple(number for number in found if number != ZERO)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Registers that it uses."""
        sources = self.registers
        if not self.is_store and self.mnemonic not in _NO_TARGET and not self.is_conditional:
            skipped = 2 if self.mnemonic in _PAIRS else 1
            sources = self.registers if self.mnemonic in _KEEPS_TARGET else self.registers[skipped:]
        found = [reg.number for reg in sources]
        if self.memory:
            found.append(self.memory.base)
            if self.memory.scaled:
                found.append(self.memory.scaled.number)
        if self.mnemonic in _TAKES_FLAGS or self.mnemonic.startswith("b."):
            found.append(FLAGS)
        return tuple(dict.fromkeys(number for number in found if number != ZERO))

    @property
    def words(self) -> str:
        """As a disassembler prints it."""
        return f"{self.mnemonic} {self.text}".strip()


class Decoder:
    """Decodes single instructions, each once."""

    def __init__(self) -> None:
        self._capstone = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        self._capstone.detail = True
        self._known: dict[tuple[int, bytes], Instruction | None] = {}

    def decode(self, address: int, word: bytes) -> Instruction | None:
        """The instruction that four bytes are at an address; None: there is no such one."""
        key = address, word
        if key not in self._known:
            found = next(self._capstone.disasm(word, address, 1), None)
            usable = found is not None and len(word) == BYTES and found.mnemonic != "udf"
            self._known[key] = _converted(found) if usable else None
        return self._known[key]


def _converted(found: Any) -> Instruction:
    operands: list[Operand] = []
    rows = found.operands
    for place, row in enumerate(rows):
        if row.type == arm64.ARM64_OP_REG:
            operands.append(_register(found, row))
        elif row.type == arm64.ARM64_OP_IMM:
            amount = row.shift.value if row.shift.type == arm64.ARM64_SFT_LSL else 0
            operands.append(row.imm << amount if found.mnemonic != "movk" else row.imm)
        elif row.type == arm64.ARM64_OP_MEM:
            operands.append(_memory(found, row, rows[place + 1 :]))
            break  # what follows is the step after it
        else:
            operands.append(found.op_str.split(", ")[min(place, found.op_str.count(", "))])
    return Instruction(found.address, found.mnemonic, found.op_str, tuple(operands))


def _number(found: Any, register: int) -> int:
    name = found.reg_name(register)
    if name in ("wzr", "xzr"):
        return ZERO
    if name in ("sp", "wsp"):
        return SP
    if name in ("fp", "lr"):
        return 29 if name == "fp" else LINK
    if name[0] in "wx" and name[1:].isdigit():
        return int(name[1:])
    return 64 + register  # a floating-point or vector register: only told apart


def _register(found: Any, row: Any) -> Register:
    name = found.reg_name(row.reg)
    change, amount = "", 0
    if row.ext:
        change, amount = _EXTENDS.get(row.ext, ""), row.shift.value if row.shift.type else 0
    elif row.shift.type:
        change, amount = _SHIFTS.get(row.shift.type, ""), row.shift.value
    is_64 = name[0] in "xd" or name in ("sp", "fp", "lr")
    return Register(_number(found, row.reg), is_64, change, amount)


def _memory(found: Any, row: Any, rest: list[Any]) -> Memory:
    index = None
    if row.mem.index:
        name = found.reg_name(row.mem.index)
        change = _EXTENDS.get(row.ext, "") or _SHIFTS.get(row.shift.type, "")
        amount = row.shift.value if row.shift.type else 0
        index = Register(_number(found, row.mem.index), name[0] == "x", change, amount)
    base = _number(found, row.mem.base)
    if rest and found.writeback:
        step = rest[0].imm if rest[0].type == arm64.ARM64_OP_IMM else 0
        return Memory(base, 0, index, "post", step)
    if found.writeback and (text := _STEP.search(found.op_str)):  # of st1 the step is in Capstone's text only
        return Memory(base, 0, index, "post", int(text[1], 0))
    if found.writeback:
        return Memory(base, row.mem.disp, index, "pre", row.mem.disp)
    return Memory(base, row.mem.disp, index, "", 0)
