# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone make`: all that a project file names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, say, warn
from host_tools.commands.option_rules import excludes, requires
from host_tools.extras.project.commands.make_bounds import ProjectError
from host_tools.extras.project.commands.make_farm import farm
from host_tools.extras.project.commands.make_file import FILE_NAME, Project, read_project
from host_tools.extras.project.commands.make_results import (
    ProgramRow,
    ProjectMade,
    ProjectPlan,
    TaskRow,
    problems,
    results,
)
from host_tools.extras.project.commands.make_settings import settings_file
from host_tools.extras.project.commands.make_tasks import tasks_of
from host_tools.extras.project.tasks import graph
from host_tools.extras.project.tasks.graph import Done, State
from host_tools.extras.project.tasks.page import page
from host_tools.extras.project.tasks.store import Store, put
from host_tools.support.files import write_atomically
from host_tools.support.unchanged import tool_stamp
from trace_format.errors import GramophoneError, printable
from trace_format.files import read_file_text

WAIT_S = 300
RESULTS, PAGE = "results.json", "results.html"
MADE_OF = ".made-of.json"  # in `out`: what each task was made of the last time, for reasons only


@click.command(
    "make",
    cls=GramophoneCommand,
    example=(
        "gramophone make\ngramophone make --dry-run\ngramophone make vision/gramophone.toml -j 2\n"
        "gramophone make --farm tcp://farm:8786 --farm-store s3://our-bucket/gramophone"
    ),
    renamed={"--on": "--farm", "--store": "--farm-store"},
)
@click.argument("file", type=FILE, required=False)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 10_000),
    help="Tasks at a time; default: 1, or as many as the workers of --farm take.",
)
@click.option(
    "--cache",
    type=FILE,
    help="Folder for results, which may be shared; default: the user's cache.",
)
@click.option(
    "--farm",
    "address",
    metavar="SCHEDULER",
    help="Workers: local:N, for N on this computer, or the address of a Dask scheduler, tcp://HOST:PORT.",
)
@click.option(
    "--farm-store",
    "store_url",
    metavar="URL",
    help="Store of the workers: a URL of fsspec, such as file:///... or s3://... Requires --farm.",
)
@click.option(
    "--worker-timeout",
    "wait_s",
    type=click.FloatRange(1, 1_000_000),
    metavar="SECONDS",
    help=f"Give up when --farm has had no worker for so long; default: {WAIT_S}.",
)
@click.option(
    "--allow-programs",
    is_flag=True,
    help="Run the programs and load the libraries that the project file names.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help=("Print the tasks, their reasons and the programs that they name; run nothing."),
)
@excludes("--dry-run", "--farm")
@requires("--farm-store", "--farm")
@requires("--worker-timeout", "--farm")
def make_command(
    file: Path | None,
    jobs: int | None,
    cache: Path | None,
    address: str | None,
    store_url: str | None,
    wait_s: float | None,
    allow_programs: bool,
    dry_run: bool,
) -> Outcome[ProjectMade | ProjectPlan]:
    """Build everything in a project file that is out of date.

    Results are traces, firmware and images. docs/PROJECT.md describes the file, gramophone.toml. A task is
    repeated if a file's content, an option, a package or the tool has changed. Results are kept in the cache and
    copied to the folder `out`, with reports and a table (results.json, results.html). If a task fails,
    independent tasks continue. After an interrupt, `make` continues with the remaining tasks.

    Exit status 1: a task failed, a result is not as expected, or a budget is exceeded.
    """
    project = read_project(file or Path(FILE_NAME))
    tasks = tasks_of(project)
    store, tool, before = Store(cache), tool_stamp(), _before(project)
    if dry_run:
        return _plan(graph.plan(tasks, store, tool, before), project)
    if not allow_programs:
        _check_programs(project)
    project.out.mkdir(parents=True, exist_ok=True)
    made_of = dict(before)

    def told(done: Done) -> None:
        """Of each task at once: an interrupt keeps what was made until then."""
        if done.entry and done.ingredients:
            made_of[done.task.name] = dict(done.ingredients)
        if done.entry and done.task.place:
            put(done.entry, project.out / done.task.place)
        if done.state != State.UP_TO_DATE:
            said = f"{done.task.name}: {done.state}"
            say(f"{said} ({done.why})" if done.state == State.MADE else f"{said}: {done.why}")

    try:
        if address is None:
            done = graph.run(tasks, store, tool, before, jobs=jobs or 1, told=told)
        else:
            with farm(address, store_url, store, tool, wait_s or WAIT_S) as (hands, slots):
                done = graph.run(tasks, store, tool, before, jobs=jobs or slots, hands=hands, told=told)
    finally:
        write_atomically(project.out / MADE_OF, json.dumps(made_of, sort_keys=True).encode())
    found = results(project, done)
    rows = [*found["traces"], *found["targets"]]
    ok = all(row["ok"] for row in rows)
    write_atomically(project.out / RESULTS, json.dumps({"ok": ok, **found}, indent=1).encode() + b"\n")
    write_atomically(project.out / PAGE, page(found, {row["title"]: problems(row) for row in rows}).encode())
    for warning in dict.fromkeys(f"{row['title']}: {text}" for row in rows for text in row["warnings"]):
        warn(warning)
    data = ProjectMade(dry_run=False, out=str(project.out), tasks=[_task(row) for row in done], **found)
    return Outcome(data, "\n".join(_lines(found, project, done)), ok)


def _check_programs(project: Project) -> None:
    """A project file by itself starts nothing; ProjectError names the first program that it would."""
    for program in project.programs:
        if program.is_projects:
            raise ProjectError(
                f"{program.where} {program.does}: {program.what}. A project file may not do that by itself: "
                f"name it in {settings_file()}, or add --allow-programs if you trust this project",
                file=str(project.file),
            )


def _before(project: Project) -> Mapping[str, Mapping[str, str]]:
    """What each task was made of the last time; nothing where that is not known."""
    try:
        said = json.loads(read_file_text(project.out / MADE_OF))
        return said if isinstance(said, dict) and all(isinstance(row, dict) for row in said.values()) else {}
    except (OSError, ValueError):
        return {}


def _task(done: Done) -> TaskRow:
    return TaskRow(done.task.name, done.state, done.why, done.entry.sha256 if done.entry else None)


def _plan(done: list[Done], project: Project) -> Outcome[ProjectPlan]:
    """What a dry run says; an input that cannot be read is an error."""
    for row in done:
        if row.state == State.FAILED:
            raise GramophoneError(f"{project.file}: {row.task.name}: {row.why}")
    programs = [ProgramRow(row.where, row.what, row.does, str(row.source)) for row in project.programs]
    data = ProjectPlan(True, str(project.out), [_task(row) for row in done], programs)
    lines = [f"{row.state.value:11} {row.task.name}{': ' + row.why if row.why else ''}" for row in done]
    lines += [f"{row.does}: {row.what} ({row.source}: {row.where})" for row in project.programs]
    to_do = sum(row.state == State.TO_DO for row in done)
    return Outcome(data, "\n".join([*map(printable, lines), f"{to_do} of {len(done)} tasks to do"]))


def _lines(found: dict[str, Any], project: Project, done: list[Done]) -> list[str]:
    rows = []
    width = max(len(row["title"]) for row in (*found["traces"], *found["targets"]))
    for row in (*found["traces"], *found["targets"]):
        size = row.get("trace_bytes", row.get("image_bytes"))
        what = f"{size} bytes" if size is not None else ""
        if row.get("jobs") is not None:
            what += f", {row['jobs']} jobs"
        rows.append(f"{'ok' if row['ok'] else 'NOT ok':6} {row['title']:{width}} {what}".rstrip())
        rows += [f"       {text}" for text in problems(row)]
    counts = {state: sum(row.state == state for row in done) for state in State}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return [*map(printable, rows), f"{project.out / PAGE}: {said}"]
