# SPDX-License-Identifier: BSD-2-Clause
"""Puts annotations into a copy of a C source, so that the shipped files have none.

A file of annotations has blocks of this form:

    @ FUNCTION: START OF A LINE
    loop invariant ...;

The text goes, as a comment in ACSL, one for each paragraph, before the first line of the function that starts so
and is after the place of the function's previous block. No line moves, so Frama-C names lines of the shipped
file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trace_format.errors import GramophoneError


class ProofError(GramophoneError):
    """The proof cannot be run: an annotation without its place, a tool that is missing or failed."""


@dataclass(frozen=True)
class Annotation:
    """Where (a function, the start of a line of it) and what."""

    function: str
    line: str
    text: str


def parse(text: str, name: str) -> list[Annotation]:
    """The blocks of a file of annotations; ProofError for text before the first one or a head without a colon."""
    found = []
    head, *blocks = re.split(r"^@ ", text, flags=re.MULTILINE)
    if re.sub(r"^#.*$", "", head, flags=re.MULTILINE).strip():
        raise ProofError(f"{name}: expected a block (@ FUNCTION: LINE), found {head.strip()[:40]!r}")
    for block in blocks:
        first, _, rest = block.partition("\n")
        function, colon, line = first.partition(": ")
        if not colon:
            raise ProofError(f"{name}: expected '@ FUNCTION: LINE', found {first!r}")
        texts = [" ".join(text.split()) for text in re.split(r"\n\s*\n", rest.strip())]
        found.append(Annotation(function, line.strip(), " ".join(f"/*@ {text} */" for text in texts)))
    return found


def splice(source: str, annotations: list[Annotation], name: str) -> str:
    """`source` with the annotations; ProofError when a place does not exist."""
    lines = source.splitlines()
    place: dict[str, int] = {}
    for a in annotations:
        if a.function not in place:
            place[a.function] = _body(lines, a.function, name)
        at = place[a.function]
        while not lines[at].lstrip().startswith(a.line):
            at += 1
            if at == len(lines) or lines[at].startswith("}"):
                raise ProofError(f"{name}: {a.function} has no line (any more) that starts with {a.line!r}")
        lines[at] = f"{a.text} {lines[at]}"
        place[a.function] = at + 1
    return "\n".join(lines) + "\n"


def _body(lines: list[str], function: str, name: str) -> int:
    """The line after the brace that opens a function."""
    pattern = re.compile(rf"^[\w*].*\b{re.escape(function)}\(")
    for index, line in enumerate(lines):
        if not pattern.match(line):
            continue
        while not lines[index].startswith("{") and not lines[index].endswith(";"):
            index += 1
        if lines[index].startswith("{"):
            return index + 1
    raise ProofError(f"{name}: there is no function {function} (any more)")
