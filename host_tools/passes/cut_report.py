# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `cut-jobs` has done, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from host_tools.passes.job_reasons import by_reason, only_seen, titled


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

    def facts(self) -> dict[str, Any]:
        """For programs."""
        made = asdict(self) | {"more": self.more}
        for name in ("jobs", "job_us", "replay_us"):
            before, after = made[name]
            made[name] = {"before": before, "after": after}
        seen = set(self.seen)
        made["cut"] = [
            {"number": number, "pieces": pieces, "proved": number not in seen}
            for number, pieces in self.cut.items()
        ]
        del made["seen"]
        return made
