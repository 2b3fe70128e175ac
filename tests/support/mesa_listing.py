# SPDX-License-Identifier: BSD-2-Clause
"""Mesa's own listing of the shaders that it compiles for a Mali, beside ours of the same words.

`BIFROST_MESA_DEBUG=shaders,verbose` has Mesa print, clause by clause, the quadwords and the operations in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from host_tools.gpus.mali.clauses import QUADWORD, clause_at
from host_tools.gpus.mali.notation import clause_lines
from tests.support.node_cases import Prepared
from tests.support.node_guest import ran

_QUADWORD = re.compile(r"# ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\s*")
_OPERATION = re.compile(r"([*+])([\w.]+)(?: \[0x[0-9a-f]+\])?\s*(.*)")
_OPERAND = re.compile(r"(#0|lane_id|warp_id|core_id|r\d+|u\d+\.w[01]|t[01]?)(?!\w)")
IMUL, IMAD = "IMUL.i32", "IMAD.i32"  # Mesa's product is ours with zero added, which the encoding says


@dataclass(frozen=True)
class Said:
    """An operation as a listing has it, without modifiers.

    Attributes:
        unit: * for the FMA, + for the ADD.
        to: register of the result; "-": none.
    """

    unit: str
    name: str
    to: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Clause:
    """A clause of Mesa's listing: its words, and what is said to be in them."""

    quadwords: tuple[int, ...]
    lines: tuple[str, ...]


def listings(cases: Sequence[Prepared], gpu: str) -> str:
    """All that Mesa prints of the shaders of compiled networks, which it compiles in the guest."""
    left = ran(
        cases,
        gpu,
        lambda words: [
            "export BIFROST_MESA_DEBUG=shaders,verbose",
            *(f"./runner {those} >/out/said{at} 2>&1 || true" for at, those in enumerate(words)),
        ],
    )
    return "\n".join(left[f"said{at}"].decode(errors="replace") for at in range(len(cases)))


def clauses(text: str) -> Iterator[Clause]:
    """Those of a listing, in order."""
    words: list[int] = []
    lines: list[str] = []
    for line in [*text.splitlines(), "clause_end:"]:
        found = _QUADWORD.fullmatch(line)
        if (found and lines) or line.startswith(("shader:", "clause_")):
            if words and lines:
                yield Clause(tuple(words), tuple(lines))
            words, lines = [], []
        if found:
            words.append(int("".join(found.groups()), 16))
        elif words and re.match(r"\s+[*+]", line):
            lines.append(line.strip())


def ours(clause: Clause) -> list[Said]:
    """What our notation makes of the words."""
    data = [word.to_bytes(QUADWORD, "little") for word in clause.quadwords]
    made = clause_at(lambda number: data[number] if number < len(data) else None)
    return [_said(line.strip(), _our_operand) for line in clause_lines(made)[1:]]


def mesas(clause: Clause) -> list[Said]:
    """What Mesa prints."""
    found = [_said(line, _mesas_operand) for line in clause.lines]
    return [replace(one, name=IMAD, sources=(*one.sources, "#0")) if one.name == IMUL else one for one in found]


def same(one: Said, other: Said) -> bool:
    """Whether ours is Mesa's, but for modifiers: what follows the first dot of a name, and an operand."""
    if one.name == other.name == "NOP":
        return one.unit == other.unit
    root, others = one.name.partition(".")[0], other.name.partition(".")[0]
    sources = other.sources[: len(one.sources)]
    return root == others and (one.unit, one.to, one.sources) == (other.unit, other.to, sources)


def _said(line: str, operand: Callable[[str], str]) -> Said:
    found = _OPERATION.match(line)
    assert found, line
    words = [word.strip() for word in found[3].split(",") if word.strip()]
    to = re.match(r"r\d+", words[0]) if words else None
    rest = tuple(operand(word) for word in words[1:] if not word.startswith("@"))
    return Said(found[1], found[2], to[0] if to else "-", rest)


def _our_operand(word: str) -> str:
    constant = re.fullmatch(r"#0x([0-9a-f]+)\.w([01])", word)
    if constant:
        return f"0x{int(constant[1], 16) >> 32 * int(constant[2]) & 0xFFFFFFFF:08x}"
    return word


def _mesas_operand(word: str) -> str:
    constant = re.match(r"0x[0-9a-f]{8}", word)
    found = _OPERAND.match(word)
    return constant[0] if constant else found[1] if found else word
