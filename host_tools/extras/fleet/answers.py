# SPDX-License-Identifier: BSD-2-Clause
"""What an operator asks of the entries: a row for each device, what happened when, which traces and policies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from host_tools.extras.fleet.rows import Rows
from signing.keys import KID_BYTES

PERIODS = {"hour": "%Y-%m-%dT%HZ", "day": "%Y-%m-%d"}
_DEVICES = """
SELECT device, count(*), max(boot), count(*) FILTER (kind = 'replay' AND status = 'OK'), max(seen),
    arg_max(security_version, sequence) FILTER (kind = 'load'),
    arg_max(nullif(trust_version, 0), sequence) FILTER (kind = 'load'),
    arg_max(subject, sequence) FILTER (kind = 'boot')
FROM entries GROUP BY device
"""
_REASONS = """
SELECT device, kind, status, count(*) FROM entries
WHERE kind = 'refusal' OR kind = 'replay' AND status <> 'OK' GROUP BY ALL ORDER BY ALL
"""
_TIMES = """
SELECT date_trunc(?, seen) AS since, trace, count(*) FILTER (kind = 'replay' AND status = 'OK'),
    count(*) FILTER (kind = 'replay' AND status <> 'OK'), count(*) FILTER (kind = 'refusal'),
    count(DISTINCT device)
FROM entries WHERE kind IN ('replay', 'refusal') GROUP BY ALL ORDER BY ALL
"""
# One answer for each device and what is strange there: a first entry.
_TRACES = """
SELECT device, arg_min(file, sequence), min(sequence), trace, subject FROM entries
WHERE kind <> 'boot' AND subject <> repeat('0', 64) AND NOT list_contains(?, subject)
GROUP BY device, trace, subject
ORDER BY device, min(sequence)
"""
_POLICIES = """
SELECT device, arg_min(file, sequence), min(sequence), trust_policy, trust_version FROM entries
WHERE kind = 'load' AND (trust_policy IS NULL OR NOT list_contains(?, trust_policy)) GROUP BY ALL
ORDER BY device, min(sequence)
"""


def devices(rows: Rows) -> dict[str, dict[str, Any]]:
    """Name -> what its entries say; devices without a proven entry are not there."""
    reasons: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for device, kind, status, count in rows.ask(_REASONS):
        reasons[device, kind][status] = count
    return {
        device: {
            "entries": entries,
            "boots": boots,
            "replays": replays,
            "failed": reasons.get((device, "replay"), {}),
            "refusals": reasons.get((device, "refusal"), {}),
            "last_seen": time_text(seen),
            "security_version": security,
            "trust_version": trust,
            "firmware": firmware,
        }
        for device, entries, boots, replays, seen, security, trust, firmware in rows.ask(_DEVICES)
    }


def time_line(rows: Rows, period: str) -> list[dict[str, Any]]:
    """Replays and refusals by hour or day in which they were collected, and trace."""
    return [
        {
            "since": since.strftime(PERIODS[period]),
            "trace": trace,
            "replays": replays,
            "failed": failed,
            "refusals": refusals,
            "devices": count,
        }
        for since, trace, replays, failed, refusals, count in rows.ask(_TIMES, [period])
    ]


def other_traces(rows: Rows, known: Collection[bytes]) -> list[tuple[str, str, int, str]]:
    """Traces that are none of those: device, file, number of the first entry about it, a sentence."""
    return [
        (device, file, number, f"about the trace {trace} (head {subject}), which is none of those given")
        for device, file, number, trace, subject in rows.ask(_TRACES, [[one.hex() for one in known]])
    ]


def other_policies(rows: Rows, known: Collection[bytes]) -> list[tuple[str, str, int, str]]:
    """Loads under trust policies that are none of those, as `other_traces`."""
    return [
        (device, file, number, f"a trace was accepted under {_policy(policy, version)}")
        for device, file, number, policy, version in rows.ask(_POLICIES, [[one.hex() for one in known]])
    ]


def _policy(policy: str | None, version: int) -> str:
    if policy is None:
        return "no trust policy"
    return f"the trust policy {policy[: 2 * KID_BYTES]}, version {version}, which is none of those given"


def time_text(seen: datetime) -> str:
    """A time (UTC) as it is printed."""
    return seen.strftime("%Y-%m-%dT%H:%M:%SZ")
