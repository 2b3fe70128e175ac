# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `checkpoints` has found, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host_tools.support.results import Count, Positive, Result
from trace_format.errors import listed


class KeptStep(Result):
    """A job whose step cannot be done again after a fault.

    Attributes:
        number: In a replay, from 1.
    """

    number: Positive
    why: str


class CheckpointFacts(Result):
    """Where replays go on.

    Attributes:
        jobs: Of a replay.
    """

    jobs: Count
    kept: list[KeptStep]


@dataclass(frozen=True)
class Marked:
    """What the pass has found.

    Attributes:
        jobs: number of them in a replay.
        kept: jobs, from 1 in the replay, that cannot be done again, by the reason.
    """

    jobs: int
    kept: Mapping[str, Sequence[int]]

    def lines(self) -> list[str]:
        """For people."""
        again = self.jobs - sum(map(len, self.kept.values()))
        rows = [f"replays go on after a reset; {again} of {self.jobs} jobs can be done again after a fault"]
        return rows + [f"  not job {listed(list(map(str, jobs)))}: {why}" for why, jobs in self.kept.items()]

    def facts(self) -> CheckpointFacts:
        """For programs."""
        kept = sorted((number, why) for why, numbers in self.kept.items() for number in numbers)
        return CheckpointFacts(self.jobs, [KeptStep(number, why) for number, why in kept])
