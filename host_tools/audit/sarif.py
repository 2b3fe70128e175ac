# SPDX-License-Identifier: BSD-2-Clause
"""Findings as SARIF 2.1.0 (OASIS, 2020), which code hosts and editors show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from host_tools.audit.findings import AnyFinding, AnyRule
from host_tools.support.version import VERSION

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def sarif(
    program: str,
    rules: Mapping[str, AnyRule],
    file: str,
    findings: Sequence[AnyFinding],
    allowed: Mapping[int, str],
) -> dict[str, Any]:
    """The log of one run.

    Args:
        program: that judged.
        rules: all that it has.
        file: that was judged, as it was named.
        findings: all of them.
        allowed: index of a finding that is accepted -> the reason.
    """
    order = list(rules)
    results = []
    for index, finding in enumerate(findings):
        result: dict[str, Any] = {
            "ruleId": finding.rule.id,
            "ruleIndex": order.index(finding.rule.id),
            "level": finding.rule.severity.value,
            "message": {"text": f"{finding.place}: {finding.text}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": file}},
                    "logicalLocations": [{"name": finding.place, "kind": "element"}],
                }
            ],
        }
        if index in allowed:
            result["suppressions"] = [{"kind": "external", "justification": allowed[index]}]
        results.append(result)
    described = [
        {
            "id": rule.id,
            "name": rule.name,
            "shortDescription": {"text": rule.name},
            "fullDescription": {"text": rule.description},
            "defaultConfiguration": {"level": rule.severity.value},
        }
        for rule in rules.values()
    ]
    driver = {"name": program, "version": VERSION, "rules": described}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
