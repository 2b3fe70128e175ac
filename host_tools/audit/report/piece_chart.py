# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of a streamed trace by place and over time: where in secure memory each lies, during which jobs.

Lengths are CSS pixels of the plot's view box.
"""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.audit.report.facts import Report
from host_tools.audit.report.memory_chart import LEFT, TICKS, TOP, WIDE

TALL = 240
LEAST = 1.2  # so that a piece can be seen


@dataclass(frozen=True)
class Bar:
    """A piece: first it may be read, while earlier jobs run; from `needed` on, jobs need it."""

    index: int
    x: float
    needed: float
    end: float
    y: float
    height: float


@dataclass(frozen=True)
class PieceChart:
    """The plot.

    Attributes:
        bars: a bar a piece; the carve-out's start is at the bottom.
        image: height of the image, which is there all the time.
        held: of each job, bytes of pieces that it needs or that may be read while it runs.
        again: bytes that each replay reads again.
    """

    width: int
    height: int
    bars: list[Bar]
    ticks: list[tuple[int, float]]
    image: float
    held: list[int]
    again: int


def piece_chart(report: Report) -> PieceChart | None:
    """The plot; None: it is not a streamed trace."""
    if not report.pieces:
        return None
    jobs = len(report.jobs)
    scale = TALL / report.needs.carveout_bytes

    def x(job: int) -> float:
        return round(LEFT + WIDE * job / jobs, 1)

    bars, change = [], [0] * (jobs + 1)
    for index, piece in enumerate(report.pieces):
        height = max(LEAST, round(piece.bytes * scale, 1))
        bottom = TOP + TALL - round(piece.offset * scale, 1)
        times = x(piece.from_job), x(piece.first_job), x(piece.last_job + 1)
        bars.append(Bar(index, *times, round(bottom - height, 1), height))
        change[piece.from_job] += piece.bytes
        change[piece.last_job + 1] -= piece.bytes
    held = [sum(change[: job + 1]) for job in range(jobs)]
    return PieceChart(
        LEFT + WIDE + 8,
        TOP + TALL + 4,
        bars,
        [(job, x(job)) for job in range(0, jobs, max(1, jobs // TICKS))],
        round(report.needs.image_bytes * scale, 1),
        held,
        sum(piece.bytes for piece in report.pieces if not piece.resident),
    )
