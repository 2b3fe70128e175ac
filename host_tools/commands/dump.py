# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone dump` and `gramophone assemble`: a trace as text, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from host_tools.commands.facts import TraceFacts, TraceMade, check_whole, facts, network_words
from host_tools.commands.framework import AS_JSON, FILE, STREAM, GramophoneCommand, Outcome, UsageError
from host_tools.commands.results import Claim
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.commands.traces import parse_trace
from host_tools.model.description import ActionFields, action_fields, describe_actions, describe_slot
from host_tools.support.messages import shown
from host_tools.support.results import Count, Positive, Result, fields
from host_tools.text.annotate import JobFields, annotations_of, job_fields
from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from host_tools.text.writer import text_of
from signing.encryption import opened
from signing.envelope import split
from trace_format import limits
from trace_format.actions import actions_of
from trace_format.errors import printable
from trace_format.schema import PAGE_BYTES
from trace_format.streamed import Piece


class PieceFacts(Result):
    """Memory that a device reads while jobs run.

    Attributes:
        bytes: Its size.
        at: Where it begins in the carve-out.
        from_job: First job during which it may be read.
        first_job: First job that needs it.
        last_job: Last job that needs it.
        resident: That it stays for later replays; else each of them reads it again.
    """

    bytes: Positive
    at: Count
    from_job: Count
    first_job: Count
    last_job: Count
    resident: bool


class Dumped(TraceFacts, kw_only=True):
    """What a trace says.

    Attributes:
        notes: The trace's own notes: provenance, passes applied.
        pieces: Of a streamed trace, in the order of their first jobs.
    """

    signature: Claim | None
    action_list: list[ActionFields]
    job_list: list[JobFields]
    notes: dict[str, Any]
    pieces: list[PieceFacts]


@click.command(
    "dump",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone dump net.gtr\ngramophone dump net.gtr --format text -o net.txt\n"
    "gramophone assemble net.txt -o same.gtr",
)
@click.argument("file", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(("summary", "text", "json")),
    default="summary",
    show_default=True,
    help="Format: text, complete, for `gramophone assemble`; json, as --json.",
)
@click.option("-o", "--output", type=FILE, help="File to write; - is standard output. Default: -.")
def dump_command(file: Path, form: str, output: Path | None) -> Outcome[Dumped | None]:
    """Print a trace: manifest, slots and every action.

    A signature is shown, not verified. The text (`--format text`) is that of the trace inside. A trace assembled
    from it is not signed.
    """
    as_json = click.get_current_context().meta[AS_JSON]
    if as_json and form != "summary" and output is None:
        raise UsageError(f"--json cannot be combined with --format {form}: there is one standard output")
    data = read(file)
    outcome: Outcome[Dumped | None] = Outcome(None)
    if form != "text" or as_json:
        outcome = _dump(data, str(file), as_json or form == "json")
    if form == "summary" and output is None:
        return outcome
    if form == "text":
        text = "\n".join(_text(data, str(file)))
    elif form == "json":
        text = json.dumps({"ok": True, "warnings": [], **fields(outcome.data)})
    else:
        text = shown(outcome.text)
    destination = output or STREAM
    check_output(destination)
    write(destination, f"{text}\n".encode())  # in UTF-8, whatever the terminal has
    return Outcome(outcome.data, "" if destination == STREAM else f"{output}: {text.count(chr(10)) + 1} lines")


def _text(data: bytes, file: str) -> Iterator[str]:
    trace, claim = parse_trace(data, file, joint=True)
    check_whole(trace, file)
    if claim:
        yield f"# signed by {claim['algorithm']} key {claim['key_id']}: not verified, and not in this text"
        data = bytes(split(data).trace)
    yield from text_of(bytes(opened(data, file)), trace, annotations_of(trace))


def _piece(piece: Piece) -> PieceFacts:
    jobs = piece.from_job, piece.first_job, piece.last_job
    return PieceFacts(len(piece.data), piece.page * PAGE_BYTES, *jobs, piece.resident)


def _piece_words(piece: Piece) -> str:
    often = "once" if piece.resident else f"in each replay, from job {piece.from_job} on"
    jobs = f"jobs {piece.first_job} to {piece.last_job}"
    return f"{len(piece.data)} bytes at {piece.page * PAGE_BYTES:#010x} for {jobs}, read {often}"


def _dump(content: bytes, file: str, with_jobs: bool) -> Outcome[Dumped | None]:
    trace, claim = parse_trace(content, file, joint=True)
    known = facts(trace)
    lines = [f"signed by        {claim['algorithm']} key {claim['key_id']} (not verified)"] if claim else []
    lines += [
        f"{key:16} {printable(str(value))}" for key, value in known.items() if key not in ("slots", "networks")
    ]
    lines += [f"slot             {describe_slot(slot)}" for slot in trace.slots]
    lines += [f"network          {printable(network_words(network))}" for network in trace.networks]
    lines += [f"piece            {_piece_words(piece)}" for piece in trace.streamed]
    actions = describe_actions(trace)
    lines += [f"{index:6}  {text}" for index, text in enumerate(actions)]
    data = Dumped(
        **known,
        signature=Claim(**claim) if claim else None,
        action_list=[action_fields(action, trace.profile, trace.slots) for action in actions_of(trace.actions)],
        job_list=job_fields(trace) if with_jobs else [],
        notes=trace.notes,
        pieces=[_piece(piece) for piece in trace.streamed],
    )
    return Outcome(data, "\n".join(lines))


@click.command(
    "assemble",
    cls=GramophoneCommand,
    example="gramophone assemble net.txt -o net.gtr\n"
    "gramophone dump net.gtr --format text | gramophone assemble - -o same.gtr",
)
@click.argument("text", type=FILE)
@OUTPUT
def assemble_command(text: Path, output: Path) -> Outcome[TraceMade]:
    """Turn the text of `dump --format text` into a trace.

    Unchanged text gives the same bytes. Changed text gives a trace with the usual checks. The trace is not
    signed.
    """
    data = read(text, limits.TEXT_BYTES)
    check_output(output)
    try:
        source = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TextError(str(text), line, f"expected UTF-8, found the byte {data[error.start]:#04x}") from None
    result, trace = assemble(source, str(text))
    write(output, result)
    said = f"{output}: {len(result)} bytes, {trace.jobs} jobs, {len(trace.actions)} actions, not signed"
    return Outcome(TraceMade(**facts(trace), trace_bytes=len(result)), said)
