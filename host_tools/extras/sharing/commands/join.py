# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone sharing join`: several traces as one, for a device that runs more than one network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from host_tools.accesses.job_times import job_times
from host_tools.commands.facts import NAME, facts
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, UsageError, warn
from host_tools.commands.option_rules import excludes
from host_tools.commands.streams import check_output, write
from host_tools.commands.traces import read_trace
from host_tools.extras.sharing.commands.join_shares import Joined, at_once, masks
from host_tools.extras.sharing.joining import Joining, Joint, differences, joint
from host_tools.model.facts import default_name
from host_tools.model.left_registers import left_registers
from host_tools.model.parts import named
from host_tools.model.reach import Reach, reached
from host_tools.model.timing import Chip, TimingError, chip_of
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result
from trace_format import networks
from trace_format.errors import printable
from trace_format.schema import MAX_PRIORITY, PAGE_BYTES
from trace_format.trace import Trace

MOST_US = 0xFFFFFFFF


class Reached(Result):
    """What another network reaches of this one.

    Attributes:
        by: The other network.
        image_pages: Pages of this network's image of which it reaches the content.
        zero_pages: Of these, those that hold only zeros.
        registers: Registers that this network finds as the other leaves them.
        time_budget_us: The longest that a replay of it keeps the GPU.
        retry_limit: Attempts after the first; each that fails resets the GPU, and this network begins again.
    """

    by: str
    image_pages: Count
    zero_pages: Count
    registers: list[str]
    time_budget_us: Count
    retry_limit: Count


class Check(Result):
    """A network of a joint trace.

    Attributes:
        file: The trace that it is said to be.
        differences: In words; empty: it is that trace.
        reached: What each other network reaches.
    """

    name: str
    file: str
    differences: list[str]
    reached: list[Reached]


class JointChecked(Result):
    """Whether networks of a joint trace are what their owners have.

    Attributes:
        file: The joint trace that --check looked at.
    """

    file: str
    checks: list[Check]


@click.command(
    "join",
    cls=GramophoneCommand,
    example="gramophone sharing join digits.gtr scenes.gtr -o joint.gtr\n"
    "gramophone sharing join digits.gtr scenes.gtr --names d,s --period d=20000 --priority d=9 -o joint.gtr\n"
    "gramophone sharing join digits.gtr scenes.gtr --share digits=0x0f --share scenes=0xf0 -o both.gtr\n"
    "gramophone sharing join joint.gtr --take digits -o again.gtr\n"
    "gramophone sharing join joint.gtr --check digits=digits.sgtr",
)
@click.argument("files", metavar="TRACE...", nargs=-1, required=True, type=FILE)
@click.option("-o", "--output", type=FILE, help="Trace to write; not signed.")
@click.option("--name", type=NAME, help="Name of the joint trace; default: the networks' names.")
@click.option("--names", metavar="NAME,NAME...", help="Names of the networks; default: names of the traces.")
@click.option(
    "--share",
    "shares",
    type=Pair("NAME=MASK"),
    multiple=True,
    help="Run two networks at once on a Mali. MASK selects a network's cores (0x0f). Give once per network.",
)
@click.option(
    "--exclusive", is_flag=True, help=("Share one working memory: each network starts with its prologue.")
)
@click.option(
    "--period",
    "periods",
    type=Pair("NAME=US"),
    multiple=True,
    help=("Period of a network's requests; repeatable."),
)
@click.option(
    "--priority",
    "priorities",
    type=Pair("NAME=N"),
    multiple=True,
    help=f"0 to {MAX_PRIORITY}, a higher one first; repeatable.",
)
@click.option("--chip", help="Board to estimate times for; default: the board with the traces' GPU.")
@click.option("--no-estimate", is_flag=True, help="Omit the estimated time of each network.")
@click.option("--take", metavar="NAME", help="Extract this network from a joint trace.")
@click.option(
    "--check",
    "checks",
    type=Pair("NAME=TRACE"),
    multiple=True,
    help="Check, instead of writing, that this network is this trace, and what others reach; repeatable.",
)
@excludes("--check", "--output", "--take", "--share")
@excludes("--share", "--take", "--exclusive", "--period", "--priority")
def join_command(
    files: Sequence[Path],
    output: Path | None,
    name: str | None,
    names: str | None,
    shares: Sequence[tuple[str, str]],
    exclusive: bool,
    periods: Sequence[tuple[str, str]],
    priorities: Sequence[tuple[str, str]],
    chip: str | None,
    no_estimate: bool,
    take: str | None,
    checks: Sequence[tuple[str, str]],
) -> Outcome[Joined | JointChecked]:
    """Join the traces of several networks into one.

    The joint trace stores equal pages once. Each network keeps its own working memory, page tables, prologue,
    retries and time budget (docs/adr/0065-joined-networks.md). Slots are named NETWORK/SLOT. Signatures are not
    verified and not kept: sign the joint trace. Devices need the feature networks.

    With --share the result is an ordinary trace for any device. Each replay runs both networks, with separate
    job slots, address spaces and cores (docs/adr/0072-mali-shares.md). Before it is written, it is compared with
    the single traces on the virtual GPU. It was not tried on a board.
    """
    if checks:
        return _compare(files, checks)
    if output is None:
        raise UsageError("-o: expected the file to write")
    check_output(output)
    if take is not None:
        return _take(files, output, take)
    found = [read_trace(file, joint=True) for file in files]
    for file, (_, claim) in zip(files, found, strict=True):
        if claim:
            warn(f"{file}: its signature is not a part of the joint trace, and was not verified")
    traces = [trace for trace, _ in found]
    called = names.split(",") if names is not None else [str(trace.meta["name"]) for trace in traces]
    if len(called) != len(traces):
        raise UsageError(f"--names: expected {len(traces)} names, found {len(called)}")
    if shares:
        cores = masks(shares, called)
        rows = [Joining(one, trace) for one, trace in zip(called, traces, strict=True)]
        return at_once(
            files,
            rows,
            cores,
            name or default_name("+".join(called)),
            output,
            None if no_estimate else _chip(traces[0], chip),
        )
    every = dict(_numbers("--period", periods, called, MOST_US))
    first = dict(_numbers("--priority", priorities, called, MAX_PRIORITY))
    rows = []
    for file, trace, one in zip(files, traces, called, strict=True):
        us, longest = (0, 0) if no_estimate or trace.raw else _estimate(file, trace, chip)
        rows.append(Joining(one, trace, us, longest, every.get(one, 0), first.get(one, 0)))
    made = joint(rows, name or default_name("+".join(called)), exclusive=exclusive)
    for own, other, register in left_registers(made.trace):
        warn(f"{own.name} finds {register} as {other.name} leaves it: replay both in turn, with --expect")
    pieces = made.trace.pieces()
    write(output, *pieces)
    return _joined(output, made, sum(map(len, pieces)))


def _joined(output: Path, made: Joint, size: int) -> Outcome[Joined]:
    """What is said of a joint trace that was written."""
    data = Joined(
        file=str(output),
        bytes=size,
        image_pages=made.image_pages,
        shared_pages=made.shared_pages,
        **facts(made.trace),
    )
    shared = made.shared_pages * PAGE_BYTES
    lines = [
        f"{output}: {size} bytes, {len(made.trace.networks)} networks, {shared} bytes of their images are there "
        "once, not signed"
    ]
    for row in made.trace.networks:
        time = f", {row.predicted_us} us, its longest job {row.longest_job_us}" if row.predicted_us else ""
        lines.append(
            f"{printable(row.name):20} {row.end_action - row.first_action} actions, {row.slot_count} slots, "
            f"{row.page_count * PAGE_BYTES} bytes of working memory, "
            f"{sum(end - first for first, end in row.image)} pages of the image{time}"
        )
    return Outcome(data, "\n".join(lines))


def _only(files: Sequence[Path], option: str) -> tuple[Trace, bool]:
    """The one joint trace that an option takes, and whether it claims to be signed."""
    if len(files) != 1:
        raise UsageError(f"{option}: expected one joint trace, found {len(files)}")
    trace, claim = read_trace(files[0], joint=True)
    if not trace.networks:
        raise UsageError(f"{option}: {files[0]} is no joint trace")
    return trace, bool(claim)


def _compare(files: Sequence[Path], checks: Sequence[tuple[str, str]]) -> Outcome[JointChecked]:
    """Whether networks are what their owners have, whose signatures are not a part of a joint trace."""
    trace, _ = _only(files, "--check")
    lines: list[str] = []
    rows: list[Check] = []
    for name, path in checks:
        network = trace.networks[networks.find(trace.networks, name)]
        own, _ = read_trace(Path(path))
        found = differences(trace, network, own)
        lines += [f"{printable(name)}: {text}" for text in found] or [
            f"{printable(name)} is {path}: its {network.end_action - network.first_action} actions, "
            f"{network.slot_count} slots, image, limits"
        ]
        others = list(reached(trace, network, own))
        lines += [f"{printable(name)}: {_reach_words(other)}" for other in others]
        rows.append(Check(name, path, found, [_reach(one) for one in others]))
    rest = [row.name for row in trace.networks if row.name not in dict(checks)]
    if rest:
        lines.append(f"not compared: {', '.join(map(printable, rest))}")
    return Outcome(
        JointChecked(str(files[0]), rows), "\n".join(lines), ok=not any(row.differences for row in rows)
    )


def _reach(other: Reach) -> Reached:
    """What another network reaches, for programs."""
    return Reached(
        by=other.network.name,
        image_pages=other.pages,
        zero_pages=other.zero_pages,
        registers=list(other.registers),
        time_budget_us=other.network.time_budget_us,
        retry_limit=other.network.retry_limit,
    )


def _reach_words(other: Reach) -> str:
    """The same for people."""
    row = other.network
    zeros = f", {other.zero_pages} of them of zeros" if other.zero_pages else ""
    registers = f", leaves it {', '.join(other.registers)}" if other.registers else ""
    return (
        f"{printable(row.name)} reaches {other.pages} pages of its image{zeros}{registers}; keeps the GPU at most "
        f"{row.time_budget_us} us a replay, and resets it up to {row.retry_limit + 1} times if that fails"
    )


def _take(files: Sequence[Path], output: Path, name: str) -> Outcome[Joined]:
    trace, claim = _only(files, "--take")
    if claim:
        warn(f"{files[0]}: its signature is not kept, and was not verified")
    taken = named(trace, name)
    pieces = taken.pieces()
    write(output, *pieces)
    size = sum(map(len, pieces))
    data = Joined(file=str(output), bytes=size, image_pages=None, shared_pages=None, **facts(taken))
    return Outcome(data, f"{output}: {size} bytes, {taken.jobs} jobs, in the joint trace's memory, not signed")


def _numbers(
    option: str, given: Sequence[tuple[str, str]], names: Sequence[str], most: int
) -> list[tuple[str, int]]:
    for name, text in given:
        if name not in names:
            raise UsageError(f"{option}: no network {name!r}; there are: {', '.join(map(printable, names))}")
        if not text.isascii() or not text.isdigit() or int(text) > most:
            raise UsageError(f"{option} {name}: expected 0 to {most}, found {text!r}")
    return [(name, int(text)) for name, text in given]


def _chip(trace: Trace, name: str | None) -> Chip | None:
    """The chip of which times are estimated; None: nothing is known of it."""
    try:
        return chip_of(trace.gpu, name)
    except TimingError as error:
        if name is not None:
            raise
        warn(f"no time is estimated: {error}")
        return None


def _estimate(file: Path, trace: Trace, chip: str | None) -> tuple[int, int]:
    """What a replay's jobs take together, and the longest of them, in microseconds; 0 where it is not known."""
    try:
        with phase(f"estimating {trace.meta['name']}"):
            times = [time.us for job, time in job_times(trace, chip_of(trace.gpu, chip, None)) if not job.prepares]
    except TimingError as error:
        warn(f"{file}: its time is not estimated: {error}")
        return 0, 0
    return min(MOST_US, round(sum(times))), min(MOST_US, round(max(times, default=0.0)))
