# SPDX-License-Identifier: BSD-2-Clause
"""The command build. It needs no cryptography, whose libraries take as much memory as a small recording."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from host_tools.api.building import Made, built, retargeted
from host_tools.commands.facts import NAME, TraceMade, check_single, facts
from host_tools.commands.framework import (
    FILE,
    STREAM,
    GramophoneCommand,
    Outcome,
    Pair,
    Positive,
    UsageError,
    warn,
)
from host_tools.commands.option_rules import excludes
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.families.retargeting import Applied
from host_tools.passes.listing import PASSES
from host_tools.passes.note_check import NOT_CHECKED
from host_tools.passes.pipeline import Step
from host_tools.passes.registry import Option
from host_tools.passes.timeouts import MARGIN
from host_tools.support.tensors import Assignment, assigned, load_all, without_value
from trace_format import assembly, layout, profile
from trace_format.errors import listed
from trace_format.operators import OPERATORS, used
from trace_format.packing import unpack
from trace_format.schema import SectionType, SlotKind
from trace_format.trace import Trace

ASKED: dict[str, Option] = {name: item.option for name, item in PASSES.items() if item.option}


class Built(TraceMade, kw_only=True):
    """A trace that was built.

    Attributes:
        rules: Those that turn a recording of one GPU into a trace for another, in how many places.
    """

    rules: Sequence[Applied]
    passes: Sequence[Step]
    # What passes have done that run only if they are asked for; null: not asked for, or not done.
    __annotations__.update({option.result: option.facts | None for option in ASKED.values()})


def _variable(option: Option) -> str:
    return "asks_" + option.result


def _asked_options(command: Callable[..., Outcome[Any]]) -> Callable[..., Outcome[Any]]:
    """The options of passes that run only if they are asked for."""
    for option in reversed(ASKED.values()):
        kind: dict[str, Any] = {"type": Positive(), "metavar": option.unit} if option.unit else {"is_flag": True}
        command = click.option(option.name, _variable(option), help=option.help, **kind)(command)
    return command


@click.command(
    "build",
    cls=GramophoneCommand,
    example="gramophone build raw.gtr -o net.gtr\ngramophone build g52.raw.gtr -o net.gtr --gpu mali_g71",
    help="Turn a raw recording into a trace worth signing.\n\nPasses, in order:\n\n\b\n" + "\n".join(PASSES),
)
@click.argument("raw", type=FILE)
@OUTPUT
@click.option(
    "--param",
    "parameters",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of a parameter slot, or a folder with SLOT.npy files.",
)
@click.option(
    "--state",
    "states",
    type=Pair("INPUT=OUTPUT"),
    multiple=True,
    help="Pass OUTPUT's value after a replay to INPUT of the next replay; repeatable. Default: states of the "
    "recording.",
)
@click.option(
    "--open",
    "open_slots",
    metavar="SLOT",
    multiple=True,
    help="Slot of --state that callers may set or read; repeatable. Default: no slot.",
)
@click.option(
    "--first",
    type=Assignment(folders=True),
    multiple=True,
    help="First value of an input of --state, or a folder with SLOT.npy files; default: the recorded value.",
)
@click.option("--skip", metavar="PASS", multiple=True, help="Skip a pass; repeatable.")
@click.option(
    "--observe",
    is_flag=True,
    help="Run the jobs to find their memory accesses, and ignore the recording's notes.",
)
@click.option(
    "--trust-note",
    is_flag=True,
    help="Skip the replay that checks the recording's notes on memory accesses; the trace says so.",
)
@click.option(
    "--timeout-margin",
    metavar="N",
    type=click.IntRange(2, 1000),
    default=MARGIN,
    show_default=True,
    help=(
        "Time out a job after N times its worst-case estimate; '--skip timeouts' keeps the recorded time limits."
    ),
)
@_asked_options
@click.option("--keep-inputs", is_flag=True, help="Keep recorded inputs, for replays without inputs.")
@click.option(
    "--gpu",
    type=click.Choice(profile.names()),
    help="GPU to build for; default: the recorded GPU.",
)
@click.option("--name", type=NAME, help="Name of the trace; default: the recording's name.")
@click.option(
    "--security-version",
    type=click.IntRange(0, 2**32 - 1),
    help=("Security version, for the device's rollback counter."),
)
@excludes("--observe", "--trust-note")
def build_command(
    raw: Path,
    output: Path,
    parameters: tuple[tuple[str | None, Path], ...],
    states: tuple[tuple[str, str], ...],
    open_slots: tuple[str, ...],
    first: tuple[tuple[str | None, Path], ...],
    skip: tuple[str, ...],
    observe: bool,
    trust_note: bool,
    timeout_margin: int,
    keep_inputs: bool,
    gpu: str | None,
    name: str | None,
    security_version: int | None,
    **options: float | None,
) -> Outcome[Built]:
    """See `help`."""
    files = assigned("parameter", parameters)
    if len(dict(states)) != len(states):
        raise UsageError("--state: an input is given twice")
    asked = {name: value for name, option in ASKED.items() if (value := options[_variable(option)])}
    if at := next((at for at in asked if at in skip), ""):
        raise UsageError(f"{ASKED[at].name}: --skip {at} leaves out the pass that it asks for")
    data = read(raw)
    check_output(output)
    trace = Trace.parse(data, str(raw))
    check_single(trace, str(raw))
    source_hash = hashlib.sha256(data).digest()
    del data  # a network's is large
    if not trace.raw:
        warn(f"{raw} is built already: what passes have left out, such as recorded inputs, does not come back")
    trace, changes = retargeted(trace, gpu, str(raw))
    values = load_all(trace, files, SlotKind.PARAMETER)
    begins = load_all(trace, assigned("first value", first), SlotKind.INPUT, SlotKind.PARAMETER)
    recording = [trace]
    del trace
    done = built(
        recording,
        lambda made: _built(made, output),
        _Work,
        file=str(raw),
        source_hash=source_hash,
        again=None if raw == STREAM else lambda: Trace.parse(read(raw), str(raw)),
        reads=() if raw == STREAM else (raw,),
        changes=changes,
        name=name,
        security_version=security_version,
        observe=observe,
        keep_inputs=keep_inputs,
        skip=skip,
        parameters=values,
        states=dict(states),
        open_slots=open_slots,
        first=begins,
        trust_note=trust_note,
        timeout_margin=timeout_margin,
        asked=asked,
    )
    write(output, *done.pieces)
    return Outcome(done.data, "\n".join(done.rows))


@dataclass(frozen=True)
class _Work:
    """A trace's bytes, and what is said of it."""

    pieces: list[bytes]
    data: Built
    rows: list[str]


def _built(made: Made, output: Path) -> _Work:
    trace, pieces = made.trace, made.pieces
    trace_bytes = sum(map(len, pieces))
    rows = _done(made.changes, made.steps)
    rows.append(
        f"{output}: {trace_bytes} bytes, {trace.jobs} jobs, {len(trace.actions)} actions, "
        f"carve-out {trace.carveout_bytes} bytes"
    )
    head = assembly.with_zeros(bytes(pieces[0]))
    manifest = layout.disassemble(head)[1].one(SectionType.MANIFEST)
    trace_id = unpack("manifest", bytes(manifest.stored), manifest.offset)["trace_id"]
    rows += _needs(trace)
    found = {option.result: made.reports.get(name) for name, option in ASKED.items()}
    rows += [line for report in found.values() if report for line in report.lines()]
    done_by: dict[str, Any] = {name: report.facts() if report else None for name, report in found.items()}
    known = facts(trace, trace_id)
    data = Built(**known, trace_bytes=trace_bytes, rules=made.changes, passes=made.steps, **done_by)
    return _Work(list(pieces), data, rows)


def _done(changes: Sequence[Applied], steps: Sequence[Step]) -> list[str]:
    """What rules and passes did, as a table."""
    rows = [f"{'rule':28} {'places':>7}"] if changes else []
    rows += [f"{c.rule:28} {c.places:7}" for c in changes]
    rows += [f"{'pass':20} {'actions':>9} {'image bytes':>12} {'memory bytes':>12}"]
    rows += [
        f"{s.name:20} not done: {s.not_done}"
        if s.not_done
        else f"{s.name:20} {s.actions:9} {s.image_bytes:12} {s.memory_bytes:12}"
        for s in steps
    ]
    return rows


def _needs(trace: Trace) -> list[str]:
    """What a device, a replay, and whoever trusts the trace must know of it."""
    rows = []
    if operators := used(trace.actions):
        names = ", ".join(f'"{OPERATORS[operator].name}"' for operator in operators)
        rows.append(f"a device also computes on its CPU: 'operators = [{names}]' in its device file")
    if NOT_CHECKED in trace.notes:
        rows.append("what the recording says that its jobs access was not checked")
    if missing := without_value(trace):
        rows.append(f"inputs required at replay: {listed(missing)}")
    return rows
