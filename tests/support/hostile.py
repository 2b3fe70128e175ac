# SPDX-License-Identifier: BSD-2-Clause
"""Hostile traces: each breaks one rule, and is signed with the key that the devices trust.

`TABLE` has them all, with what a device and the host say of each. The same rows are given to the host's parser and
policy (tests/unit), to the C core on this machine (tests/vgpu), to firmware on Unicorn and QEMU (tests/emulated,
tests/qemu) and to OP-TEE's pseudo-TA (tests/optee), which must all give the status that the row says.

Rows are made where they belong by subject: hostile_envelope.py, hostile_file.py (layout, chunks, codecs),
hostile_manifest.py, hostile_slots.py, hostile_actions.py, hostile_operators.py,
hostile_mali.py, and hostile_runs.py for those that load and are stopped when they run.
"""

from __future__ import annotations

import contextlib

from host_tools.audit.lint import lint
from host_tools.audit.verdicts import rule_of_error, rules_of_report
from signing import envelope
from signing.verify import Verdict, verify_trace
from tee_replayer.generator.status import ReplayError, Report
from tests.support import (
    hostile_actions,
    hostile_envelope,
    hostile_file,
    hostile_mali,
    hostile_manifest,
    hostile_operators,
    hostile_rows,
    hostile_runs,
    hostile_slots,
)
from tests.support import replayer_samples as s
from tests.support.hostile_rows import MALI, Hostile, Unseen, rows
from trace_format import policy
from trace_format.errors import TraceError
from trace_format.schema.report import Phase
from trace_format.trace import Trace

LOADS: tuple[Hostile, ...] = (
    *hostile_envelope.ROWS,
    *hostile_file.ROWS,
    *hostile_manifest.ROWS,
    *hostile_slots.ROWS,
    *hostile_actions.ROWS,
    *hostile_operators.ROWS,
    *hostile_mali.ROWS,
)
RUNS: tuple[Hostile, ...] = hostile_runs.ROWS + hostile_operators.RUNS
TABLE: tuple[Hostile, ...] = LOADS + RUNS
# Refused by what a device has and what a replay comes to, which no host sees.
ONLY_A_DEVICE = hostile_operators.ONLY_A_DEVICE
# What the rows start from: nothing is wrong with it, on any side.
GOOD: tuple[Hostile, ...] = (
    *rows([("good: the trace", lambda p: p, "OK", Unseen("nothing is wrong"))], hostile_rows.good),
    *rows([("good: a tensor of 4 GiB", lambda p: p, "OK", Unseen("nothing is wrong"))], hostile_slots.overlapping),
    *rows([("good: optional sections", hostile_file.OPTIONAL, "OK", Unseen("nothing is wrong"))]),
    *rows([("good: an LZ4 image", hostile_file.COMPRESSED, "OK", Unseen("nothing is wrong"))]),
    *rows([("good: the trace", lambda p: p, "OK", Unseen("nothing is wrong"))], hostile_mali.good, MALI),
    *hostile_runs.GOOD,
    *hostile_operators.GOOD,
)


def by_host(data: bytes) -> str:
    """What the host says of a signed file.

    Returns:
        The name of its error's class; a verdict of `verify_trace` other than "malformed"; "" when it has no
        objection.
    """
    try:
        result = verify_trace(data, [s.KEY])
        if result.verdict not in (Verdict.VERIFIED, Verdict.MALFORMED):
            return result.verdict.value
        policy.check(Trace.parse(result.trace or envelope.split(data).trace))
    except TraceError as error:
        return type(error).__name__
    return "" if result else result.verdict.value


def by_core(row: Hostile, device: s.Device) -> Report:
    """What the core says of a row when it loads it."""
    try:
        return device.replayer.load(row.make(), s.KEY)
    except ReplayError as error:
        return error.report


def check_refused(row: Hostile, report: Report, device: s.Device) -> None:
    """Host and core refuse a row as it says, and the core leaves nothing behind."""
    assert (report.name, report.phase) == (row.status, Phase.LOAD)
    assert not device.gpu.log, "a register was written"
    assert device.is_wiped
    assert by_host(row.make()) == row.error
    assert rules_of_report(report)


def rules_by_host(data: bytes) -> set[str]:
    """Ids of the rules that a signed file breaks, by the host's parser, `lint` and `verify`."""
    found = set()
    with contextlib.suppress(TraceError):
        if verify_trace(data, [s.KEY]).verdict in (Verdict.UNKNOWN_KEY, Verdict.BAD_SIGNATURE):
            found.add("GR003")
    try:
        return found | {finding.rule.id for finding in lint(Trace.parse(envelope.split(data).trace))}
    except TraceError as error:
        return found | {rule_of_error(error).id}
