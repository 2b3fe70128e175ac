# SPDX-License-Identifier: BSD-2-Clause
"""Findings as SARIF 2.1.0 (OASIS, 2020), which code hosts and editors show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from host_tools.audit.rules import RULES, Finding
from host_tools.support.version import VERSION

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def sarif(file: str, findings: Sequence[Finding], allowed: Mapping[int, str]) -> dict[str, Any]:
    """The log of one run.

    Args:
        file: that was judged, as it was named.
        findings: all of them.
        allowed: index of a finding that is accepted -> the reason.
    """
    order = list(RULES)
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
    rules = [
        {
            "id": rule.id,
            "name": rule.name,
            "shortDescription": {"text": rule.name},
            "fullDescription": {"text": f"{rule.reason}. Device: {rule.device}."},
            "defaultConfiguration": {"level": rule.severity.value},
        }
        for rule in RULES.values()
    ]
    driver = {"name": "gramophone lint", "version": VERSION, "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
