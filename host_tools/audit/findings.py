# SPDX-License-Identifier: BSD-2-Clause
"""What the findings of all audits have in common: of traces, and of firmware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

from host_tools.audit.report.words import counted
from host_tools.audit.rules import Severity
from host_tools.support.results import Count, Result, one_of

SeverityName = Annotated[str, one_of(*(severity.value for severity in Severity))]


class Counts(Result):
    """How many findings there are that are not allowed."""

    error: Count
    warning: Count
    note: Count


class AnyRule(Protocol):
    """What the rules of all audits have."""

    @property
    def id(self) -> str:
        """Stable name."""

    @property
    def name(self) -> str:
        """In a few words."""

    @property
    def severity(self) -> Severity:
        """Of its findings."""

    @property
    def description(self) -> str:
        """In a sentence or two."""


class AnyFinding(Protocol):
    """What the findings of all audits have."""

    @property
    def rule(self) -> AnyRule:
        """The rule that is broken."""

    @property
    def text(self) -> str:
        """What was found."""

    @property
    def place(self) -> str:
        """Where, in words."""


def counts_of(findings: Sequence[AnyFinding], reasons: Mapping[int, str]) -> Counter[Severity]:
    """How many findings of each severity there are, without those that are accepted.

    Args:
        findings: all of them.
        reasons: index of a finding that is accepted -> why.
    """
    return Counter(item.rule.severity for index, item in enumerate(findings) if index not in reasons)


def counts_for_json(counts: Mapping[Severity, int]) -> Counts:
    """The same, for `--json`."""
    return Counts(**{severity.value: counts[severity] for severity in Severity})


def fails(counts: Mapping[Severity, int], strict: bool) -> bool:
    """Whether a command with such findings fails."""
    return bool(counts[Severity.ERROR] or (strict and counts[Severity.WARNING]))


def summary(counts: Mapping[Severity, int]) -> str:
    """`0 errors, 1 warning, 2 notes`."""
    return ", ".join(counted(counts[severity], severity.value) for severity in Severity)


def line(finding: AnyFinding, reason: str | None) -> str:
    """One finding: `error    GR301 action 12: the code at GPU address 0x0 is not mapped`."""
    text = f"{finding.rule.severity.value:8} {finding.rule.id} {finding.place}: {finding.text}"
    return text if reason is None else f"{text} (accepted: {reason})"
