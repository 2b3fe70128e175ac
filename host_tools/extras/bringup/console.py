# SPDX-License-Identifier: BSD-2-Clause
"""What a bring-up firmware says on its console, read line by line; other lines are passed over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

STAGES = (
    *("speaks", "power", "identity", "registers", "irq", "fault", "copy", "lenet", "thousand", "timing"),
    *("world", "handed-back"),
)
_STAGE = re.compile(r"stage ([a-z-]+) (ok|failed)((?: [a-z_]+=[0-9a-zx]+)*)")
_REGISTER = re.compile(r"register offset=(0x[0-9a-f]{8}) value=(0x[0-9a-f]{8})")
_OUTPUT = re.compile(r"output (\S{1,32}) sha256=([0-9a-f]{64})(?: words=((?:[0-9a-f]{8},?)+))?")
_TIME = re.compile(r"(time|estimate) trace=(\d{1,3})((?: [a-z_]+=[0-9a-zx]+)*)")
_BEFORE = re.compile(r"before (\S{1,32}) sha256=([0-9a-f]{64})")
_EXCEPTION = re.compile(r"exception address=(0x[0-9a-f]{8,16})")
_NUMBER = re.compile(r"0x([0-9a-f]{1,16})|(\d{1,20})")
_END = re.compile(r"[=!][0-9a-f]{8}")
# The words that begin a line, because a runner may give all lines as one.
_AFTER = re.compile(r"(?m)^([=!][0-9a-f]{8}) ")  # what QEMU itself says
_BEGINS = re.compile(r" (?=(?:stage|register|output|time|exception) |[=!][0-9a-f]{8}\b)")


@dataclass
class Said:
    """A stage as it was said."""

    ok: bool
    values: Mapping[str, int]


@dataclass
class Output:
    """An output: its hash, and the words of a small one."""

    sha256: str
    words: tuple[int, ...] = ()


@dataclass
class Console:
    """All that was said.

    Attributes:
        registers: offset -> value, before anything was written.
        outputs: stage -> name -> output.
        times: of the timed traces.
        estimates, before: of a kit: times in microseconds, and hashes of pages before their jobs.
        exception: address of one; None: there was none.
        ended: the last line came.
    """

    stages: dict[str, Said] = field(default_factory=dict)
    registers: dict[int, int] = field(default_factory=dict)
    outputs: dict[str, dict[str, Output]] = field(default_factory=dict)
    times: dict[int, Mapping[str, int]] = field(default_factory=dict)
    estimates: dict[int, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    exception: int | None = None
    ended: bool = False


def lines_of(text: str) -> str:
    """Lines that a runner has joined."""
    return _AFTER.sub(r"\1\n", _BEGINS.sub("\n", f" {text}"))


def _values(text: str) -> dict[str, int]:
    found = (part.partition("=") for part in text.split())
    numbers = ((name, _NUMBER.fullmatch(value)) for name, _, value in found)
    return {name: int(one[1], 16) if one[1] else int(one[2]) for name, one in numbers if one}


def read(text: str) -> Console:
    """What a log of the console says; a second boot in it replaces what the first one said."""
    found = Console()
    pending: dict[str, Output] = {}
    for line in (line.strip() for line in text.splitlines()):
        if match := _STAGE.fullmatch(line):
            name = match[1]
            if name == STAGES[0]:
                found, pending = Console(estimates=found.estimates, before=found.before), {}
            found.stages[name] = Said(match[2] == "ok", _values(match[3]))
            if pending:
                found.outputs[name], pending = pending, {}
        elif match := _REGISTER.fullmatch(line):
            found.registers[int(match[1], 0)] = int(match[2], 0)
        elif match := _OUTPUT.fullmatch(line):
            words = tuple(int(word, 16) for word in (match[3] or "").split(",") if word)
            pending[match[1]] = Output(match[2], words)
        elif match := _TIME.fullmatch(line):
            if match[1] == "time":
                found.times[int(match[2])] = _values(match[3])
            else:
                found.estimates[int(match[2])] = _values(match[3]).get("us", 0)
        elif match := _BEFORE.fullmatch(line):
            found.before[match[1]] = match[2]
        elif match := _EXCEPTION.fullmatch(line):
            found.exception = int(match[1], 0)
        elif _END.fullmatch(line):
            found.ended = True
    return found
