# SPDX-License-Identifier: BSD-2-Clause
"""Faster kernels for a plan: schedules tried on the virtual GPU, with the time model as their cost.

In rounds: the kernels that take most of the predicted time get candidates, two boots of the guest measure them
(measuring.py), and what they were is kept (found.py). What a round tries follows from what is known before it and
from nothing else, so that the same number of rounds from the same cache gives the same kernels. Minutes end the
search between rounds only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from host_tools.extras.speed.kernels import candidates
from host_tools.extras.speed.kernels.candidates import Asked, Candidate, Kernel, Opts
from host_tools.extras.speed.kernels.found import Cache, Row
from host_tools.extras.speed.kernels.measuring import Bench, Measured, Trials, measure, searchable
from host_tools.extras.speed.kernels.prediction import predicted
from host_tools.extras.speed.kernels.searched_kernel import GAIN, SearchedKernel, row_us
from host_tools.families.speed import speed_of
from host_tools.machine.errors import RecordError
from host_tools.machine.root import ready_root
from host_tools.model.timing import Chip, TimingError, chip_of
from host_tools.record.compiled.compilers import TINYGRAD, Compiler
from host_tools.record.compiled.plan import Plan
from host_tools.record.preflight import NetworkError
from host_tools.support import plain, programs
from host_tools.support.confined import PYTHON
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.support.sandbox import Sandbox
from trace_format.files import read_file

T = TypeVar("T")
PROGRAM = "host_tools.extras.speed.kernels.candidates"
COMPILER = replace(TINYGRAD, program="host_tools.extras.speed.kernels.schedule")  # leaves its kernels in a folder
MAKING_S = 900.0
KERNELS_A_ROUND, BOOTS = 6, 2
SHARE = 0.002  # of the time: a kernel of which less is expected is not searched
OUTPUTS_BYTES = 256 << 20  # of candidates in one boot


@dataclass(frozen=True)
class Search:
    """How to search.

    Attributes:
        minutes: after which no round begins; 0: what earlier searches found is taken.
        gpu, timeout, snapshot: as for `record_plan`.
        rounds: at most so many; None: as the minutes are.
        follow: gets each step of the search when it is known.
        cache: where results are kept; None: in the user's cache.
        cpu_gflops: of products, those kernels are kept that are fastest where a CPU with this rate, in 10^9
            operations a second, computes a part (`build --co-execute`); None: where the GPU is alone.
    """

    minutes: float
    gpu: str
    timeout: float
    snapshot: str = ""
    rounds: int | None = None
    follow: Callable[[Sequence[Step]], None] | None = None
    cache: Path | None = None
    cpu_gflops: float | None = None


@dataclass(frozen=True)
class SearchedKernels:
    """Kernels that a search chose (`record.compiled.compilers.Kernels`); fields as those of `Search`."""

    minutes: float
    rounds: int | None = None
    follow: Callable[[Sequence[Step]], None] | None = field(default=None, repr=False)  # changes no recording
    cpu_gflops: float | None = None

    option = "--search"

    def planned(
        self, compiler: Compiler, data: bytes, *, wide: bool, gpu: str, timeout: float, snapshot: str
    ) -> tuple[Plan, dict[str, Any]]:
        """As `Kernels`."""
        if compiler.name != TINYGRAD.name:
            raise NetworkError(f"{self.option}: only {TINYGRAD.name} compiles other kernels, not {compiler.name}")
        how = Search(self.minutes, gpu, timeout, snapshot, self.rounds, self.follow, cpu_gflops=self.cpu_gflops)
        what = f"compiling the network with {compiler.name}"
        with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
            made = partial(COMPILER.plan, data, folder := Path(name), wide=wide)
            with phase(what):
                plan = made()
            found = search(plan, folder, how)
            if found.chosen:
                (folder / candidates.CHOSEN).write_bytes(plain.dumps(found.chosen))
                with phase(f"{what} and the kernels that were chosen"):
                    plan = made()
        return plan, {"search": found.notes}


@dataclass(frozen=True)
class Step:
    """Where a search was after a round: seconds since it began, candidates measured in it, and the time of all
    kernels that it searches, by the model."""

    seconds: float
    turn: int
    candidates: int
    us: float


@dataclass(frozen=True)
class Found:
    """What a search gave: optimisations by kernel, and notes for the trace."""

    chosen: dict[str, Opts]
    steps: list[Step]
    notes: dict[str, object]


def search(plan: Plan, folder: Path, how: Search) -> Found:
    """Search for a plan.

    Args:
        plan: the compiler's own.
        folder: what `schedule.py` left: the kernels, pickled and described.
        how: the settings.

    Raises:
        NetworkError: no chip with this GPU has constants.
        RecordError: a kernel of the compiler's own cannot be measured.
    """
    try:
        chip = chip_of(how.gpu)
    except TimingError as error:
        raise NetworkError(f"--search: {error}") from None
    if speed_of(how.gpu).kernel_costs is None:
        raise NetworkError(f"--search: GPU {how.gpu}: nothing is known of what its kernels cost")
    cache = Cache(chip, ready_root(how.snapshot).key, how.cache)
    return _Rounds(plan, folder, how, chip, cache).run()


class _Rounds:
    def __init__(self, plan: Plan, folder: Path, how: Search, chip: Chip, cache: Cache) -> None:
        self.plan, self.folder, self.how, self.chip, self.cache = plan, folder, how, chip, cache
        self.began = time.monotonic()
        self.states: list[SearchedKernel] = []
        self.steps: list[Step] = []
        cost = partial(predicted, costs=speed_of(how.gpu).kernel_costs)
        described = plain.loads(list[Kernel], read_file(folder / candidates.DESCRIBED))
        repeated = {id(call) for call in plan.preparing()[1].calls}  # constants are prepared once
        for kernel in described:
            call = plan.calls[kernel.calls[0]]
            count = sum(id(plan.calls[at]) in repeated for at in kernel.calls)
            if count and searchable(kernel, call):
                self.states.append(SearchedKernel(kernel, count, Bench(kernel, call, None), cost))

    def run(self) -> Found:
        self._own()
        tried = turn = 0
        self._step(0, 0)
        while (states := self._next()) and not self._over(turn):
            turn += 1
            done = self._round(states, turn)
            tried += done
            self._step(turn, done)
        chosen = {
            state.kernel.key: row.opts
            for state in self.states
            if (row := state.kept(self.how.cpu_gflops)).point is not None
            and row_us(row) < GAIN * row_us(state.own)
        }
        before = sum(state.count * row_us(state.own) for state in self.states)
        notes: dict[str, object] = {
            "kernels": len(self.states),
            "changed": len(chosen),
            "rounds": turn,
            "candidates": tried,
            "us_before": round(before, 1),
            "us": round(self._us, 1),
            "chip": self.chip.name,
        }
        return Found(chosen, self.steps, notes)

    @property
    def _us(self) -> float:
        return sum(state.share for state in self.states)

    def _over(self, turn: int) -> bool:
        if self.how.rounds is not None:
            return turn >= self.how.rounds
        return time.monotonic() - self.began >= self.how.minutes * 60

    def _step(self, turn: int, done: int) -> None:
        seconds = time.monotonic() - self.began
        self.steps.append(Step(seconds, turn, done, self._us))
        if self.how.follow is not None:
            self.how.follow(self.steps)
        known = sum(len(state.rows) for state in self.states)
        LOG.info(
            "search: round %d, %d candidates known, best %.2f ms a replay by the model of %s, %.0f of %.0f s",
            turn,
            known,
            self._us / 1e3,
            self.chip.name,
            seconds,
            self.how.minutes * 60,
        )

    def _own(self) -> None:
        """What is known from earlier searches; and the compiler's own kernels, measured where they are not."""
        for state in self.states:
            state.rows = self.cache.read(state.kernel.key)
        new = [state for state in self.states if not any(row.point is None for row in state.rows)]
        for part in _parts(new, lambda state: state.bench):
            trials = [(state.bench, self._own_candidate(state)) for state in part]
            for state, measured in zip(part, self._measure(trials, "the compiler's own kernels"), strict=True):
                if measured.us is None:
                    raise RecordError(f"kernel {state.kernel.name} cannot be measured: {measured.why}")
                row = Row(None, state.kernel.opts, 0, measured)
                state.rows = self.cache.add(state.kernel.key, [row])

    def _own_candidate(self, state: SearchedKernel) -> Candidate:
        call = state.bench.call
        return Candidate(None, state.kernel.opts, self.plan.kernels[call.kernel], call.groups)

    def _next(self) -> list[SearchedKernel]:
        """The kernels of which most is expected; of those that are alike one only, while there are others: the
        next round takes what was found."""
        least = SHARE * self._us
        open_ = [state for state in self.states if not state.is_left and state.hope >= least]
        open_.sort(key=lambda state: (-state.hope, state.kernel.key))
        first = {state.loops: state for state in reversed(open_)}
        order = sorted(open_, key=lambda state: first[state.loops] is not state)
        return order[:KERNELS_A_ROUND]

    def _round(self, states: list[SearchedKernel], turn: int) -> int:
        """Two boots side by side, each with half of the kernels."""
        asked = [
            Asked(
                state.kernel.key,
                state.next_points([other for other in self.states if other is not state]),
                not state.bench.expected,
            )
            for state in states
        ]
        with ThreadPoolExecutor(BOOTS) as pool:
            parts = [(states[at::BOOTS], asked[at::BOOTS]) for at in range(BOOTS)]
            return sum(pool.map(self._batch, *zip(*parts, strict=True), [turn] * BOOTS))

    def _batch(self, states: list[SearchedKernel], asked: list[Asked], turn: int) -> int:
        code = made(self.folder / candidates.KERNELS, asked)
        trials: list[tuple[Bench, Candidate]] = []
        rows: dict[str, list[Row]] = {}
        owner: list[SearchedKernel] = []
        for state, found in zip(states, code, strict=True):
            rows[state.kernel.key] = []
            if not state.bench.expected:
                without = found.pop(0)
                right = without if without.source else self._own_candidate(state)
                try:
                    state.bench = Bench(state.kernel, state.bench.call, right)
                except RecordError as error:
                    LOG.info("search: %s; it is left as it is", error)
                    state.is_left = True
                    continue
            seen = set()
            for candidate in found:
                if not candidate.source or candidate.source in seen:
                    why = candidate.why or "the same as another one"
                    rows[state.kernel.key].append(self._row(state, candidate, Measured(None, why=why)))
                    continue
                seen.add(candidate.source)
                trials.append((state.bench, candidate))
                owner.append(state)
        names = ", ".join(state.kernel.name for state in states[:2]) + (", .." if len(states) > 2 else "")
        for part in _parts(list(zip(trials, owner, strict=True)), lambda item: item[0][0]):
            what = f"round {turn}: {len(part)} candidates of {names}"
            for ((_, candidate), state), measured in zip(
                part, self._measure([trial for trial, _ in part], what), strict=True
            ):
                if measured.why:
                    LOG.debug("%s %s: %s", state.kernel.name, candidate.opts, measured.why)
                rows[state.kernel.key].append(self._row(state, candidate, measured))
        for state in states:
            state.rows = self.cache.add(state.kernel.key, rows[state.kernel.key])
        return len(trials)

    @staticmethod
    def _row(state: SearchedKernel, candidate: Candidate, measured: Measured) -> Row:
        return Row(candidate.point, candidate.opts, state.turn, measured)

    def _measure(self, trials: Trials, what: str) -> list[Measured]:
        how = self.how
        return measure(trials, self.chip, timeout=how.timeout, snapshot=how.snapshot, what=what)


def made(kernels: Path, asked: Sequence[Asked]) -> list[list[Candidate]]:
    """The candidates' code, by tinygrad in a sandbox.

    Args:
        kernels: the file that `schedule.py` left.
        asked: what is wanted of each kernel.

    Raises:
        RecordError: tinygrad ends with an error.
    """
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        request, answer = Path(name) / "asked", Path(name) / "made"
        request.write_bytes(plain.dumps(list(asked)))
        command = [*PYTHON, PROGRAM, *map(str, (kernels, request, answer))]
        sandbox = Sandbox(reads=(kernels,), writes=(Path(name),))
        done = programs.run(command, timeout_s=MAKING_S, sandbox=sandbox)
        if done.returncode or not answer.exists():
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RecordError(f"candidates cannot be made: {said}")
        found: list[list[Candidate]] = plain.loads(list[list[Candidate]], read_file(answer))
    return found


def _parts(items: Sequence[T], bench: Callable[[T], Bench]) -> list[list[T]]:
    """Items for one boot each, by the memory that their outputs need."""
    parts: list[list[T]] = []
    used = OUTPUTS_BYTES
    for item in items:
        call = bench(item).call
        size = sum(call.views[at].size for at in call.writes)
        if used + size > OUTPUTS_BYTES:
            parts.append([])
            used = 0
        parts[-1].append(item)
        used += size
    return parts
