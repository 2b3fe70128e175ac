# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `co-execute` has done, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from host_tools.passes.job_reasons import by_reason, only_seen, titled


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

    def facts(self) -> dict[str, Any]:
        """For programs."""
        made = asdict(self)
        made["replay_us"] = dict(zip(("before", "after"), self.replay_us, strict=True))
        seen = set(self.seen)
        made["shared"] = [
            {
                **asdict(job),
                "rows": dict(zip(("gpu", "cpu"), job.rows, strict=True)),
                "proved": job.number not in seen,
            }
            for job in self.shared
        ]
        del made["seen"]
        return made
