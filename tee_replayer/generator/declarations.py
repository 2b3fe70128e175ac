# SPDX-License-Identifier: BSD-2-Clause
"""Headers as a stock of declarations: each is put where it is first needed, and what nothing needs is left out.

For headers that are generated (formats, a GPU's registers), in which a paragraph, what lies between two empty
lines, declares one thing or is a list of macros. Static assertions go last, where they are in nobody's way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

_ASSERTION = re.compile(r"^_Static_assert\b[^;]*;\n", re.MULTILINE)
_NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
_MACRO = re.compile(r"^#define (\w+)(?:.*\\\n)*.*\n", re.MULTILINE)
_NAMES = re.compile(
    r"^(?:static inline )?(?:struct|enum) (\w+) \{|^    (\w+) = |^static inline .*?(\w+)\(", re.MULTILINE
)
_ONLY_FOR_ASSERTIONS = "_layout"  # structures whose name ends so


def words(code: str) -> set[str]:
    """The identifiers of C code, without those of comments and texts."""
    return set(re.findall(r"\b[A-Za-z_]\w*", _NO_CODE.sub(" ", code)))


def is_macros(text: str) -> bool:
    """Whether C code defines macros and nothing else."""
    return not _NO_CODE.sub("", _MACRO.sub("", text)).strip()


def without_assertions(text: str) -> tuple[str, list[str]]:
    """C code without its static assertions, and these, a line's end after each."""
    return _ASSERTION.sub("", text), _ASSERTION.findall(text)


@dataclass(frozen=True)
class _Paragraph:
    """What lies between two empty lines.

    Attributes:
        text: all of it; a line's end is last.
        macros: texts of the macros of a list of macros, by name; empty where it declares something else.
        names: what it declares.
    """

    text: str
    macros: dict[str, str]
    names: frozenset[str]

    def uses(self, name: str) -> set[str]:
        """The identifiers that a name of it brings along."""
        return words(self.macros.get(name, self.text))

    def with_only(self, used: Collection[str]) -> str:
        """Its text without macros that are not used."""
        gone = [macro for name, macro in self.macros.items() if name not in used]
        text = self.text
        for macro in gone:
            text = text.replace(macro, "", 1)
        return text


class Stock:
    """Declarations of headers, in their order, of which parts of a file take what they need.

    Args:
        headers: their texts, without include guards and includes; comments alone in a paragraph are left out.
        parts: what takes from them, in the file's order.
        joined: identifiers that who uses a macro makes by joining tokens, by the macro's name.
    """

    def __init__(
        self, headers: Iterable[str], parts: Iterable[str], joined: Mapping[str, Collection[str]]
    ) -> None:
        self._joined = joined
        self._paragraphs: list[_Paragraph] = []
        self._assertions: list[str] = []
        for header in headers:
            text, assertions = without_assertions(header)
            self._assertions += assertions
            self._paragraphs += [found for part in re.split(r"\n{2,}", text) if (found := _paragraph(part))]
        self._home = {name: paragraph for paragraph in self._paragraphs for name in paragraph.names}
        self._used = self._closure({word for part in parts for word in words(part)})
        self._given: set[str] = set()

    def take(self, code: str) -> str:
        """What a part needs and no earlier one took, as paragraphs; empty where that is nothing."""
        homes = {id(self._home[name]) for name in self._closure(words(code))}
        found = []
        for paragraph in self._paragraphs:
            if id(paragraph) in homes and paragraph.text not in self._given:
                self._given.add(paragraph.text)
                found.append(paragraph.with_only(self._used))
        return "\n".join(found)

    @property
    def functions(self) -> str:
        """Names of all functions that some part needs."""
        return " ".join(name for name in self._home if name in self._used and _is_function(self._home[name]))

    def assertions(self) -> list[str]:
        """The headers' assertions on what is used, and before each the structure that is there only for it."""
        found = []
        for assertion in self._assertions:
            asked = words(assertion) & self._home.keys()
            layouts = {name for name in asked if name.endswith(_ONLY_FOR_ASSERTIONS)}
            if not asked - layouts <= self._used:
                continue
            found += [f"\n{text}" for name in sorted(layouts) if (text := self.take(f"struct {name}"))]
            found.append(assertion)
        return found

    def _closure(self, names: set[str]) -> set[str]:
        """Names of the stock that are among some names, or that those bring along."""
        found: set[str] = set()
        made = {word for name in names & self._joined.keys() for word in self._joined[name]}
        new = (names | made) & self._home.keys()
        while new:
            found |= new
            new = {word for name in new for word in self._home[name].uses(name)} & self._home.keys() - found
        return found


def _is_function(paragraph: _Paragraph) -> bool:
    return re.search(r"^static inline ", paragraph.text, re.MULTILINE) is not None


def _paragraph(text: str) -> _Paragraph | None:
    text = text.strip("\n") + "\n"
    if not _NO_CODE.sub("", text).strip():
        return None
    macros = {found[1]: found[0] for found in _MACRO.finditer(text)}
    names = {name for found in _NAMES.findall(text) for name in found if name} | macros.keys()
    return _Paragraph(text, macros if is_macros(text) else {}, frozenset(names))
