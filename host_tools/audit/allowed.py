# SPDX-License-Identifier: BSD-2-Clause
"""Findings that somebody has looked at and accepts: a TOML file with their rules and the reasons.

[[allow]]
rule = "GR501"
action = 12              # left out: wherever the rule is broken
reason = "the jobs take milliseconds"
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.audit.rules import RULES, Finding
from trace_format.errors import GramophoneError

KEYS = {"rule": str, "action": int, "reason": str}


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
        GramophoneError: it is not of this form; the message names the file and the entry.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise GramophoneError(f"{path}: {error}") from error
    entries = data.get("allow", [])
    if set(data) - {"allow"} or not isinstance(entries, list):
        raise GramophoneError(f"{path}: expected [[allow]] entries only, found {', '.join(data)}")
    found = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: entry {number}"
        if not isinstance(entry, dict) or set(entry) - set(KEYS):
            raise GramophoneError(f"{where}: expected rule, reason and perhaps action, found {entry}")
        wrong = [key for key, value in entry.items() if type(value) is not KEYS[key]]
        if wrong or not entry.get("reason") or entry.get("rule") not in RULES:
            raise GramophoneError(f"{where}: expected a rule of docs/RULES.md and a reason, found {entry}")
        found.append(Allowance(entry["rule"], entry["reason"], entry.get("action")))
    return found


def accepted(findings: Sequence[Finding], allowances: Sequence[Allowance]) -> dict[int, str]:
    """Index of each finding that is accepted -> the reason."""
    found = {}
    for index, finding in enumerate(findings):
        for allowance in allowances:
            if allowance.covers(finding):
                found[index] = allowance.reason
                break
    return found
