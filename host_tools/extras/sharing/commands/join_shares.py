# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone sharing join --share`: two networks at the same time on parts of a Mali's cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from host_tools.accesses.job_times import job_times, replayed
from host_tools.accesses.job_work import JobWork
from host_tools.accesses.observe import random_inputs
from host_tools.commands.facts import facts
from host_tools.commands.framework import Outcome, UsageError, warn
from host_tools.commands.streams import write
from host_tools.extras.sharing.joining import Joining, joint
from host_tools.families.page_tables import DivergenceError
from host_tools.families.shares import NotSharedError, Share, Together, order_of, overlap, sharing_of
from host_tools.model.facts import SlotFacts
from host_tools.model.interpreter import Interpreter
from host_tools.model.parts import SEPARATOR
from host_tools.model.timing import Chip, Estimate, JobTime, TimingError, estimate
from host_tools.support.progress import phase
from host_tools.support.results import Amount, Count, Positive, Result
from host_tools.vgpu import confined
from host_tools.vgpu.binding import VgpuError
from trace_format.actions import Action, Op
from trace_format.errors import GramophoneError, printable
from trace_format.network import Network
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

GIVEN = (SlotKind.INPUT, SlotKind.PARAMETER)
SEEDS = (0, 1)  # of inputs that the comparison gives, a replay each
LATENCY_NS = 20_000  # of a job in the comparison, so that two run at the same time
MOST_CORES = 64
Times = list[tuple[JobWork, JobTime]]  # of a network's jobs

NOT_TRIED = "two jobs at the same time were not tried on a board"


def masks(given: Sequence[tuple[str, str]], names: Sequence[str]) -> list[int]:
    """The cores of each network, as `--share` says.

    Raises:
        UsageError: not two networks, one without a share, or a share that is no mask.
    """
    if len(names) != 2:
        raise UsageError(f"--share: expected two traces, found {len(names)}")
    if len(set(names)) < len(names):
        raise UsageError(f"--share: both networks are called {printable(names[0])}: expected other --names")
    found: dict[str, int] = {}
    for name, text in given:
        if name not in names:
            raise UsageError(f"--share: no network {name!r}; there are: {', '.join(map(printable, names))}")
        if name in found:
            raise UsageError(f"--share: {name} has two core shares: expected one")
        try:
            found[name] = int(text, 0)
        except ValueError:
            found[name] = -1
        if not 0 <= found[name] < 1 << MOST_CORES:
            raise UsageError(f"--share {name}: expected a mask of cores, as 0x0f, found {text!r}")
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(f"--share: {', '.join(map(printable, dict.fromkeys(missing)))} has no core share")
    return [found[name] for name in names]


class ShareFacts(Result):
    """A network, and its cores as a mask."""

    name: str
    cores: Positive


class BothEstimate(Result):
    """A replay of both, by the model of time.

    Attributes:
        alone_us: Of each network, alone on its cores.
        in_turn_us: Both, one after the other on all cores.
    """

    chip: str
    us: Amount
    low_us: Amount
    high_us: Amount
    alone_us: list[Amount]
    in_turn_us: Amount


class Joined(Result, kw_only=True):
    """Traces of several networks, joined to one; or one that was taken out.

    Attributes:
        image_pages: Pages of all images together; null: a network was taken out.
        shared_pages: Of these, those that were there already.
        shares: With --share: both networks.
        rendezvous: How often in a replay one network waits for the other's job because something needs an idle
            GPU.
        estimate: Null: not known, or not asked for.
        trace_id: Identity of the trace, in hex.
        source_hash: SHA-256 of those of the traces, in hex.
    """

    file: str
    bytes: Count
    image_pages: Count | None
    shared_pages: Count | None
    shares: list[ShareFacts] | UnsetType = UNSET
    rendezvous: Count | UnsetType = UNSET
    estimate: BothEstimate | UnsetType | None = UNSET
    name: str
    trace_id: str
    gpu: str
    raw: Literal[False]
    jobs: Count
    actions: Count
    image_bytes: Count
    carveout_bytes: Count
    va_bytes: Count
    slots: list[SlotFacts]
    networks: list[Network] | UnsetType = UNSET
    source_hash: str
    security_version: Count
    recorder: str
    kernel: str
    driver: str
    framework: str


def at_once(
    files: Sequence[Path],
    rows: Sequence[Joining],
    cores: Sequence[int],
    name: str,
    output: Path,
    chip: Chip | None,
) -> Outcome[Joined]:
    """Write the trace of both, and say what it costs.

    Args:
        files: where the traces are from, for messages.
        rows: both networks.
        cores: of each.
        name: of the trace.
        output: where it goes.
        chip: on which times are estimated, which the order of jobs follows; None: they take turns.

    Raises:
        NotSharedError: they cannot run at the same time.
        GramophoneError: they cannot be joined, or what they compute together is not what each computes alone.
    """
    whole = joint(rows, name)
    made, shares, times = _planned(whole.trace, files, rows, cores, chip)
    with phase("comparing with the single traces"):
        _compare(made.trace, rows)
    pieces = made.trace.pieces()
    write(output, *pieces)
    warn(NOT_TRIED)
    size, saved = sum(map(len, pieces)), whole.shared_pages * PAGE_BYTES
    estimate = _estimate(made.trace, rows, times, chip) if chip and times else None
    data = Joined(
        file=str(output),
        bytes=size,
        image_pages=whole.image_pages,
        shared_pages=whole.shared_pages,
        shares=[ShareFacts(share.name, share.cores) for share in shares],
        rendezvous=made.rendezvous,
        estimate=estimate,
        **facts(made.trace),
    )
    if estimate and estimate.us > estimate.in_turn_us:
        warn("one after the other on all cores, they take less time by the same estimates")
    lines = [f"{output}: {size} bytes, both at once, {saved} bytes of their images are there once, not signed"]
    for number, share in enumerate(shares):
        time = f", {estimate.alone_us[number]:,.0f} us alone there" if estimate else ""
        where = f"cores {share.cores:#x}, job slot {number + 1}, address space {number}"
        lines.append(f"{printable(share.name):20} {where}{time}")
    end = f": {estimate.us:,.0f} us, and {estimate.in_turn_us:,.0f} us in turn on all" if estimate else ""
    waits = f"for an idle GPU one waits for the other {made.rendezvous} times"
    return Outcome(data, "\n".join([*lines, f"a replay of both{end}; {waits}"]))


def replay_of_both(files: Sequence[Path], rows: Sequence[Joining], cores: Sequence[int], chip: Chip) -> Estimate:
    """How long a replay of both takes, each on its cores.

    Args:
        files, rows, cores, chip: as `at_once`.

    Raises:
        NotSharedError, TimingError, GramophoneError: as `at_once`; the time model does not know it.
    """
    made, _, times = _planned(joint(rows, "both").trace, files, rows, cores, chip)
    if not times:
        raise TimingError("no estimate for both networks at once")
    return replayed(made.trace, job_times(made.trace, chip))


def _planned(
    whole: Trace, files: Sequence[Path], rows: Sequence[Joining], cores: Sequence[int], chip: Chip | None
) -> tuple[Together, list[Share], list[Times]]:
    """Both at once; their shares, and what the jobs of each take there: [] where that is not known."""
    together = sharing_of(whole.gpu).shares
    if isinstance(together, str):
        raise NotSharedError(f"{whole.gpu}: its cores cannot be shared: {together}")
    for file, row in zip(files, rows, strict=True):
        order = order_of(row.trace)
        if order and overlap(order):
            raise NotSharedError(
                f"{file}: expected the trace of one network, found jobs that run at the same time"
            )
    # What is wrong with cores or traces shows before anything is counted.
    shares = [Share(row.name, mask, [1.0] * row.trace.jobs) for row, mask in zip(rows, cores, strict=True)]
    made, times = together(whole, shares), list[Times]()
    if chip is None:
        return made, shares, times
    for file, row, share in zip(files, rows, shares, strict=True):
        try:
            with phase(f"estimating {printable(row.name)}"):
                times.append(job_times(row.trace, chip, share.cores.bit_count()))
        except TimingError as error:
            warn(f"{file}: its time is not estimated, so jobs take turns: {error}")
            return made, shares, []
    us = ([time.us for _, time in own] for own in times)
    shares = [replace(one, us=own) for one, own in zip(shares, us, strict=True)]
    return together(whole, shares), shares, times


def _estimate(trace: Trace, rows: Sequence[Joining], times: Sequence[Times], chip: Chip) -> BothEstimate:
    """How long a replay of both takes, each alone on its cores, and one after the other on all cores."""
    both = replayed(trace, job_times(trace, chip))
    jobs = (job for own in times for job, _ in own if not job.prepares)
    return BothEstimate(
        chip=chip.name,
        **vars(both),
        alone_us=[replayed(row.trace, own).us for row, own in zip(rows, times, strict=True)],
        in_turn_us=sum(estimate(job.dispatches, chip).us for job in jobs),
    )


def _compare(trace: Trace, rows: Sequence[Joining]) -> None:
    """What both compute together must be what each computes alone, on the virtual GPU.

    Raises:
        GramophoneError: it is not.
    """
    try:
        if different := confined.call(lambda: _different(trace, rows), str):
            raise GramophoneError(f"joint and single replays give different results: {different}")
    except (DivergenceError, VgpuError) as error:
        raise GramophoneError(f"they cannot be replayed together: {error}") from error


class _Slow(Interpreter):
    """A device whose jobs take time, so that two run at once. In its prologue the CPU is the slower one: traces
    may have been recorded on a GPU that answers at once.
    """

    replays = False

    def _step(self, row: Action) -> None:
        super()._step(row)
        self.replays |= row.op == Op.REPLAY_START
        if not self.replays:
            self._pass(LATENCY_NS)


def _different(trace: Trace, rows: Sequence[Joining]) -> str:
    """The first output that is not the single trace's, bit by bit; "": none."""
    devices = [_Slow(one, latency_ns=LATENCY_NS) for one in (trace, *(row.trace for row in rows))]
    try:
        for seed in SEEDS:
            values = [random_inputs(row.trace, seed, GIVEN) for row in rows]
            all_values = [_prefixed(row.name, own) for row, own in zip(rows, values, strict=True)]
            found = devices[0].run(all_values[0] | all_values[1])
            for row, own, device in zip(rows, values, devices[1:], strict=True):
                for name, array in _prefixed(row.name, device.run(own)).items():
                    if found[name].tobytes() != array.tobytes():
                        return f"output {printable(name)}, with inputs of seed {seed}"
    finally:
        for device in devices:
            device.close()
    return ""


def _prefixed(network: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {network + SEPARATOR + name: array for name, array in arrays.items()}
