# SPDX-License-Identifier: BSD-2-Clause
"""A piece that is not packed is read in steps that end with its chunks, while jobs run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from host_tools.passes.pipeline import build
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import LATENCY_NS, WEIGHTS, expected, loaded, made, output, smallest
from trace_format import layout
from trace_format.schema import MIN_CHUNK_BYTES, PAGE_BYTES, SectionType
from trace_format.streamed import Piece
from trace_format.trace import Trace

ROOM = 1 << 20
READ_US = LATENCY_NS // 1000 * 11 // 10  # of a chunk: a little more than the GPU's work


def one_piece() -> Trace:
    """The network of weights as a whole, and a piece for its last job, which may be read from the first one on."""
    trace = build(weighted(WEIGHTS))
    data = np.random.default_rng(64).bytes(WEIGHTS * PAGE_BYTES)
    piece = Piece(trace.carveout_bytes // PAGE_BYTES, 0, trace.jobs - 1, trace.jobs - 1, data)
    return trace.with_(streamed=[piece], carveout_bytes=trace.carveout_bytes + len(data))


def resident_pieces() -> Trace:
    """Pieces of a page each, which lie in two chunks."""
    raw = weighted(WEIGHTS)
    trace = made(raw, smallest(raw) + WEIGHTS * PAGE_BYTES)
    assert all(piece.resident for piece in trace.streamed)
    return trace


def signed(trace: Trace) -> tuple[bytearray, range]:
    """A file of small chunks, nothing of it packed, and where its pieces lie."""
    data = trace.build(compress=False, chunk_bytes=MIN_CHUNK_BYTES)
    part = layout.disassemble(data)[1].one(SectionType.STREAM)
    file = s.signed(data)
    start = len(file) - len(data) + part.offset
    assert (part.offset - layout.read_header(data)["head_bytes"]) % MIN_CHUNK_BYTES  # no page is a chunk
    return bytearray(file), range(start, start + len(part.stored))


def test_the_gpu_waits_for_a_step_of_a_piece_at_most() -> None:
    """One is read during each job; of the whole piece, all but one would be waited for."""
    file, _ = signed(one_piece())
    with loaded(file, ROOM, LATENCY_NS) as (replayer, _):
        times = []
        for read_us in (0, READ_US):
            replayer.slow(read_us)
            before = replayer.now_ns
            assert output(replayer) == expected(weighted(WEIGHTS))
            times.append((replayer.now_ns - before) / 1000)
    assert times[1] - times[0] < WEIGHTS * READ_US / 2


@pytest.mark.parametrize("make", [one_piece, resident_pieces])
def test_a_piece_that_was_read_in_part_is_read_from_its_beginning(make: Callable[[], Trace]) -> None:
    """Of what a replay that failed has left nothing is taken as checked, though it was."""
    file, stream = signed(make())
    with loaded(file, ROOM) as (replayer, _):
        replayer.slow(0, stream[0] + 3 * MIN_CHUNK_BYTES)
        with pytest.raises(ReplayError) as failed:
            output(replayer)
        assert failed.value.report.name == "READ"
        begin = stream[0] + failed.value.report.offset * PAGE_BYTES
        file[begin] ^= 1
        replayer.slow(0, len(file))
        with pytest.raises(ReplayError) as failed:
            output(replayer)
        assert failed.value.report.name == "CHUNK"
        assert begin == stream[0] + failed.value.report.offset * PAGE_BYTES
        file[begin] ^= 1
        assert output(replayer) == expected(weighted(WEIGHTS))
