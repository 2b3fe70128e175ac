# SPDX-License-Identifier: BSD-2-Clause
"""Findings that somebody has looked at and accepts: a TOML file with their rules and the reasons.

[[allow]]
rule = "GR501"
action = 12              # left out: wherever the rule is broken
reason = "the jobs take milliseconds"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.audit.rules import RULES, Finding
from trace_format import layout
from trace_format.errors import TraceError
from trace_format.toml_table import Table, loads

MAX_ACTIONS = 1 << 32  # the manifest counts them in 32 bits


class AllowanceError(TraceError):
    """A file of accepted findings that is not of the form above."""


@dataclass(frozen=True)
class Allowance:
    """One entry.

    Attributes:
        rule: id.
        reason: why.
        action: index of the action that it is for; None: all.
    """

    rule: str
    reason: str
    action: int | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether it is about this finding."""
        return self.rule == finding.rule.id and self.action in (None, finding.action)


def read(path: Path) -> list[Allowance]:
    """The entries of a file.

    Raises:
        AllowanceError: it is not of this form; the message names the file and the entry.
    """
    with layout.naming(str(path)):
        top = Table(loads(path.read_bytes(), AllowanceError), "", AllowanceError)
        rows = top.take("allow", list, [])
        top.end()
        return [_allowance(row, f"entry {number}") for number, row in enumerate(rows, 1)]


def _allowance(row: object, where: str) -> Allowance:
    if not isinstance(row, dict):
        raise AllowanceError(where, expected="a table", found=repr(row))
    entry = Table(row, where, AllowanceError)
    rule, reason = entry.text("rule"), entry.text("reason")
    if rule not in RULES:
        raise entry.fail("rule", "one of docs/RULES.md", repr(rule))
    action = entry.number("action", MAX_ACTIONS) if "action" in entry.rows else None
    entry.end()
    return Allowance(rule, reason, action)


def accepted(findings: Sequence[Finding], allowances: Sequence[Allowance]) -> dict[int, str]:
    """Index of each finding that is accepted -> the reason."""
    found = {}
    for index, finding in enumerate(findings):
        for allowance in allowances:
            if allowance.covers(finding):
                found[index] = allowance.reason
                break
    return found
