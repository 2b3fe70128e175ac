# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `cut-jobs` has done, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host_tools.passes.job_reasons import TimeChange, by_reason, only_seen, titled
from host_tools.support.results import Above, Count, Positive, Result


@dataclass(frozen=True)
class Kept:
    """A job that is longer than wanted, still; microseconds.

    Attributes:
        number: of the job, from 1, before the cut.
        us: it, or its longest piece.
    """

    number: int
    name: str
    us: float
    why: str

    def text(self) -> str:
        """For people."""
        return f"{titled(self.number, self.name)} with {self.us:,.0f} us"


class JobsChange(Result):
    """Number of jobs."""

    before: Count
    after: Count


class CutJob(Result):
    """A job that is cut.

    Attributes:
        number: Before the cut, from 1.
        proved: That it accesses the same with all data; else two replays showed it.
    """

    number: Positive
    pieces: Positive
    proved: bool


class CutFacts(Result):
    """What `--longest` has done.

    Attributes:
        chip: The board whose time is estimated.
        longest_us: What was asked for.
        job_us: The longest.
        replay_us: All jobs of a replay.
        cut: Jobs that are cut.
        kept: Jobs that are longer still.
        more: Time that a replay's jobs take more, as a share.
    """

    chip: str
    longest_us: Above
    jobs: JobsChange
    job_us: TimeChange
    replay_us: TimeChange
    cut: list[CutJob]
    kept: Sequence[Kept]
    more: float


@dataclass(frozen=True)
class Cut:
    """What the pass has done; pairs are before and after it, times are estimates in microseconds.

    Attributes:
        chip: the board whose time it is.
        longest_us: what was asked for.
        jobs: number of them, those before ReplayStart among them.
        job_us: the longest.
        replay_us: all jobs of a replay.
        cut: jobs, from 1, and how many pieces each became.
        seen: those of them that are cut because two replays showed the same accesses; of the others it is proved.
        kept: jobs that are longer still.
    """

    chip: str
    longest_us: float
    jobs: tuple[int, int]
    job_us: tuple[float, float]
    replay_us: tuple[float, float]
    cut: Mapping[int, int]
    seen: Sequence[int]
    kept: Sequence[Kept]

    @property
    def more(self) -> float:
        """Time that a replay's jobs take more, as a share."""
        return self.replay_us[1] / self.replay_us[0] - 1 if self.replay_us[0] else 0.0

    def lines(self) -> list[str]:
        """For people."""
        us, replay = self.job_us, self.replay_us
        rows = [
            f"longest job, estimated for {self.chip}: {us[0]:,.0f} -> {us[1]:,.0f} us; jobs: {self.jobs[0]} -> "
            f"{self.jobs[1]}; a replay's jobs: {replay[0]:,.0f} -> {replay[1]:,.0f} us ({100 * self.more:+.1f} %)"
        ]
        rows += only_seen("were cut", len(self.cut), len(self.seen))
        return [*rows, *by_reason("longer still", self.kept)]

    def facts(self) -> CutFacts:
        """For programs."""
        seen = set(self.seen)
        return CutFacts(
            chip=self.chip,
            longest_us=self.longest_us,
            jobs=JobsChange(*self.jobs),
            job_us=TimeChange(*self.job_us),
            replay_us=TimeChange(*self.replay_us),
            cut=[CutJob(number, pieces, number not in seen) for number, pieces in self.cut.items()],
            kept=self.kept,
            more=self.more,
        )
