# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `co-execute` has done, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from host_tools.passes.job_reasons import TimeChange, by_reason, only_seen, titled
from host_tools.support.results import Above, Amount, Count, Positive, Result, one_of


@dataclass(frozen=True)
class Shared:
    """A job of which the CPU computes a part; microseconds are estimates.

    Attributes:
        number: of the job, from 1.
        operator: what the CPU computes.
        rows: output channels of the GPU and of the CPU.
        before_us: the job as it was.
        gpu_us, cpu_us: its part and the CPU's, which work at once.
    """

    number: int
    name: str
    operator: str
    rows: tuple[int, int]
    before_us: float
    gpu_us: float
    cpu_us: float

    @property
    def us(self) -> float:
        """Both at once."""
        return max(self.gpu_us, self.cpu_us)


@dataclass(frozen=True)
class Left:
    """A product that the GPU still computes alone, and why."""

    number: int
    name: str
    why: str

    def text(self) -> str:
        """For people."""
        return titled(self.number, self.name)


class Rows(Result):
    """Output channels of each."""

    gpu: Positive
    cpu: Positive


class SharedFacts(Result):
    """A job of which the CPU computes a part.

    Attributes:
        number: Before the pass, from 1.
        before_us: The job as it was.
        gpu_us: The GPU's part.
        cpu_us: The CPU's, at the same time.
        proved: That it accesses the same with all data; else two replays showed it.
    """

    number: Positive
    name: str
    operator: Annotated[str, one_of("conv1x1", "dense")]
    rows: Rows
    before_us: Amount
    gpu_us: Amount
    cpu_us: Amount
    proved: bool


class CoExecutedFacts(Result):
    """What `--co-execute` has done.

    Attributes:
        chip: The board whose GPU's time is estimated.
        gflops: The CPU's rate, as it was given.
        replay_us: All jobs of a replay.
        constants: Bytes of weights and limits that only the CPU has.
        difference: Of outputs from those before, relative to the largest value.
        left: Products that the GPU computes alone.
    """

    chip: str
    gflops: Above
    replay_us: TimeChange
    constants: Count
    difference: Amount
    shared: list[SharedFacts]
    left: Sequence[Left]


@dataclass(frozen=True)
class CoExecuted:
    """What the pass has done.

    Attributes:
        chip: the board whose GPU's time it is.
        gflops: rate of the CPU, as it was given.
        replay_us: a replay's jobs, before and after.
        constants: bytes of weights and limits that only the CPU has.
        difference: of outputs from those before, relative to the largest value, with random inputs.
        seen: jobs, from 1, of which two replays showed the same accesses; of the others it is proved.
    """

    chip: str
    gflops: float
    replay_us: tuple[float, float]
    constants: int
    difference: float
    seen: Sequence[int]
    shared: Sequence[Shared]
    left: Sequence[Left]

    def lines(self) -> list[str]:
        """For people."""
        before, after = self.replay_us
        rows = [
            f"the CPU computes a part of {len(self.shared)} jobs, estimated for {self.chip} and "
            f"{self.gflops:g} GFLOP/s of the CPU: a replay's jobs: {before:,.0f} -> {after:,.0f} us; "
            f"{self.constants} bytes of constants; outputs differ by {self.difference:.1e}"
        ]
        rows += only_seen("are shared", len(self.shared), len(self.seen))
        return [*rows, *by_reason("the GPU's alone", self.left)]

    def facts(self) -> CoExecutedFacts:
        """For programs."""
        seen = set(self.seen)
        return CoExecutedFacts(
            chip=self.chip,
            gflops=self.gflops,
            replay_us=TimeChange(*self.replay_us),
            constants=self.constants,
            difference=self.difference,
            shared=[
                SharedFacts(**vars(job) | {"rows": Rows(*job.rows)}, proved=job.number not in seen)
                for job in self.shared
            ],
            left=self.left,
        )
