# SPDX-License-Identifier: BSD-2-Clause
"""Findings that somebody has looked at and accepts: a TOML file with their rules and the reasons.

[[allow]]
rule = "GR501"
action = 12              # left out: wherever the rule is broken
reason = "the jobs take milliseconds"
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from host_tools.audit.rules import RULES, Finding
from trace_format import layout, limits
from trace_format.errors import TraceError
from trace_format.files import read_file
from trace_format.toml_table import Table, loads

MAX_ACTIONS = 1 << 32  # the manifest counts them in 32 bits

Entry = TypeVar("Entry")
AFinding = TypeVar("AFinding")
AFinding_contra = TypeVar("AFinding_contra", contravariant=True)


class AllowanceError(TraceError):
    """A file of accepted findings that is not of the form above."""


class Accepts(Protocol[AFinding_contra]):
    """What the entries of all audits have."""

    @property
    def reason(self) -> str:
        """Why."""

    def covers(self, finding: AFinding_contra) -> bool:
        """Whether it is about this finding."""


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
    """The entries of a file; AllowanceError: see `entries`."""

    def entry(rule: str, reason: str, row: Table) -> Allowance:
        action = row.number("action", MAX_ACTIONS) if "action" in row.rows else None
        return Allowance(rule, reason, action)

    return entries(path, RULES, "docs/RULES.md", entry)


def entries(path: Path, rules: Container[str], page: str, make: Callable[[str, str, Table], Entry]) -> list[Entry]:
    """The entries of a file of any audit.

    Args:
        path: the file.
        rules: ids that there are.
        page: the document that has them.
        make: makes an entry of rule, reason, and the rest of its table.

    Raises:
        AllowanceError: it is not of this form; the message names the file and the entry.
    """

    def entry(found: object, where: str) -> Entry:
        if not isinstance(found, dict):
            raise AllowanceError(where, expected="a table", found=repr(found))
        row = Table(found, where, AllowanceError)
        rule, reason = row.text("rule"), row.text("reason")
        if rule not in rules:
            raise row.fail("rule", f"one of {page}", repr(rule))
        made = make(rule, reason, row)
        row.end()
        return made

    with layout.naming(str(path)):
        top = Table(loads(read_file(path, limits.SMALL_BYTES), AllowanceError), "", AllowanceError)
        rows = top.take("allow", list, [])
        top.end()
        return [entry(row, f"entry {number}") for number, row in enumerate(rows, 1)]


def accepted(findings: Sequence[AFinding], allowances: Sequence[Accepts[AFinding]]) -> dict[int, str]:
    """Index of each finding that is accepted -> the reason."""
    found = {}
    for index, finding in enumerate(findings):
        for allowance in allowances:
            if allowance.covers(finding):
                found[index] = allowance.reason
                break
    return found
