# SPDX-License-Identifier: BSD-2-Clause
"""What a project has come to: a row for each trace and each target, from what the tasks' commands said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from host_tools.extras.project.commands.make_file import TRACE_BUDGETS, Network, Project, Target
from host_tools.extras.project.commands.make_tasks import title_of
from host_tools.extras.project.tasks.graph import Done, State
from host_tools.support.unchanged import content_hash

FIRMWARE = "firmware.bin"
Row = dict[str, Any]


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
