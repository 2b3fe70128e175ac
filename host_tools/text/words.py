# SPDX-License-Identifier: BSD-2-Clause
"""The words that lines of a trace's text are made of: quoted texts, values of registers by their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from trace_format.errors import GramophoneError, printable

QUOTED = r'"(?:[^"\\]|\\.)*"'
_TERM = r"(?:0x[0-9a-fA-F]+|[A-Z]\w*(?:\((?:0x[0-9a-fA-F]+|\d+)\))?)"
VALUE = rf"{_TERM}(?:\s*\|\s*{_TERM})*"
ALL_BITS = 0xFFFFFFFF
_DECIMAL_BELOW = 1 << 16  # numbers in fields: counts below, masks and addresses above
_COMMENT = re.compile(rf'(?:[^"#]|{QUOTED}|")*')


class WordError(Exception):
    """A word that is not what its place needs; whoever knows the line makes a TextError of it."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")


class TextError(GramophoneError):
    """A text that is no trace: names file and line, and says what was expected and found there."""

    def __init__(self, file: str, line: int, what: str) -> None:
        super().__init__(printable(f"{file}:{line}: {what}"))


def quoted(text: str) -> str:
    r"""A text as a JSON string in which everything that does not print is an escape: `"a\u001b"`."""
    found = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in found)


def unquoted(word: str) -> str:
    """The inverse of `quoted`; WordError."""
    try:
        text = json.loads(word)
        text.encode()  # a lone surrogate has no encoding
    except (ValueError, AttributeError):
        text = None
    if not isinstance(text, str):
        raise WordError("a text in double quotes, escaped as JSON", shown(word))
    return text


def shown(text: str, most: int = 60) -> str:
    """A piece of a line, for a message."""
    return f"`{text if len(text) <= most else text[:most] + '...'}`" if text else "nothing"


def without_comment(line: str) -> str:
    """A line without what follows a `#` that is not in quotes, and without space at its end."""
    if "#" in line:
        found = _COMMENT.match(line)
        line = found[0] if found else ""
    return line.rstrip()


def integer(word: str, most: int, what: str = "a number") -> int:
    """A number in decimal, or in hexadecimal after `0x`; WordError: it is none, or above `most`."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,20}", word):
        raise WordError(what, shown(word))
    value = int(word, 0) if word.startswith("0x") else int(word)
    if value > most:
        raise WordError(f"{what} of at most {most:#x}", shown(word))
    return value


def value_words(value: int, names: Mapping[str, int]) -> str:
    """A register's value by its fields, the highest first: `0x00001000 | SINGLE_SEG | THREADING`.

    Args:
        names: masks of its bits by name. A field of several bits is written as `NAME(number)`; bits without a
            name come first, as a number.
    """
    terms, rest = [], value
    for name, mask in sorted(names.items(), key=lambda item: -item[1]):
        if field := value & mask:
            rest &= ~mask
            number = field // (mask & -mask)
            text = str(number) if number < _DECIMAL_BELOW else f"{number:#x}"
            terms.append(name if mask.bit_count() == 1 else f"{name}({text})")
    return " | ".join([f"{rest:#010x}", *terms] if rest or not terms else terms)


def value_of(words: str, names: Mapping[str, int]) -> int:
    """The inverse of `value_words`; WordError: no such field, a number too large, or bits given twice."""
    value = 0
    for term in re.split(r"\s*\|\s*", words):
        bits = _term(term, names)
        if value & bits:
            raise WordError("bits that are given once", shown(words))
        value |= bits
    return value


def _term(term: str, names: Mapping[str, int]) -> int:
    name, _, number = term.rstrip(")").partition("(")
    if name.startswith("0x"):
        return integer(term, ALL_BITS, "a value of 32 bits")
    if name not in names:
        raise WordError(f"a number, or of the fields {', '.join(names) or 'none'}", shown(term))
    mask = names[name]
    low, most = mask & -mask, mask // (mask & -mask)
    if not number and mask != low:
        raise WordError(f"{name}(NUMBER) up to {most}", shown(term))
    return (integer(number, most, f"a number in {name}") if number else 1) * low
