# SPDX-License-Identifier: BSD-2-Clause
"""Commands for who has to judge a trace from someone else: lint."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import click

from host_tools.accesses.job_times import Estimated, estimated
from host_tools.audit.allowed import read
from host_tools.audit.findings import Counts, SeverityName, counts_for_json, line, summary
from host_tools.audit.flow import Flow
from host_tools.audit.outcome import judged
from host_tools.audit.report.words import counted
from host_tools.audit.rules import RULES
from host_tools.audit.sarif import sarif
from host_tools.audit.verdicts import rule_of_error
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.traces import read_trace
from host_tools.model.job_names import name_before, names_by_action
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result
from trace_format.errors import GramophoneError, TraceError, printable
from trace_format.trace import Trace


class LintFinding(Result):
    """What breaks a rule.

    Attributes:
        rule: As in docs/RULES.md.
        action: Index; null: the trace as a whole.
        job: What the recording calls the job that this action is of; empty: nothing.
        allowed: The reason, of one that --allow names.
    """

    rule: str
    severity: SeverityName
    action: Count | None
    job: str
    text: str
    allowed: str | None


class Linted(Result):
    """What breaks a rule in a trace.

    Attributes:
        flow: Null: without --dynamic, or where data cannot be followed.
        estimate: With --dynamic; null where the model knows nothing.
    """

    findings: list[LintFinding]
    counts: Counts
    flow: Flow | None
    estimate: Estimated | None


@click.command(
    "lint",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone lint net.sgtr --strict\n"
    "gramophone lint net.gtr --dynamic\n"
    "gramophone lint net.gtr --allow accepted.toml --sarif net.sarif",
)
@click.argument("file", type=FILE)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--dynamic", is_flag=True, help="Also replay the trace on the virtual GPU and follow its data.")
@click.option("--allow", type=FILE, help="TOML file with accepted findings, each with a reason.")
@click.option("--sarif", "sarif_file", type=FILE, help="Also write the findings as SARIF 2.1.0.")
def lint_command(
    file: Path, strict: bool, dynamic: bool, allow: Path | None, sarif_file: Path | None
) -> Outcome[Linted]:
    """Check a trace by rules, without a GPU.

    With --dynamic, `lint` also replays the trace on the virtual GPU, and follows its data from inputs through
    jobs to outputs.

    docs/RULES.md has the rules. A signature is not verified; `gramophone verify trace` does that. Exit status 1:
    --allow does not name an error, or with --strict a warning.
    """
    allowances = read(allow) if allow else []
    if sarif_file:
        check_writable(sarif_file)
    try:
        trace = read_trace(file, joint=True)[0]
    except TraceError as error:
        raise GramophoneError(f"{error} [{rule_of_error(error).id}]") from error
    with phase("following data on the virtual GPU") if dynamic else nullcontext():
        found = judged(trace, allowances, dynamic=dynamic)
    estimate = _estimate(trace) if dynamic and not trace.networks else None
    findings, reasons, flow = found.findings, found.reasons, found.flow
    if sarif_file:
        log = sarif("gramophone lint", RULES, str(file), findings, reasons)
        write_atomically(sarif_file, json.dumps(log, indent=1).encode() + b"\n")
    names = names_by_action(trace)
    jobs = ["" if item.action is None else name_before(names, item.action) for item in findings]
    lines = [
        line(finding, reasons.get(index)) + (f" ({jobs[index]})" if jobs[index] else "")
        for index, finding in enumerate(findings)
    ]
    lines += _flow(flow) if flow else []
    lines += [f"time     estimated, not measured: {estimate.text()}"] if estimate else []
    lines.append(summary(found.counts))
    data = Linted(
        findings=[
            LintFinding(
                finding.rule.id,
                finding.rule.severity.value,
                finding.action,
                jobs[index],
                finding.text,
                reasons.get(index),
            )
            for index, finding in enumerate(findings)
        ],
        counts=counts_for_json(found.counts),
        flow=flow,
        estimate=estimate,
    )
    return Outcome(data, "\n".join(lines), ok=found.passes(strict=strict))


def _estimate(trace: Trace) -> Estimated | None:
    """How long a replay takes by the model; nothing of a trace that cannot be replayed, which findings say."""
    try:
        return estimated(trace)
    except GramophoneError:
        return None


def _flow(flow: Flow) -> list[str]:
    """What each output depends on: `flow     prob: 40 bytes depend on data, through 14 jobs`."""
    lines = []
    for output in flow.outputs:
        sizes: Counter[tuple[str, ...]] = Counter()
        for part in output.parts:
            sizes[part.slots] += part.bytes
        for slots, size in sizes.items():
            names = ", ".join(map(printable, slots)) or "no slot"
            through = counted(len(flow.through(output.name)), "job")
            lines.append(
                f"flow     {printable(output.name)}: {counted(size, 'byte')} of {names}, through {through}"
            )
    return lines
