# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone fleet`: the logs of many devices, verified, as a table and a time line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import click

from host_tools.commands.extras import extra
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, warn
from host_tools.commands.streams import check_output
from host_tools.commands.traces import trace_bytes
from host_tools.commands.verify_report import POLICIES, TRACE, policies_of, status_name
from host_tools.support.results import Count, Positive, Result, Sha256, one_of
from signing.replay_log import head_hash
from trace_format.errors import listed, printable

TOLD = 5  # problems of a device that are printed
_NONE: dict[str, Any] = {
    "entries": 0,
    "boots": 0,
    "replays": 0,
    "failed": {},
    "refusals": {},
    "last_seen": None,
    "security_version": None,
    "trust_version": None,
    "firmware": None,
}


class Totals(Result):
    """Of all devices.

    Attributes:
        broken: Devices with findings.
        silent: Devices without a log.
        without_end: Devices with a log of which it is not known where it ended.
        failed: By status.
        refusals: By status.
    """

    devices: Count
    broken: Count
    silent: Count
    without_end: Count
    entries: Count
    boots: Count
    replays: Count
    failed: dict[str, Positive]
    refusals: dict[str, Positive]
    last_seen: str | None


class FleetFinding(Result):
    """What is wrong with a log.

    Attributes:
        file: With the number of the entry in it, if it is about one.
        sequence: Number that the device gave the entry, or the first missing one.
    """

    fault: str
    file: str | None
    sequence: Count | None
    text: str


class DeviceFacts(Result):
    """A device.

    Attributes:
        files: Pieces of its log.
        has_end: Whether it is known where its log ended; otherwise nobody can tell whether the last entries are
            missing.
        entries: That are proven.
        replays: That succeeded.
        failed: Replays that did not succeed, by status.
        refusals: Traces that were refused, by status.
        last_seen: When its newest file was collected (UTC).
        security_version: Of the trace that was loaded last.
        trust_version: Version of the trust policy of the last load that was under one.
        firmware: Hash that the last boot has of the firmware.
        findings: Empty: nothing is wrong.
    """

    device: str
    files: Count
    has_end: bool
    entries: Count
    boots: Count
    replays: Count
    failed: dict[str, Positive]
    refusals: dict[str, Positive]
    last_seen: str | None
    security_version: Count | None
    trust_version: Count | None
    firmware: Sha256 | None
    findings: list[FleetFinding]


class TimeLine(Result):
    """What devices have done in an hour or a day.

    Attributes:
        since: The hour or day (UTC) in which the files were collected.
        trace: The file that was given with --trace, or the trace's id; 'without a good signature'.
        devices: How many did that.
    """

    since: str
    trace: str
    replays: Count
    failed: Count
    refusals: Count
    devices: Count


class Fleet(Result):
    """What many devices have logged, and whose log is broken.

    Attributes:
        strange_files: Logs, attestations and unreadable folders that are of no enrolled device.
        rows: The Parquet file that was written.
    """

    folder: str
    totals: Totals
    devices: list[DeviceFacts]
    period: Annotated[str, one_of("hour", "day")]
    time_line: list[TimeLine]
    strange_files: list[str]
    rows: str | None


@click.command(
    "fleet",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone fleet collected --devices enrolled --trace net.sgtr\n"
        "gramophone fleet collected --devices enrolled --by day -o fleet.parquet\n"
        "gramophone fleet s3://our-bucket/collected --devices enrolled"
    ),
)
@click.argument("logs", metavar="FOLDER|URL")
@click.option(
    "--devices",
    "enrolled",
    type=FILE,
    required=True,
    help="Folder with a folder of 'gramophone enrol' for each device, named as the device.",
)
@TRACE
@POLICIES
@click.option(
    "--by",
    "period",
    type=click.Choice(["hour", "day"]),
    default="hour",
    show_default=True,
    help="Row of the table: a period of the time line.",
)
@click.option(
    "--all", "every", is_flag=True, help="All devices: print a row for each, not only of those to look at."
)
@click.option("-o", "--output", type=FILE, help="Parquet file to write, with a row for each proven entry.")
def fleet_command(
    logs: str,
    enrolled: Path,
    traces: tuple[Path, ...],
    policy_files: tuple[Path, ...],
    period: str,
    every: bool,
    output: Path | None,
) -> Outcome[Fleet]:
    """Check the replay logs of many devices.

    The result shows replays by device and over time. FOLDER may be the URL of an object store
    (s3://BUCKET/FOLDER, gs://, az://). It is searched for *.log and *.cbor (attestations). Paths name the
    device: device-7.log, device-7/2026-11-27.log. Entries have no times: a file's name or last change gives the
    time of collection. Exit status 1: a log is broken; each device is named.
    """
    with extra("fleet", "duckdb", "obstore"):
        from host_tools.extras.fleet import answers
        from host_tools.extras.fleet.places import place_of
        from host_tools.extras.fleet.rows import Rows
        from host_tools.extras.fleet.watch import Problem, watch

        place = place_of(logs)
    if output is not None:
        check_output(output)
    known = {head_hash(trace_bytes(path)): str(path) for path in traces}
    policies = {policy.hash for path in policy_files for policy in policies_of(path)}
    with Rows(known, status_name) as rows:
        devices, strange = watch(place, enrolled, rows)
        problems = {device.name: device.problems for device in devices}
        for name, file, number, text in answers.other_traces(rows, known) if known else ():
            problems[name].append(Problem("unknown-trace", f"entry number {number} is {text}", file, number))
        for name, file, number, text in answers.other_policies(rows, policies) if policies else ():
            problems[name].append(Problem("other-policy", f"entry number {number}: {text}", file, number))
        said = answers.devices(rows)
        times = answers.time_line(rows, period)
        if output is not None:
            rows.save(output)
    if strange:
        warn(f"{logs}: of no device in {enrolled}: {listed(map(str, strange))}")
    found = [
        DeviceFacts(
            device=device.name,
            files=device.files,
            has_end=device.has_end,
            **said.get(device.name, _NONE),
            findings=[FleetFinding(one.fault, one.file, one.sequence, one.text) for one in device.problems],
        )
        for device in devices
    ]
    data = Fleet(
        folder=logs,
        totals=_totals(found),
        devices=found,
        period=period,
        time_line=[TimeLine(**row) for row in times],
        strange_files=[place.named(path) for path in strange],
        rows=None if output is None else str(output),
    )
    return Outcome(data, _text(data, every), ok=not data.totals.broken)


def _totals(found: Sequence[DeviceFacts]) -> Totals:
    failed, refusals = Counter[str](), Counter[str]()
    for device in found:
        failed.update(device.failed)
        refusals.update(device.refusals)
    return Totals(
        devices=len(found),
        broken=sum(bool(device.findings) for device in found),
        silent=sum(not device.files for device in found),
        without_end=sum(bool(device.files) and not device.has_end for device in found),
        entries=sum(device.entries for device in found),
        boots=sum(device.boots for device in found),
        replays=sum(device.replays for device in found),
        failed=dict(failed),
        refusals=dict(refusals),
        last_seen=max((device.last_seen for device in found if device.last_seen), default=None),
    )


def _text(data: Fleet, every: bool) -> str:
    totals = data.totals
    lines = [
        f"{printable(data.folder)}: {totals.entries:,} entries of {totals.devices} devices are theirs",
        f"  boots {totals.boots:,}, replays {totals.replays:,}, last seen {totals.last_seen or 'never'}",
        f"  failed: {_reasons(totals.failed)}; refused: {_reasons(totals.refusals)}",
        f"  broken logs {totals.broken}, devices without a log {totals.silent}, "
        f"logs whose end nobody knows {totals.without_end}",
    ]
    shown = [one for one in data.devices if every or _to_look_at(one)]
    if shown:
        lines += ["", *_devices(shown)]
    if data.time_line:
        lines += ["", *_times(data)]
    broken = [one.device for one in data.devices if one.findings]
    verdict = f"REFUSED: {listed(broken)}" if broken else "verified"
    return "\n".join([*lines, "", verdict])


def _to_look_at(one: DeviceFacts) -> bool:
    return bool(one.findings or one.failed or one.refusals or not one.files)


def _devices(shown: Sequence[DeviceFacts]) -> list[str]:
    width = max(6, *(len(printable(one.device)) for one in shown))
    heads = (
        f"{'boots':>7}{'replays':>9}{'failed':>8}{'refused':>9}{'security':>10}{'policy':>8}  {'last seen':22}log"
    )
    lines = [f"{'device':{width}}{heads}"]
    for one in shown:
        versions = [
            "-" if getattr(one, name) is None else getattr(one, name)
            for name in ("security_version", "trust_version")
        ]
        failed, refused = (sum(getattr(one, name).values()) for name in _REASONS)
        figures = f"{one.boots:7}{one.replays:9}{failed:8}{refused:9}{versions[0]:>10}{versions[1]:>8}"
        seen = one.last_seen or "never"
        lines.append(f"{printable(one.device):{width}}{figures}  {seen:22}{_log_word(one)}")
        lines += [
            f"  {word}: {_reasons(getattr(one, name))}" for name, word in _REASONS.items() if getattr(one, name)
        ]
        for found in one.findings[:TOLD]:
            where = f"{found.file}: " if found.file else ""
            lines.append(printable(f"  {found.fault}: {where}{found.text}"))
        if more := len(one.findings) - TOLD:
            lines += [f"  and {more} more: --json tells all"] if more > 0 else []
    return lines


def _log_word(one: DeviceFacts) -> str:
    if one.findings:
        return "BROKEN"
    return "none" if not one.files else "whole" if one.has_end else "no end"


_REASONS = {"failed": "failed", "refusals": "refused"}


def _times(data: Fleet) -> list[str]:
    columns = ("replays", "failed", "refusals", "devices")
    names = {"refusals": "refused"}
    lines = [f"{'collected':16}" + "".join(f"{names.get(name, name):>9}" for name in columns) + "  trace"]
    for row in data.time_line:
        figures = "".join(f"{getattr(row, name):9}" for name in columns)
        lines.append(f"{row.since:16}{figures}  {printable(row.trace)}")
    return lines


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"
