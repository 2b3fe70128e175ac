# SPDX-License-Identifier: BSD-2-Clause
"""What `lint` and `report` say of a trace: one set of findings, one rule for what fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host_tools.audit.allowed import Allowance, accepted
from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.findings import counts_of, fails
from host_tools.audit.flow import Flow
from host_tools.audit.lint import lint
from host_tools.audit.rules import Finding, Severity
from trace_format.trace import Trace


@dataclass(frozen=True)
class Judged:
    """What was found.

    Attributes:
        findings: all of them.
        reasons: index of a finding that is accepted -> why.
        flow: where its data goes; None: that was not asked for, or is not known.
    """

    findings: Sequence[Finding]
    reasons: Mapping[int, str]
    flow: Flow | None

    @property
    def counts(self) -> Counter[Severity]:
        """How many there are of each severity, without those that are accepted."""
        return counts_of(self.findings, self.reasons)

    def passes(self, *, strict: bool) -> bool:
        """Whether there is no error; with `strict` no warning either."""
        return not fails(self.counts, strict)


def judged(trace: Trace, allowances: Sequence[Allowance] = (), *, dynamic: bool) -> Judged:
    """Judge a trace by all rules.

    Args:
        trace: as `lint`.
        allowances: what is accepted.
        dynamic: follow its data too.

    Raises:
        BuildError: the virtual GPU cannot be compiled.
    """
    more, flow = lint_dynamic(trace) if dynamic else ([], None)
    findings = [*lint(trace), *more]
    return Judged(findings, accepted(findings, allowances), flow)
