# SPDX-License-Identifier: BSD-2-Clause
"""What `time` says of a streamed trace: when pieces are read, secure memory over time, time to first output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from host_tools.model.reading import Reading, reading
from host_tools.support.results import Amount, Count, Result
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

_BAR = 40  # characters of the longest bar


class PieceRead(Result):
    """A piece that is read.

    Attributes:
        piece: Its index.
        resident: It is read in the first replay only.
        job: Number of the job, from 0, before which, or while which, it is read.
        meanwhile: The GPU works.
    """

    piece: Count
    bytes: Count
    resident: bool
    job: Count
    meanwhile: bool


class PiecesRead(Result):
    """The first replay of a streamed trace; microseconds.

    Attributes:
        megabytes_per_second: What the CPU reads, checks and decodes; asked for, or a guess.
        first_output_us: From the start of the replay to the end of its last job.
        reading_us: What reading takes by itself.
        computing_us: What jobs take by themselves.
        binds: Which of both takes longer.
        more: First output beyond what takes longer, as a share.
        again_bytes: Bytes that each later replay reads again.
        fixed_bytes: Secure memory of the image and what is written, which is in use all the time.
        held_bytes: Of each job, bytes of pieces that are in memory or are read meanwhile.
    """

    megabytes_per_second: Amount
    first_output_us: Amount
    reading_us: Amount
    computing_us: Amount
    binds: Literal["reading", "computing"]
    more: float
    again_bytes: Count
    fixed_bytes: Count
    held_bytes: list[Count]
    reads: list[PieceRead]


def pieces_read(trace: Trace, job_us: Sequence[float], rate: float) -> tuple[PiecesRead, list[str]]:
    """Facts and lines for people.

    Args:
        trace: a streamed one.
        job_us: what its jobs take.
        rate: megabytes a second.
    """
    found = reading(trace.streamed, job_us, rate)
    memory = {page for piece in trace.streamed for page in range(piece.page, piece.end_page)}
    again = sum(len(piece.data) for piece in trace.streamed if not piece.resident)
    facts = PiecesRead(
        megabytes_per_second=rate,
        first_output_us=found.us,
        reading_us=found.reading_us,
        computing_us=found.computing_us,
        binds="reading" if found.reading_us > found.computing_us else "computing",
        more=found.more,
        again_bytes=again,
        fixed_bytes=trace.carveout_bytes - len(memory) * PAGE_BYTES,
        held_bytes=list(found.held_bytes),
        reads=[
            PieceRead(
                piece=one.piece,
                bytes=len(trace.streamed[one.piece].data),
                resident=trace.streamed[one.piece].resident,
                job=one.job,
                meanwhile=one.meanwhile,
            )
            for one in found.reads
        ],
    )
    return facts, [*_plot(found), *_summary(found, again, rate)]


def _plot(found: Reading) -> list[str]:
    most = max(found.held_bytes, default=0) or 1
    count: dict[int, list[int]] = {}
    for one in found.reads:
        count.setdefault(one.job, [0, 0])[one.meanwhile] += 1
    lines = [f"{'job':>5} {'before':>7} {'while':>7} {'bytes of pieces':>16}"]
    for job, held in enumerate(found.held_bytes):
        before, meanwhile = count.get(job, [0, 0])
        lines.append(f"{job + 1:5} {before:7} {meanwhile:7} {held:16,} {'#' * round(_BAR * held / most)}".rstrip())
    return lines


def _summary(found: Reading, again: int, rate: float) -> list[str]:
    both = found.reading_us + found.computing_us
    return [
        f"reading {found.reading_us:,.0f} us at {rate:g} MB/s, computing {found.computing_us:,.0f} us, "
        f"one after the other {both:,.0f} us; {found.binds} takes longer",
        f"first output after {found.us:,.0f} us: {100 * found.more:.0f} % more than {found.binds} alone",
        f"read again in each later replay: {again:,} bytes",
    ]
