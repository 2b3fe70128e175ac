# SPDX-License-Identifier: BSD-2-Clause
"""Findings in a firmware that somebody has looked at and accepts: a TOML file with their rules and the reasons.

[[allow]]
rule = "GF201"
where = "gr_board_start"   # function, section or table; left out: wherever the rule is broken
reason = "the board's counter has to be switched on"
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from host_tools.audit.allowed import accepted as accepted
from host_tools.audit.allowed import entries
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from trace_format.toml_table import Table


@dataclass(frozen=True)
class Allowance:
    """One entry: rule, reason, and the place that it is for or ""; a function's clones have its name."""

    rule: str
    reason: str
    where: str = ""

    def covers(self, finding: FirmwareFinding) -> bool:
        """Whether it is about this finding."""
        function = finding.where.partition("+")[0]
        places = ("", finding.where, function, function.partition(".")[0])
        return self.rule == finding.rule.id and self.where in places


def read(path: Path) -> list[Allowance]:
    """The entries of a file; AllowanceError: see `host_tools.audit.allowed.entries`."""

    def entry(rule: str, reason: str, row: Table) -> Allowance:
        return Allowance(rule, reason, row.text("where") if "where" in row.rows else "")

    return entries(path, RULES, "docs/FIRMWARE-RULES.md", entry)
