# SPDX-License-Identifier: BSD-2-Clause
"""Which rules a trace breaks by what the host's parser, or a device, says of it."""

from __future__ import annotations

from host_tools.audit.rules import RULES, Rule
from tee_replayer.generator.status import Report
from trace_format.actions import Op
from trace_format.errors import OtherPolicyError, ProfileError, RegisterRangeError, TraceError
from trace_format.policy import PlaceError, PolicyError
from trace_format.schema.report import Phase, Status

_AT_LOADING = {
    **dict.fromkeys(("READ", "FORMAT", "SIZE", "HEADER", "SECTIONS", "MANIFEST"), ("GR001",)),
    **dict.fromkeys(("SLOTS", "NETWORKS", "PIECES", "CHUNK", "CODEC", "ACTION"), ("GR001",)),
    "ENVELOPE": ("GR001", "GR003"),
    **dict.fromkeys(("KEY", "SIGNATURE"), ("GR003",)),
    **dict.fromkeys(("TARGET", "PROFILE"), ("GR004",)),
    **dict.fromkeys(("IDENTITY", "ROLLBACK", "MEMORY"), ("GR005",)),
    "REGISTER": ("GR101",),
    "RANGE": ("GR001",),
    "UNBOUND": ("GR406",),
    "BUDGET": ("GR501",),
}
_RUNNING = {
    **dict.fromkeys(("NO_IRQ", "TIMEOUT", "DIVERGED", "IDENTITY"), ("GR604",)),
    "ACTION": ("GR405",),
    "REGISTER": ("GR102", "GR103", "GR305"),
    "RANGE": ("GR202",),
    "UNBOUND": ("GR406",),
    "BUDGET": ("GR501", "GR502", "GR503"),
    "BUSY": ("GR601",),
    "FAULT": ("GR301", "GR303", "GR304"),
}
_ON_SLOTS = (Op.COPY_TO_GPU, Op.COPY_FROM_GPU, Op.OPERATE)
RUNNING = (Phase.PROLOGUE, Phase.REPLAY)


def rules_of_report(report: Report) -> tuple[Rule, ...]:
    """The rules that a device's report may be about, nearest first.

    Most statuses belong to one rule. A fault is a fault to the GPU, whatever was wrong with an address; a mapping
    that is refused at loading reaches outside the carve-out (GR001) or makes code of what is not in the image
    (GR202, GR203); and a signature of another kind is not of the envelope's one form.

    Returns:
        none of a success, and of what is not about the trace (a GPU without power, a malformed request).
    """
    running = report.phase in RUNNING
    found = (_RUNNING if running else _AT_LOADING).get(report.name, ())
    if report.name == Status.RANGE.name:
        if running and report.op in _ON_SLOTS:
            found = ("GR401",)
        elif not running and report.op == Op.MAP_GPU_MEM:
            found = ("GR001", "GR202", "GR203")
    elif report.name == Status.ACTION.name and report.op == Op.OPERATE and not running:
        found = ("GR001", "GR606")
    return tuple(RULES[name] for name in found)


def rule_of_error(error: TraceError) -> Rule:
    """The rule that a file breaks which the host's parser, or its policy, refuses."""
    if isinstance(error, OtherPolicyError | ProfileError):
        return RULES["GR004"]
    if isinstance(error, PlaceError):
        return RULES["GR606"]
    return RULES["GR101" if isinstance(error, PolicyError | RegisterRangeError) else "GR001"]
