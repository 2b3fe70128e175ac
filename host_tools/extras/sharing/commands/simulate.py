# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone sharing simulate`: several networks on one GPU, and whose requests are late under which policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import click
import numpy as np

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, Positive, UsageError, warn
from host_tools.commands.streams import check_output, write
from host_tools.commands.traces import read_trace
from host_tools.extras.sharing import sharing
from host_tools.extras.sharing.commands.arrivals import Asked, known, positive
from host_tools.extras.sharing.commands.join_shares import masks, replay_of_both
from host_tools.extras.sharing.commands.simulated_jobs import cut_times, whole_times
from host_tools.extras.sharing.joining import Joining
from host_tools.extras.sharing.late_plot import Bars, drawn
from host_tools.extras.sharing.sharing import SECOND_US, Network, Request, Run
from host_tools.model.timing import NOTICE, TimingError, chip_of, read_constants
from host_tools.support.results import Above, Amount, Count, Part, Result, one_of
from trace_format.errors import printable
from trace_format.trace import Trace

CUT = "-cut"  # ends the names of policies whose jobs are cut as `build --longest` cuts them
POLICIES = (*sharing.POLICIES, *(f"{name}{CUT}" for name in sharing.POLICIES if name.startswith("edf")))
SHARES = "shares"
LONGEST_US, SECONDS, SEEDS, DEADLINE = 1000.0, 20.0, range(5), "4x"


@dataclass(frozen=True)
class _Policy:
    """A policy's networks: the same, but for their jobs."""

    name: str
    networks: tuple[Network, ...]


class NetworkFacts(Result):
    """A network, as recorded.

    Attributes:
        deadline_us: After a request, when it is to be done.
    """

    name: str
    jobs: Count
    alone_us: Amount
    deadline_us: Amount


class NetworkRun(Result):
    """A network under a policy.

    Attributes:
        jobs: Of one replay, under the policy.
        alone_us: A replay, if nobody else uses the GPU.
        requests: Of all seeds together.
        late: Share of requests that ended after their deadline.
        median_us: From a request to its end; the median of seeds.
        p99_us: What 99 of 100 requests do not exceed; the median of seeds.
    """

    name: str
    jobs: Count
    alone_us: Amount
    requests: Count
    late: Part
    median_us: Amount
    p99_us: Amount


class PolicyRun(Result):
    """A policy.

    Attributes:
        late: Share of requests that were late; mean of seeds.
        per_second: Requests served a second.
        utilization: Share of time in which the GPU works.
        longest_job_us: How long a request may wait for a job that runs.
    """

    policy: Annotated[str, one_of(*POLICIES, SHARES)]
    late: Part
    late_by_seed: list[Part]
    per_second: Amount
    utilization: Part
    longest_job_us: Amount
    networks: list[NetworkRun]


class Simulated(Result):
    """Whose requests are late if several networks share a GPU.

    Attributes:
        title: The board.
        notice: What the figures are.
        arrivals: As given.
        seeds: Of random requests; empty: there are none.
        load: Time that requests ask for, of what there is.
        longest_us: Jobs that take longer are cut for edf-cut; null: it was not asked for.
        policies: In the order in which they are asked for.
    """

    chip: str
    title: str
    gpu: str
    notice: str
    arrivals: str
    seeds: list[Count]
    seconds: Amount
    load: Amount
    longest_us: Above | None
    networks: list[NetworkFacts]
    policies: list[PolicyRun]


@click.command(
    "simulate",
    cls=GramophoneCommand,
    renamed={"--policy": "--scheduler"},
    example="gramophone sharing simulate digits.gtr scenes.gtr\n"
    "gramophone sharing simulate digits.sgtr scenes.sgtr --arrivals poisson:3 --deadline digits=5000\n"
    "gramophone sharing simulate digits.gtr scenes.gtr --period digits=20000 --longest 2000 --plot late.svg",
)
@click.argument("files", metavar="TRACE...", nargs=-1, required=True, type=FILE)
@click.option("--chip", help="Board to estimate times for; default: the board with the traces' GPU.")
@click.option("--constants", type=FILE, help="Constants of a board, from `calibrate`.")
@click.option(
    "--arrivals",
    metavar="load:SHARE|poisson:RATE|FILE",
    default="load:0.5",
    show_default=True,
    help=(
        "Arrivals of requests: random with a load of the GPU, random with a rate per network, or a CSV file "
        "with columns us and network."
    ),
)
@click.option(
    "--period",
    "periods",
    type=Pair("NAME=US"),
    multiple=True,
    help="Period of a network's requests, in place of --arrivals; repeatable.",
)
@click.option(
    "--deadline",
    "deadlines",
    metavar="TIMES|NAME=US",
    multiple=True,
    default=(DEADLINE,),
    help=(
        "Deadline of a network's requests: a multiple of its time alone, or microseconds; repeatable. Default: 4x."
    ),
)
@click.option(
    "--longest",
    "longest_us",
    metavar="US",
    type=Positive(),
    default=LONGEST_US,
    show_default=True,
    help="Longest job for scheduling policies that cut jobs, as `build --longest` does.",
)
@click.option(
    "--share",
    "shares",
    type=Pair("NAME=MASK"),
    multiple=True,
    help=(
        "Run two networks at once on these cores of a Mali, as `sharing join --share`; adds the scheduling "
        "policy shares."
    ),
)
@click.option(
    "--scheduler",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    help="Scheduling policy; edf-last puts requests that miss their deadline last. Repeatable. Default: all.",
)
@click.option("--seconds", type=Positive(), default=SECONDS, show_default=True)
@click.option(
    "--seed",
    "seeds",
    type=click.IntRange(min=0),
    multiple=True,
    default=tuple(SEEDS),
    help="Seed of random arrivals, for one run each; repeatable. Default: 0 to 4.",
)
@click.option("--plot", type=FILE, help="SVG file to write, with a plot of late requests.")
def simulate_command(
    files: Sequence[Path],
    chip: str | None,
    constants: Path | None,
    arrivals: str,
    periods: Sequence[tuple[str, str]],
    deadlines: Sequence[str],
    longest_us: float,
    shares: Sequence[tuple[str, str]],
    policies: Sequence[str],
    seconds: float,
    seeds: Sequence[int],
    plot: Path | None,
) -> Outcome[Simulated]:
    """Estimate which requests are late if networks share a GPU.

    Results are by scheduling policy. Jobs run one at a time, without preemption, for the time that `speed time`
    estimates. After each job, the scheduling policy chooses the next one. With --share, two jobs run at once.
    CPU work between jobs and network switches are not modelled. Each request is one replay. Nothing is verified,
    and nothing runs on a device.
    """
    if plot:
        check_output(plot)
    chosen = [*(policies or POLICIES), *([SHARES] if shares else [])]
    cuts = any(name.endswith(CUT) for name in chosen)
    traces = [read_trace(file)[0] for file in files]
    names = _names(traces)
    cores = masks(shares, names) if shares else []
    known = read_constants(constants) if constants else None
    whole: list[tuple[float, ...]] = []
    pieces: list[tuple[float, ...]] = []
    for file, trace in zip(files, traces, strict=True):
        try:
            its = chip_of(trace.gpu, chip, known)
            if whole and its.gpu != traces[0].gpu:
                raise TimingError("it is for another GPU", expected=traces[0].gpu, found=its.gpu)
            whole.append(whole_times(trace, its))
            pieces.append(cut_times(file, trace, its, longest_us) if cuts else whole[-1])
        except TimingError as error:
            raise TimingError(f"{file}: {error}") from error
    due = _deadlines(deadlines, names, whole)
    networks = tuple(Network(name, jobs, us) for name, jobs, us in zip(names, whole, due, strict=True))
    cut = tuple(replace(network, jobs=jobs) for network, jobs in zip(networks, pieces, strict=True))
    rows = [_Policy(name, cut if name.endswith(CUT) else networks) for name in chosen]
    if cores:
        joining = [Joining(name, trace) for name, trace in zip(names, traces, strict=True)]
        both = replay_of_both(files, joining, cores, its)
        rows[-1] = _Policy(SHARES, tuple(replace(network, jobs=(both.us,)) for network in networks))
    asked = Asked(networks, seconds * SECOND_US, arrivals, _periods(periods, names))
    runs = {row.name: list[Run]() for row in rows}
    loads = []
    tried = list(dict.fromkeys(seeds)) if asked.random else [0]
    for seed in tried:
        requests = asked.requests(seed)
        if not requests:
            raise UsageError(f"--arrivals: no request in {seconds:g} s, seed {seed}")
        loads.append(sharing.load(networks, requests, max(asked.duration_us, requests[-1].at_us)))
        for row in rows:
            runs[row.name].append(_run(row, requests))
    warn(f"{its.name}: {NOTICE}")
    found = [_facts(row, runs[row.name]) for row in rows]
    if plot:
        bars = [Bars(one.policy, [n.late for n in one.networks]) for one in found]
        write(plot, drawn("Late requests", names, bars).encode())
    data = Simulated(
        chip=its.name,
        title=its.title,
        gpu=its.gpu,
        notice=NOTICE,
        arrivals=arrivals,
        seeds=tried if asked.random else [],
        seconds=asked.duration_us / SECOND_US,
        load=float(np.mean(loads)),
        longest_us=longest_us if cuts else None,
        networks=[NetworkFacts(one.name, len(one.jobs), one.alone_us, one.deadline_us) for one in networks],
        policies=found,
    )
    return Outcome(data, "\n".join(_lines(data)))


def _run(policy: _Policy, requests: Sequence[Request]) -> Run:
    if policy.name == SHARES:
        return sharing.simulate_together(policy.networks, requests, policy.networks[0].alone_us)
    return sharing.simulate(policy.networks, requests, policy.name.removesuffix(CUT))


def _names(traces: Sequence[Trace]) -> list[str]:
    """What the traces are called; of several with one name, the second is NAME-2."""
    found: list[str] = []
    for trace in traces:
        name = printable(str(trace.meta["name"]))
        again = sum(one == name or one.rpartition("-")[0] == name for one in found)
        found.append(f"{name}-{again + 1}" if again else name)
    return found


def _deadlines(given: Sequence[str], names: Sequence[str], jobs: Sequence[Sequence[float]]) -> list[float]:
    times = float(DEADLINE[:-1])
    own: dict[str, float] = {}
    for text in given:
        name, equals, us = text.partition("=")
        if equals:
            own[known("--deadline", name, names)] = positive("--deadline", us)
        else:
            times = positive("--deadline", text.removesuffix("x"))
    return [own.get(name, times * sum(one)) for name, one in zip(names, jobs, strict=True)]


def _periods(given: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[int, float]:
    return {names.index(known("--period", name, names)): positive("--period", us) for name, us in given}


def _facts(policy: _Policy, runs: Sequence[Run]) -> PolicyRun:
    late = [run.late for run in runs]
    return PolicyRun(
        policy=policy.name,
        late=float(np.mean(late)),
        late_by_seed=late,
        per_second=float(np.mean([run.per_second for run in runs])),
        utilization=float(np.mean([run.busy_us / run.end_us for run in runs])),
        longest_job_us=max(max(one.jobs) for one in policy.networks),
        networks=[
            NetworkRun(
                name=one.name,
                jobs=len(one.jobs),
                alone_us=one.alone_us,
                requests=sum(len(run.networks[number].response_us) for run in runs),
                late=_share([(run.networks[number].late, len(run.networks[number].response_us)) for run in runs]),
                median_us=float(np.median([run.networks[number].quantile(0.5) for run in runs])),
                p99_us=float(np.median([run.networks[number].quantile(0.99) for run in runs])),
            )
            for number, one in enumerate(policy.networks)
        ],
    )


def _share(parts: Sequence[tuple[int, int]]) -> float:
    return sum(part for part, _ in parts) / max(1, sum(whole for _, whole in parts))


def _lines(data: Simulated) -> list[str]:
    seeds = f", seeds {', '.join(map(str, data.seeds))}" if data.seeds else ""
    heads = f"{'policy':13}{'late':>8} {'(by seed)':16}{'a second':>10}{'busy':>7}{'longest us':>12}"
    lines = [f"{data.title}: estimated; {data.seconds:g} s, load {data.load:.2f}{seeds}", heads]
    for row in data.policies:
        low, high = (100 * pick(row.late_by_seed) for pick in (min, max))
        late = f"{100 * row.late:7.1f} % {f'({low:.1f} to {high:.1f})':16}"
        busy = f"{100 * row.utilization:5.0f} % {row.longest_job_us:11,.0f}"
        lines.append(f"{row.policy:13}{late}{row.per_second:9.1f} {busy}")
    heads = f"{'jobs':>5}{'alone us':>11}{'late':>9}{'median us':>12}{'99 % us':>12}"
    lines.append(f"{'network':20} {'policy':13}{heads}")
    for number, network in enumerate(data.networks):
        for row in data.policies:
            one = row.networks[number]
            lines.append(
                f"{network.name[:20]:20} {row.policy:13}{one.jobs:5}{one.alone_us:11,.0f}"
                f"{100 * one.late:7.1f} %{one.median_us:12,.0f}{one.p99_us:12,.0f}"
            )
    due = ", ".join(f"{one.name} {one.deadline_us:,.0f} us" for one in data.networks)
    return [*lines, f"late: after {due}"]
