# SPDX-License-Identifier: BSD-2-Clause
"""What a project has come to: a row for each trace and each target, from what the tasks' commands said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from host_tools.audit.findings import Counts
from host_tools.audit.report.facts import NO_KEY, REFUSED, UNSIGNED, VERIFIED
from host_tools.extras.project.commands.make_file import TRACE_BUDGETS, Network, Project, Target
from host_tools.extras.project.commands.make_tasks import title_of
from host_tools.extras.project.tasks.graph import Done, State
from host_tools.support.results import Count, Result, Sha256, one_of
from host_tools.support.unchanged import content_hash

FIRMWARE = "firmware.bin"
Row = dict[str, Any]  # TraceRow or TargetRow


class FileRow(TypedDict):
    """A file below the folder with the results."""

    path: str
    sha256: Sha256


class ExpectedRow(TypedDict):
    """An output.

    Attributes:
        difference: Relative to the largest value that is expected; null where an output is not finite.
    """

    output: str
    difference: float | None
    ok: bool


class BudgetRow(TypedDict):
    """A budget.

    Attributes:
        found: Null: not known.
        ok: Null: not made yet.
    """

    name: str
    most: Count
    found: float | None
    ok: bool | None


class TraceRow(TypedDict):
    """A trace.

    Attributes:
        title: As tasks and folders are called.
        replay_us: Estimated by a model, as 'gramophone speed time' does; null where it knows nothing.
    """

    title: str
    ok: bool
    errors: list[str]
    warnings: list[str]
    files: list[FileRow]
    network: str
    gpu: str
    trace_bytes: Count | None
    carveout_bytes: Count | None
    jobs: Count | None
    actions: Count | None
    replay_us: float | None
    signature: Annotated[str, one_of(VERIFIED, REFUSED, NO_KEY, UNSIGNED)] | None
    findings: Counts | None
    expected: list[ExpectedRow]
    budgets: list[BudgetRow]


class TargetRow(TypedDict):
    """A target.

    Attributes:
        title: As tasks and folders are called.
        firmware_bytes: Null: compiled elsewhere, or not made.
    """

    title: str
    ok: bool
    errors: list[str]
    warnings: list[str]
    files: list[FileRow]
    target: str
    gpu: str
    platform: str | None
    firmware_bytes: Count | None
    image_bytes: Count | None
    firmware_sha256: Sha256 | None
    budgets: list[BudgetRow]


class TaskRow(Result):
    """A task.

    Attributes:
        name: TRACE/VERB or TARGET/VERB.
        state: Left: something that it uses failed.
        why: What has changed; of one that failed, the error.
        sha256: Of what it made: of a file's content, of a folder's names and contents, or of the answer; null: not
            known.
    """

    name: str
    state: State
    why: str
    sha256: Sha256 | None


class ProgramRow(Result):
    """What would run, or be loaded or compiled, besides this tool, compilers and emulators.

    Attributes:
        where: Table and option.
        what: The option's value.
        source: The file that names it: the project file, or the user's settings.
    """

    where: str
    what: str
    does: str
    source: str


class ProjectMade(Result):
    """What a project has come to.

    Attributes:
        out: Folder with the results.
    """

    dry_run: Literal[False]
    out: str
    tasks: list[TaskRow]
    project: str
    traces: list[TraceRow]
    targets: list[TargetRow]


class ProjectPlan(Result):
    """What would be made of a project.

    Attributes:
        out: Folder with the results.
    """

    dry_run: Literal[True]
    out: str
    tasks: list[TaskRow]
    programs: list[ProgramRow]


def results(project: Project, done: Sequence[Done]) -> Row:
    """The results; the same inputs give the same, whatever had to be made for them."""
    by_name = {row.task.name: row for row in done}
    traces = [_trace(network, gpu, by_name) for network in project.networks.values() for gpu in network.gpus]
    targets = [_target(target, by_name) for target in project.targets.values()]
    return {"project": project.name, "traces": traces, "targets": targets}


def _of(title: str, by_name: Mapping[str, Done]) -> dict[str, Done]:
    """The tasks of a trace or a target, by what they do."""
    return {name.rpartition("/")[2]: row for name, row in by_name.items() if name.rpartition("/")[0] == title}


def _row(title: str, tasks: Mapping[str, Done]) -> Row:
    return {
        "title": title,
        "ok": all(row.entry is not None and row.entry.status == 0 for row in tasks.values()),
        "errors": [f"{row.task.name}: {row.why}" for row in tasks.values() if row.state == State.FAILED],
        "warnings": list(
            dict.fromkeys(
                warning for row in tasks.values() if row.entry for warning in row.entry.data.get("warnings", [])
            )
        ),
        "files": [
            {"path": row.task.place, "sha256": row.entry.sha256}
            for row in tasks.values()
            if row.task.place and row.entry
        ],
    }


def _said(tasks: Mapping[str, Done], what: str) -> dict[str, Any]:
    """What a task's command said; nothing if it has not been done."""
    row = tasks.get(what)
    return row.entry.data if row and row.entry else {}


def _trace(network: Network, gpu: str, by_name: Mapping[str, Done]) -> Row:
    tasks = _of(title_of(network.name, gpu), by_name)
    built, report, replay = (_said(tasks, what) for what in ("build", "report", "replay"))
    estimate = report.get("estimate")
    found = {
        "trace-bytes": built.get("trace_bytes"),
        "carveout-bytes": built.get("carveout_bytes"),
        "jobs": built.get("jobs"),
        "actions": built.get("actions"),
        "replay-us": estimate["us"] if estimate else None,
    }
    row = _row(title_of(network.name, gpu), tasks)
    row |= {"network": network.name, "gpu": gpu}
    row |= {name.replace("-", "_"): found[name] for name in TRACE_BUDGETS}
    row["signature"] = report["signature"]["verdict"] if report else None
    row["findings"] = report.get("counts")
    row["expected"] = [
        {"output": name, "difference": value["difference"], "ok": value["ok"]}
        for name, value in (replay.get("expected") or {}).items()
    ]
    return _judged(row, network.budgets, found, bool(report))


def _target(target: Target, by_name: Mapping[str, Done]) -> Row:
    tasks = _of(target.name, by_name)
    made = tasks.get("make")
    firmware = made.entry.output / FIRMWARE if made and made.entry and made.entry.output else None
    size = firmware.stat().st_size if firmware and firmware.is_file() else None
    image = _said(tasks, "flash")
    found = {"firmware-bytes": size, "image-bytes": image.get("image_bytes")}
    row = _row(target.name, tasks)
    row |= {"target": target.name, "gpu": target.gpu, "platform": _said(tasks, "generate").get("platform")}
    row |= {"firmware_bytes": size, "image_bytes": image.get("image_bytes")}
    row["firmware_sha256"] = content_hash(firmware) if size is not None and firmware else None
    return _judged(row, target.budgets, found, all(done.entry for done in tasks.values()))


def _judged(row: Row, budgets: Mapping[str, int], found: Mapping[str, Any], is_done: bool) -> Row:
    """The row with its budgets; what is not known of what was done, such as a time without a model, is over."""
    row["budgets"] = [
        {
            "name": name,
            "most": most,
            "found": found[name],
            "ok": None if found[name] is None and not is_done else found[name] is not None and found[name] <= most,
        }
        for name, most in budgets.items()
    ]
    row["ok"] = row["ok"] and all(budget["ok"] for budget in row["budgets"])
    return row


def problems(row: Row) -> list[str]:
    """What is wrong in a row, a sentence each."""
    said = list(row["errors"])
    for budget in row["budgets"]:
        if budget["ok"] is False:
            value = "not known" if budget["found"] is None else f"{budget['found']:,.0f}"
            said.append(f"over budget: {budget['name']} {value}, at most {budget['most']:,}")
    for expected in row.get("expected", []):
        if not expected["ok"]:
            said.append(
                f"{expected['output']} is not as expected: differs by {expected['difference']} of its peak"
            )
    if row.get("signature") not in (None, "verified"):
        said.append(f"signature: {row['signature']}")
    if errors := (row.get("findings") or {}).get("error"):
        said.append(f"findings that are errors: {errors}")
    return said or ([] if row["ok"] else ["not made"])
