# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of streamed traces: their bytes, and what a trace with them refuses."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.commands.facts import check_whole
from host_tools.passes.pipeline import build
from tests.support import replayer_samples as s
from trace_format import packing, streamed
from trace_format.errors import GramophoneError, PieceError, TraceError
from trace_format.schema import PAGE_BYTES, Codec
from trace_format.streamed import MAX_PACKED_BYTES, Limits, Piece
from trace_format.trace import Trace

U32 = st.integers(0, 0xFFFFFFFF)
DATA = st.integers(1, 3).flatmap(lambda pages: st.sampled_from([bytes(pages * PAGE_BYTES), b"ab" * 2048 * pages]))
PIECES = st.builds(Piece, U32, U32, U32, U32, DATA, st.booleans())


@given(st.lists(PIECES, min_size=1, max_size=6), st.booleans())
def test_rows_come_back(pieces: list[Piece], compress: bool) -> None:
    rows, stream = streamed.packed(pieces, compress)
    assert len(rows) == streamed.BYTES * len(pieces)
    again = streamed.parsed(rows, b"".join(stream), 0, 0)
    assert [replace(piece, data=bytes(piece.data)) for piece in again] == pieces


def test_equal_pieces_are_stored_once() -> None:
    data = bytes(range(256)) * 16
    pieces = [Piece(page, 0, 0, 0, data) for page in range(4)]
    assert sum(map(len, streamed.packed(pieces, compress=False)[1])) == PAGE_BYTES


def test_a_trace_with_pieces_comes_back() -> None:
    trace = s.streamed()
    again = Trace.parse(trace.build())
    assert again.build() == trace.build()
    assert again.trace_id == trace.trace_id != trace.with_(streamed=[]).trace_id


@pytest.mark.parametrize("size", [0, 1, PAGE_BYTES + 8])
def test_a_piece_is_whole_pages(size: int) -> None:
    with pytest.raises(PieceError, match="size"):
        streamed.check([Piece(2, 0, 0, 0, bytes(size))], Limits(PAGE_BYTES, 8 * PAGE_BYTES, 1))


def test_a_packed_piece_is_small_because_it_is_decoded_in_one_step() -> None:
    noise = random.Random(63).randbytes(MAX_PACKED_BYTES)
    data = [noise[:-PAGE_BYTES] + bytes(PAGE_BYTES), noise + bytes(PAGE_BYTES * 8)]
    rows, stream = streamed.packed([Piece(i, 0, 0, 0, one) for i, one in enumerate(data)], compress=True)
    found = [packing.unpack("piece", rows[at : at + streamed.BYTES], at) for at in (0, streamed.BYTES)]
    assert [row["codec"] for row in found] == [Codec.LZ4, Codec.STORED]
    assert found[0]["stored_bytes"] <= MAX_PACKED_BYTES
    assert [one.data for one in streamed.parsed(rows, b"".join(stream), 0, 0)] == data


def test_what_takes_no_streamed_trace_says_so() -> None:
    trace = s.streamed()
    with pytest.raises(TraceError, match="build its recording"):
        build(trace)
    with pytest.raises(GramophoneError, match=r"net\.gtr is a streamed trace: .* without --secure-memory"):
        check_whole(trace, "net.gtr")


def test_dump_lists_pieces_and_has_no_text_of_them(tmp_path: Path) -> None:
    file = tmp_path / "net.gtr"
    file.write_bytes(s.streamed().build())
    shown = CliRunner().invoke(main, ["dump", str(file)])
    assert (
        "piece            8192 bytes at 0x0000d000 for jobs 1 to 2, read in each replay, from job 0 on"
        in shown.output
    )
    facts = json.loads(CliRunner().invoke(main, ["dump", str(file), "--json"]).stdout)["pieces"]
    assert [row["first_job"] for row in facts] == [0, 0, 1, 2]
    refused = CliRunner().invoke(main, ["dump", str(file), "--format", "text"])
    assert (refused.exit_code, "without --secure-memory" in refused.output) == (2, True)
