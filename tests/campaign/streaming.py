# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks of a firmware that reads pieces while jobs run: a piece that was changed after
signing, signed rows that would leave a job without what was checked, signed actions that change what stays.
"""

from __future__ import annotations

import random

from tests.campaign import cases
from tests.campaign.cases import TIMES, Attempt, Case
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Parts
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.streamed import Piece
from trace_format.trace import Trace

STAYS, FIRST, LAST = range(3)  # pieces of the sample
# Functions that read pieces, and execute actions.
READING = (
    "execute_range",
    "gr_fetch_*",
    "fetch*",
    "step_end*",
    "there*",
    "gr_lacks_pieces*",
    "gr_read_ahead*",
    "gr_stream*",
    "next_chunk*",
    "gr_is_same*",
    "gr_try_once*",
    "gr_run*",
)
JOBS = 2
_DATA = random.Random(63).randbytes(3 * PAGE)  # without repetitions, for the reason that `cases.IMAGE` has
RESIDENT = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=0x18, frame=1)


def sample(gpu: str, *more: Action) -> Trace:
    """The campaign's trace, with two jobs before its mark. Each job has a piece, and both have a resident one."""
    jobs = [action(Op.JOB, number=number) for number in range(JOBS)]
    pieces = [
        Piece(1, 0, 0, JOBS - 1, _DATA[:PAGE], resident=True),
        Piece(12, 0, 0, 0, _DATA[PAGE : 2 * PAGE]),
        Piece(13, 0, 1, 1, _DATA[2 * PAGE :]),
    ]
    return cases.sample(gpu, *more, action(Op.REPLAY_START), *jobs).with_(streamed=pieces)


def good(gpu: str) -> Attempt:
    return Attempt(s.signed(sample(gpu)))


def reads(gpu: str) -> Attempt:
    return Attempt(s.signed(sample(gpu, *[RESIDENT] * TIMES)))


def tampered(gpu: str) -> Attempt:
    """Bits of the last piece, after signing: in three words, as in `cases.tampered_chunk`. Chunks are small, so
    that no other section has bytes of this one: a replay reads it first.
    """
    data = bytearray(s.signed(sample(gpu).build(compress=False, chunk_bytes=PAGE)))
    for at in (-1, -9, -17):
        data[at] ^= 0x10
    return Attempt(bytes(data))


def overlapping(gpu: str) -> Attempt:
    """A piece over one that a job is about to use."""
    return Attempt(Parts.of(sample(gpu)).piece(FIRST, "last_job", 1).piece(LAST, "page", 12).signed())


def beyond(gpu: str) -> Attempt:
    """A piece that ends behind the carve-out."""
    return Attempt(Parts.of(sample(gpu)).piece(LAST, "page", 16).signed())


def in_image(gpu: str) -> Attempt:
    """A piece that is written over the image, which has code."""
    return Attempt(Parts.of(sample(gpu)).piece(LAST, "page", 0).signed())


def resident_writable(gpu: str) -> Attempt:
    """The GPU may write to a resident piece: the flag is set after the host's checks."""
    parts = Parts.of(sample(gpu, *[RESIDENT] * TIMES))
    for index in range(2, 2 + TIMES):
        parts = parts.action(index, flags=MAP_READ | MAP_WRITE)
    return Attempt(parts.signed())


CASES = (
    # Not promised: its actions write registers, as their signer may. That it is not accepted is a test's question.
    Case("piece", "a piece with bits turned after signing", "CHUNK", tampered, good, promised=False),
    Case("pieces-overlap", "signed: a piece over another that is in use", "PIECES", overlapping, good),
    Case("piece-beyond", "signed: a piece behind the carve-out", "PIECES", beyond, good),
    Case("piece-in-image", "signed: a piece over the image", "PIECES", in_image, good),
    Case("resident", "signed: a resident piece writable", "RANGE", resident_writable, reads),
)
