# SPDX-License-Identifier: BSD-2-Clause
"""Which C file needs which other: by what it includes, and by who defines the functions that it names.

Sources are read as text, formatted as .clang-format has it: definitions begin at the start of a line. A function
that no header declares is nobody else's. Data, and functions that a macro declares or defines, are not seen; who
names these includes the header that declares them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

_COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_INCLUDE = re.compile(r'^#include "([\w./-]+)"', re.MULTILINE)
_DIRECTIVE = re.compile(r"^#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.MULTILINE)
# Parameters may have one level of parentheses, for pointers to functions.
_ATTRIBUTE = r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)"
_HEAD = (
    rf"^(?![ \t}}])[^;{{}}()=]*(?:{_ATTRIBUTE}[^;{{}}()=]*)?\b(\w+)"
    r"\((?:[^();{}]|\([^();{}]*\))*\)\s*"
)
_DEFINITION = re.compile(_HEAD + r"\{", re.MULTILINE)
_DECLARATION = re.compile(rf"{_HEAD}(?:{_ATTRIBUTE}\s*)?;", re.MULTILINE)
_OWN = re.compile(r"\b(static|GR_INLINE)\b")


@dataclass(frozen=True)
class Link:
    """A file needs another one; why: "includes" or the name of a function."""

    source: str
    target: str
    why: str


def includes(text: str) -> list[str]:
    """Names of the files that a source includes in quotes."""
    return _INCLUDE.findall(text)


def _functions(pattern: re.Pattern[str], text: str, *, own: bool = False) -> set[str]:
    """Names of functions, those that are for all files or the file's own."""
    found = pattern.finditer(text)
    return {match[1] for match in found if own == bool(_OWN.search(text, match.start(), match.start(1)))}


def _code(text: str) -> str:
    return _COMMENT_OR_TEXT.sub(" ", text)


def links(files: Mapping[str, str], seams: Collection[str] = ()) -> list[Link]:
    """What files need of each other.

    Args:
        files: sources by path; includes are found by the last part of the path, which must be unique.
        seams: headers (paths) that say what others have to define: who calls such a function needs the header
            only, and whoever defines it is the one that knows its caller.
    """
    by_name = {path.rpartition("/")[2]: path for path in files}
    assert len(by_name) == len(files), "names of files are unique"
    code = {path: _code(text) for path, text in files.items()}
    plain = {path: _DIRECTIVE.sub("", text) for path, text in code.items()}
    declared: dict[str, set[str]] = defaultdict(set)
    for path in files:
        if path.endswith(".h"):
            for name in _functions(_DECLARATION, plain[path]):
                declared[name].add(path)
    defined: dict[str, set[str]] = defaultdict(set)
    for path in files:
        if path.endswith(".c"):
            for name in _functions(_DEFINITION, plain[path]) & declared.keys():
                defined[name].add(path)
    found = [
        Link(path, by_name[part], "includes")
        for path, text in files.items()
        for name in includes(text)
        if (part := name.rpartition("/")[2]) in by_name
    ]
    for path, text in code.items():
        own = _functions(_DEFINITION, plain[path], own=True)
        for name in sorted(({*re.findall(r"\w+", text)} - own) & defined.keys()):
            if path not in defined[name] | declared[name] and not declared[name] & set(seams):
                found += [Link(path, target, name) for target in sorted(defined[name])]
    return found


def circle(found: Collection[Link], room: Callable[[str], str] = lambda path: path) -> list[str]:
    """Rooms of files, each of which needs the next, and the last the first; with reasons. []: there is none."""
    reasons: dict[tuple[str, str], Link] = {}
    for link in found:
        if room(link.source) != room(link.target):
            reasons.setdefault((room(link.source), room(link.target)), link)
    needs: dict[str, set[str]] = defaultdict(set)
    for source, target in reasons:
        needs[source].add(target)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        around = error.args[1][::-1]
        steps = [reasons[step] for step in pairwise(around)]
        return [f"{link.source} -> {link.target} ({link.why})" for link in steps]
    return []
