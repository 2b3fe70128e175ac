# SPDX-License-Identifier: BSD-2-Clause
"""Actions as lines and back, by the action table: `RegWrite hub.MMU_CTL = PT_INVALID_ABORT | ENABLE`.

The words of an opcode are those of its row, so a new row needs nothing here. Operands that a row's words leave out
are zero; where one is not, `with NAME NUMBER` follows, and `with flag NAME` where a flag has no letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from host_tools.model.description import operand_words
from host_tools.text.words import QUOTED, VALUE, WordError, integer, quoted, shown, unquoted, value_of, value_words
from trace_format.actions import ACTIONS, ALL_BITS, Action, Op, Type, action, operands_of
from trace_format.opcodes import ActionType
from trace_format.operands import REGISTERS, Operand
from trace_format.operators import OPERATORS
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES

_HEX = r"0x[0-9a-fA-F]{1,16}"
# Of an operand of a type: how it looks in a line, and what a message calls it.
PATTERNS: dict[Type, tuple[str, str]] = {
    Type.REGISTER_READ: (r"[\w.]+", "REGISTER"),
    Type.REGISTER_WRITTEN: (r"[\w.]+", "REGISTER"),
    Type.EXPECTED: (VALUE, "VALUE"),
    Type.BITS: (VALUE, "VALUE"),
    Type.TARGET: (_HEX, "0xOFFSET"),
    Type.MASK: (rf"(?:\s+mask\s+{_HEX})?", "[ mask 0xBITS]"),
    Type.KEEP: (r"kept\[\d+\]", "kept[NUMBER]"),
    Type.LINE: (r"\w+", "LINE"),
    Type.SLOT: (rf"slot\s+{QUOTED}", 'slot "NAME"'),
    Type.TIMEOUT: (r"\d+\s+us", "NUMBER us"),
    Type.MICROSECONDS: (r"\d+\s+us", "NUMBER us"),
    Type.ADDRESS_SPACE: (r"as\d+", "asNUMBER"),
    Type.VA_PAGE: (rf"{_HEX}\.\.{_HEX}", "0xFIRST..0xLAST"),
    Type.PAGES: (r"\d+\s+pages?", "NUMBER pages"),
    Type.FRAME: (_HEX, "0xOFFSET"),
    Type.BYTES: (r"\d+\s+bytes", "NUMBER bytes"),
    Type.SOURCE: (_HEX, "0xOFFSET"),
    Type.NUMBER: (r"\d+", "NUMBER"),
    Type.OPERATOR: (r"\w+", "OPERATOR"),
    Type.STREAM: (_HEX, "0xADDRESS"),
    Type.INSTRUCTIONS: (r"\d+\s+instructions", "NUMBER instructions"),
    Type.OPERANDS: (r"\d+\s+operands", "NUMBER operands"),
}
OPERATOR_NAMES = [row.name for row in OPERATORS.values()]
_EXTRA = re.compile(r"\s+with\s+(flag|\w+)\s+(\w+)")
_FLAGS = "flags"


@dataclass(frozen=True)
class Form:
    """One way in which an opcode's operands are written.

    Attributes:
        row: the opcode.
        words: operands in braces, and what is between them.
        flag: bit that the form stands for; 0: none.
    """

    row: ActionType
    words: str
    flag: int

    @cached_property
    def names(self) -> list[str]:
        """What stands in braces."""
        return re.findall(r"\{(\w+)\}", self.words)

    @cached_property
    def letters(self) -> dict[int, str]:
        """Bits that are shown as letters."""
        return {bit: f.letter for bit, f in self.row.flags.items() if f.letter} if _FLAGS in self.names else {}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a line of this form matches after the opcode."""
        text = self._filled(lambda o: f"(?P<{o.name}>{PATTERNS[o.type][0]})", lambda s: rf"(?P<flags>[{s}-]+)")
        return re.compile(rf"\s*{text}(?P<extras>(?:{_EXTRA.pattern})*)")

    @cached_property
    def hint(self) -> str:
        """What a message says that is expected."""
        text = self._filled(lambda o: PATTERNS[o.type][1], lambda s: s, literal=str)
        return f"`{self.row.name} {text}".rstrip() + "`"

    def _filled(
        self,
        word: Callable[[Operand], str],
        flags: Callable[[str], str],
        literal: Callable[[str], str] = lambda text: re.escape(text).replace(r"\ ", r"\s+"),
    ) -> str:
        operands = operands_of(self.row.op)
        parts = re.split(r"\{(\w+)\}", self.words)
        for at in range(len(parts)):
            if at % 2 == 0:
                parts[at] = literal(parts[at])
            elif parts[at] in operands:
                parts[at] = word(operands[parts[at]])
            else:
                parts[at] = flags("".join(self.letters.values()))
        return "".join(parts)


def _forms(row: ActionType) -> list[Form]:
    lettered = [_FLAGS] if any(flag.letter for flag in row.flags.values()) else []
    plain = row.words or " ".join(f"{{{name}}}" for name in [*(o.name for o in row.operands), *lettered])
    return [*(Form(row, f.words, bit) for bit, f in row.flags.items() if f.words), Form(row, plain, 0)]


FORMS: dict[str, list[Form]] = {row.name: _forms(row) for row in ACTIONS.values()}


class ActionLines:
    """Actions of a trace for a GPU.

    Args:
        gpu: its profile.
        slots: names of the trace's slots.
    """

    def __init__(self, gpu: Profile, slots: Sequence[str]) -> None:
        self.gpu, self.slots = gpu, list(slots)
        self._bits: dict[int, dict[str, int]] = {}

    def line(self, row: Action) -> str:
        """An action's line."""
        forms = FORMS[ACTIONS[Op(row.op)].name]
        form = next(f for f in forms if not f.flag or row.flags & f.flag)
        operands = operands_of(row.op)
        words = {name: self._word(operand, row) for name, operand in operands.items()}
        words[_FLAGS] = "".join(letter if row.flags & bit else "-" for bit, letter in form.letters.items())
        text = f"{form.row.name} {form.words.format_map(words)}".rstrip()
        for name in operands:
            if name not in form.names and (value := getattr(row, name)):
                text += f" with {name} {value:#x}"
        for bit, flag in form.row.flags.items():
            if row.flags & bit and bit != form.flag and bit not in form.letters:
                text += f" with flag {flag.name}"
        return text

    def _word(self, operand: Operand, row: Action) -> str:
        value: int = getattr(row, operand.name)
        if operand.type in (Type.EXPECTED, Type.BITS):
            return value_words(value, self.fields(row))
        if operand.type is Type.SLOT:
            return f"slot {quoted(self.slots[value])}"
        return operand_words(operand, row, self.gpu)

    def fields(self, row: Action) -> dict[str, int]:
        """What the bits of an action's register are called."""
        register = ACTIONS[Op(row.op)].find(*REGISTERS)
        return self._fields(getattr(row, register.name)) if register else {}

    def _fields(self, register: int) -> dict[str, int]:
        if register not in self._bits:
            self._bits[register] = self.gpu.bits_of(register * 4)
        return self._bits[register]

    def action(self, text: str) -> Action:
        """The action that a line says; WordError."""
        name, rest = re.fullmatch(r"(\S*)(.*)", text.strip()).groups()  # type: ignore[union-attr]
        forms = FORMS.get(name)
        if forms is None:
            raise WordError(f"an action ({', '.join(FORMS)})", shown(name))
        for form in forms:
            found = form.pattern.fullmatch(rest)
            if found:
                return self._read(form, found)
        raise WordError(" or ".join(form.hint for form in forms), shown(text.strip(), 100))

    def _read(self, form: Form, found: re.Match[str]) -> Action:
        values: dict[str, int] = {}
        for operand in form.row.operands:  # a register comes before its value, in every row
            if operand.name in form.names:
                values[operand.name] = self._number(operand, found[operand.name], values, form.row)
        flags = form.flag | self._letters(form, found[_FLAGS] if form.letters else "")
        for what, word in _EXTRA.findall(found["extras"]):
            if what == "flag":
                flags |= self._flag(form, word)
            else:
                values |= self._extra(form, what, word)
        _check_range(found.groupdict(), values)
        try:
            return action(form.row.op, flags=flags, **values)
        except ValueError as error:
            raise WordError("operands that can be encoded", str(error)) from None

    def _number(self, operand: Operand, text: str, values: dict[str, int], row: ActionType) -> int:
        word, most = text.strip(), (1 << operand.bits) - 1
        match operand.type:
            case Type.REGISTER_READ | Type.REGISTER_WRITTEN:
                return self._register(word)
            case Type.EXPECTED | Type.BITS:
                register = row.find(*REGISTERS)
                return value_of(word, self._fields(values[register.name]) if register else {})
            case Type.MASK:
                return integer(word.split()[1], most, "a mask") if word else ALL_BITS
            case Type.LINE:
                return _index(self.gpu.interrupts, word, "an interrupt line")
            case Type.SLOT:
                return _index(self.slots, unquoted(word[len("slot") :].strip()), "a slot of this trace")
            case Type.OPERATOR:
                if word.isdecimal():
                    return integer(word, most)
                return int(list(OPERATORS)[_index(OPERATOR_NAMES, word, "an operator")])
            case Type.VA_PAGE:
                return _page(word.partition("..")[0])
            case Type.FRAME:
                return _page(word)
            case _:
                digits = re.search(r"0x[0-9a-fA-F]+|\d+", word)
                return integer(digits[0] if digits else "", most, f"{operand.name} as a number")

    def _register(self, word: str) -> int:
        if word in self.gpu.registers:
            return self.gpu.registers[word].index
        offset = integer(word, 0xFFFF * 4, f"a register of the {self.gpu.name} or its offset")
        if offset % 4:
            raise WordError("an offset that is a multiple of 4", shown(word))
        return offset // 4

    def _letters(self, form: Form, word: str) -> int:
        if len(word) != len(form.letters):
            raise WordError(f"the flags {''.join(form.letters.values())}, - for one that is not set", shown(word))
        bits = 0
        for (bit, letter), found in zip(form.letters.items(), word, strict=True):
            if found not in (letter, "-"):
                raise WordError(f"{letter} or -", shown(word))
            bits |= bit if found == letter else 0
        return bits

    def _flag(self, form: Form, word: str) -> int:
        for bit, flag in form.row.flags.items():
            if flag.name == word and bit != form.flag and bit not in form.letters:
                return bit
        raise WordError(f"a flag that {form.row.name} has", shown(word))

    def _extra(self, form: Form, name: str, word: str) -> dict[str, int]:
        operands = operands_of(form.row.op)
        if name not in operands or name in form.names:
            raise WordError(f"an operand of {form.row.name} that is not given yet", shown(name))
        return {name: integer(word, (1 << operands[name].bits) - 1)}


def _index(names: Sequence[str], word: str, what: str) -> int:
    try:
        return names.index(word)
    except ValueError:
        raise WordError(f"{what} ({', '.join(names[:8]) or 'there is none'})", shown(word)) from None


def _page(word: str) -> int:
    address = integer(word, (1 << 64) - 1)
    if address % PAGE_BYTES:
        raise WordError(f"a multiple of {PAGE_BYTES:#x}", shown(word))
    return address // PAGE_BYTES


def _check_range(words: dict[str, str], values: dict[str, int]) -> None:
    """A range of addresses says its end, and so does its number of pages."""
    if "va_page" in words and "pages" in values:
        last = integer(words["va_page"].partition("..")[2], (1 << 64) - 1)
        end = (values["va_page"] + values["pages"]) * PAGE_BYTES
        if last != end - 1:
            raise WordError(f"{end - 1:#x} as the last address of {values['pages']} pages", f"{last:#x}")
