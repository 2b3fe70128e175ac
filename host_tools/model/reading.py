# SPDX-License-Identifier: BSD-2-Clause
"""When a device reads the pieces of a streamed trace, and what that does to the time of a replay.

As tee_replayer/features/streaming does it: before a job, what it needs and is not there; while it runs, one piece
after the other of those whose memory is free, in the order of their rows, until the job has ended. What is being
read then is read to its chunk's end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trace_format.assembly import STREAMED_CHUNK_BYTES
from trace_format.streamed import Piece

RATE = 60.0  # MB/s: a guess for one core of a Raspberry Pi 4, which has no instructions for SHA-256


@dataclass(frozen=True)
class Read:
    """A piece that is read.

    Attributes:
        piece: its index.
        job: before which, or while which, its last byte is read.
        meanwhile: the GPU works.
    """

    piece: int
    job: int
    meanwhile: bool


@dataclass(frozen=True)
class Reading:
    """One replay, the first; times in microseconds.

    Attributes:
        reads: in their order.
        us: from its start to its last job's end.
        reading_us, computing_us: what both take by themselves.
        held_bytes: of pieces that memory holds while each job runs, those that are read meanwhile among them.
    """

    reads: Sequence[Read]
    us: float
    reading_us: float
    computing_us: float
    held_bytes: Sequence[int]

    @property
    def binds(self) -> str:
        """Which takes longer."""
        return "reading" if self.reading_us > self.computing_us else "computing"

    @property
    def more(self) -> float:
        """Time beyond what takes longer, as a share of it."""
        return self.us / max(self.reading_us, self.computing_us) - 1


def reading(pieces: Sequence[Piece], job_us: Sequence[float], bytes_per_us: float) -> Reading:
    """What a device does in its first replay.

    Args:
        pieces: of the trace; they keep the rules.
        job_us: how long each job takes.
        bytes_per_us: how much is read, checked and decoded in a microsecond, while the GPU works or not.
    """
    reads: list[Read] = []
    left = [len(piece.data) for piece in pieces]
    held = np.zeros(len(job_us), np.int64)
    now = 0.0

    def read(index: int, job: int, us: float = math.inf) -> float:
        """Read on in a piece for so long, and to the end of a chunk; how long that takes."""
        piece, wanted = pieces[index], us * bytes_per_us
        steps = left[index] if wanted >= left[index] else math.ceil(wanted / STREAMED_CHUNK_BYTES)
        taken = min(left[index], steps * STREAMED_CHUNK_BYTES)
        if left[index] == len(piece.data):
            held[job : piece.last_job + 1] += len(piece.data)
        left[index] -= taken
        if not left[index]:
            reads.append(Read(index, job, us < math.inf))
        return taken / bytes_per_us

    for job, us in enumerate(job_us):
        for index, piece in enumerate(pieces):
            if piece.first_job <= job <= piece.last_job and left[index]:
                now += read(index, job)
        end = now + us
        for index, piece in enumerate(pieces):
            if now >= end:
                break
            if piece.from_job <= job < piece.first_job and left[index]:
                now += read(index, job, end - now)
        now = max(now, end)
    whole = sum(len(pieces[one.piece].data) for one in reads) / bytes_per_us
    return Reading(reads, now, whole, sum(job_us), held.tolist())
