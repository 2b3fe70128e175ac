# SPDX-License-Identifier: BSD-2-Clause
"""Resolves a C file's conditionals on macros that are known; all others stay as they are.

`#ifdef`, `#ifndef`, `#if defined NAME` and their `#else` are all that is understood of a known macro: anything
else that asks for one (`#elif`, an expression) is an error, not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
_DEFINED = re.compile(r"(!?)[ \t]*defined[ \t]*(?:\([ \t]*(\w+)[ \t]*\)|[ \t](\w+))")
_COMMENT = re.compile(r"/\*.*?\*/|//.*")


class ConditionalError(ValueError):
    """A conditional on a known macro is of a kind that is not understood; or they do not nest."""


def resolve(text: str, known: Collection[str], defined: Collection[str], left_out: str = "") -> str:
    """A file without its conditionals on some macros, and without what they leave out.

    Args:
        text: the file; no directive is continued on another line.
        known: names of macros that are defined throughout the file, or nowhere.
        defined: those of them that are defined.
        left_out: what takes the place of each line that goes; with a line's end, no other line moves.

    Raises:
        ConditionalError: with the line.
    """
    lines = []
    # Of each conditional, whether its present branch stays; None: it is not resolved.
    open_: list[bool | None] = []
    for line in text.splitlines(keepends=True):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            lines.append(left_out if False in open_ else line)
            continue
        word, rest = directive[1], _COMMENT.sub("", directive[2]).strip()
        if word.startswith("if"):
            open_.append(_holds(word, rest, known, defined, line))
        elif not open_:
            raise ConditionalError(f"a branch of no conditional: {line.strip()}")
        elif word == "elif" and (open_[-1] is not None or _asked(rest, known)):
            raise ConditionalError(f"a branch that is not understood: {line.strip()}")
        found = open_[-1]
        lines.append(line if found is None and False not in open_ else left_out)
        if word == "else" and found is not None:
            open_[-1] = not found
        elif word == "endif":
            open_.pop()
    if open_:
        raise ConditionalError("a conditional is not closed")
    return "".join(lines)


def _holds(word: str, rest: str, known: Collection[str], defined: Collection[str], line: str) -> bool | None:
    """Whether a conditional's first branch stays; None: it asks for nothing that is known."""
    if not _asked(rest, known):
        return None
    name, negated = rest, word == "ifndef"
    if word == "if":
        found = _DEFINED.fullmatch(rest)
        if found is None:
            raise ConditionalError(f"a condition that is not understood: {line.strip()}")
        name, negated = found[2] or found[3], bool(found[1])
    return (name in defined) != negated


def _asked(expression: str, known: Collection[str]) -> bool:
    return any(word in known for word in re.findall(r"\w+", expression))
