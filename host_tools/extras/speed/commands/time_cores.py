# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed time --cores`: a network on some of a GPU's cores, and what its kernels cost there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.accesses.job_times import job_times, replayed
from host_tools.accesses.job_work import JobWork
from host_tools.commands.framework import UsageError
from host_tools.model.timing import Chip, Estimate, TimingError, estimate
from host_tools.support.results import Amount, Positive, Result
from trace_format.schema import SlotKind
from trace_format.trace import Trace

CALLERS = (SlotKind.INPUT, SlotKind.OUTPUT)


@dataclass(frozen=True)
class Variant:
    """A trace of the network, and what its jobs do.

    Attributes:
        file: where it is from.
    """

    file: str
    trace: Trace
    work: Sequence[JobWork]

    def on(self, cores: int, chip: Chip) -> Estimate:
        """How long a replay takes on so many cores; 0: on all."""
        return replayed(self.trace, [(job, estimate(job.dispatches, chip, cores)) for job in self.work])


def counts(text: str) -> list[int]:
    """Numbers of cores, each once; UsageError: they are none."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and int(word[:9]) > 0 for word in words):
        raise UsageError(f"--cores: expected numbers of cores, as 2,4, found {text!r}")
    return sorted({int(word[:9]) for word in words}, reverse=True)


def variant(file: str, trace: Trace, chip: Chip, first: Trace) -> Variant:
    """Another trace of the network that `first` is of.

    Raises:
        TimingError: it is of another one, by its slots, or the time model does not know it.
    """
    if _slots(trace) != _slots(first):
        raise TimingError(f"{file}: it is no trace of the same network: its inputs or outputs are others")
    try:
        return Variant(file, trace, [job for job, _ in job_times(trace, chip)])
    except TimingError as error:
        raise TimingError(f"{file}: {error}") from error


def _slots(trace: Trace) -> list[tuple[str, str, int]]:
    """Names, types and sizes of what callers give and take: a batch of one is in some compilers' shapes."""
    given = (slot for slot in trace.slots if slot.kind in CALLERS)
    return sorted((slot.name, str(slot.numpy_dtype), math.prod(slot.shape)) for slot in given)


class ReplayOnCores(Result):
    """A trace's replay.

    Attributes:
        times: As many times as long as on all cores.
    """

    file: str
    us: Amount
    low_us: Amount
    high_us: Amount
    times: Amount


class OnCores(Result):
    """Replays on a number of cores.

    Attributes:
        replays: Of the trace, then of each --variant.
        fastest: The file of the trace that is fastest there.
        regret: How much longer than that the one takes there that is fastest on all cores: 0.1 is 10 %; null:
            there is one trace.
    """

    cores: Positive
    replays: list[ReplayOnCores]
    fastest: str
    regret: Amount | None


def on_cores(variants: Sequence[Variant], chip: Chip, cores: Sequence[int]) -> tuple[list[OnCores], list[str]]:
    """Each trace on all cores and on parts of them, as data and as lines.

    Of several traces, the regret of a part is how much longer the one that is fastest on all cores takes there
    than the one that is fastest there.

    Raises:
        TimingError: the chip has no parts, or fewer cores; jobs of a trace have been given some already.
    """
    every = int(chip.constants["cores"].value) if "cores" in chip.constants else 0
    for count in cores:
        if every and count > every:
            raise TimingError(f"{chip.name} has {every} cores", expected=f"1 to {every}", found=count)
    for one in variants:
        if any(job.cores for job in one.work):
            raise TimingError(
                f"{one.file}: its jobs run on some of the cores already: --cores takes single traces"
            )
    whole = [one.on(0, chip) for one in variants]
    winner = min(range(len(variants)), key=lambda at: whole[at].us)
    data, lines = [], [f"{'cores':>7} {'us':>12} {'low':>12} {'high':>12} {'times':>6} {'regret':>8} trace"]
    for count in (every, *(count for count in cores if count != every)):
        times = [one.on(count if count != every else 0, chip) for one in variants]
        best = min(range(len(variants)), key=lambda at: times[at].us)
        regret = times[winner].us / times[best].us - 1 if len(variants) > 1 else None
        replays = [
            ReplayOnCores(one.file, time.us, time.low_us, time.high_us, time.us / all_cores.us)
            for one, time, all_cores in zip(variants, times, whole, strict=True)
        ]
        data.append(OnCores(count, replays, variants[best].file, regret))
        for at, (one, time) in enumerate(zip(variants, times, strict=True)):
            cost = f"{100 * regret:6.1f} %" if regret is not None and at == winner else ""
            row = f"{count:7} {time.us:12,.1f} {time.low_us:12,.1f} {time.high_us:12,.1f}"
            lines.append(f"{row} {time.us / whole[at].us:6.2f} {cost:>8} {one.file}")
    return data, lines
