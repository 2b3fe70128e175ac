# SPDX-License-Identifier: BSD-2-Clause
"""A second core of the normal world changes the shared memory during a load (racing.c), and while replays read
pieces of a trace in it (racing_pieces.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.runners import libraries
from host_tools.runners.optee import images
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import statuses
from tests.support import replayer_samples as s
from tests.support.programs import run_program
from tests.support.small_jobs import weighted
from tests.support.streamed import made, smallest
from trace_format import layout, packing
from trace_format.schema import SectionType

CHUNK_BYTES = 4096  # racing.c
JOBS = 14
ANSWER = np.dtype([("result", "<u4"), ("origin", "<u4"), ("count", "<u4")])
OUTCOME = np.dtype([("result", "<u4"), ("changes", "<u4"), ("same", "<u4")])
MAX_CHUNKS = 256
PIECES = np.dtype([(name, "<u4") for name in ("result", "output", "same", "piece")])
MAX_PAGES, CALM, WEIGHTS = 64, 5, 12  # racing_pieces.c
BAD_STATE = 0xFFFF0007
NEVER = 0xFFFFFFFF  # result of an outcome that no try had


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_racing_core_never_changes_what_is_replayed(step: int, pta: Path, signed: bytes) -> None:
    """Each `step`-th chunk is attacked while the core copies it: the trace is refused, or replayed as signed.

    The refused ones reach no register: the jobs are those of the accepted ones.
    """
    image = images.image_of(pta, Path(__file__).with_name("racing.c"))
    data, counts = run_program(image, signed, step, cpus=2, icount=False, timeout_s=600)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    count = -(-len(signed) // CHUNK_BYTES)
    assert answer["count"] == -(-count // step) * step
    chunks, loaded = np.split(np.frombuffer(data, OUTCOME, MAX_CHUNKS + 1, ANSWER.itemsize), [MAX_CHUNKS])
    chunks = chunks[:count:step]
    assert (chunks["changes"] > 0).all()
    accepted = chunks["result"] == 0
    assert accepted.any()
    assert not accepted.all()
    assert (chunks["same"] == accepted).all()
    known = {tee_result(status.value): status.name for status in statuses().values()}
    refusals = {known[int(code)] for code in chunks["result"][~accepted]}
    assert refusals <= {"FORMAT", "SIZE", "ENVELOPE", "KEY", "SIGNATURE", "HEADER", "CHUNK"}
    assert loaded["result"][0] == 0
    assert loaded["same"][0] == 1
    assert loaded["changes"][0] > 0
    assert counts["jobs"] == JOBS * (1 + accepted.sum() + 2)
    assert counts["carveout_bytes_left"] == 0


@pytest.fixture(scope="module")
def streaming_pta(pta: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pseudo-TA that reads pieces while jobs run; `pta` skips with the reason where OP-TEE cannot be built."""
    options = Options("v3d42", platform_of("optee"), s.KEY, libraries.source(), any_client=True, streaming=True)
    return generate(options, tmp_path_factory.mktemp("streaming") / "pta")


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_pages_that_change_while_a_replay_reads_them(step: int, streaming_pta: Path) -> None:
    """A replay ends in CHUNK without an output, or has the right one; with most pages of pieces both happen.

    Memory that is changed, cut short, another or none gives CHUNK or READ and the piece; the next replay, with the
    right memory, has the right output.
    """
    raw = weighted(WEIGHTS)
    signed = s.signed(made(raw, smallest(raw)))
    image = images.image_of(streaming_pta, Path(__file__).with_name("racing_pieces.c"))
    data, counts = run_program(image, signed, step, cpus=2, icount=False, timeout_s=600)
    answer = np.frombuffer(data, ANSWER, 1)[0]
    assert hex(answer["result"]) == hex(0), f"from origin {answer['origin']}"
    rows = np.frombuffer(data, PIECES, CALM + 2 * MAX_PAGES, ANSWER.itemsize)
    known = {0: "OK"} | {tee_result(status.value): status.name for status in statuses().values()}
    calm = rows[:CALM]
    assert [known[int(code)] for code in calm["result"]] == ["CHUNK", "READ", "CHUNK", "READ", "OK"]
    assert calm["output"].tolist() == [BAD_STATE] * 4 + [0]
    assert calm["same"][-1] == 1
    trace = signed[len(signed) - int.from_bytes(signed[16:24], "little") :]
    header, sections = layout.disassemble(trace)
    stream = sections.one(SectionType.STREAM)
    assert calm["piece"][:2].tolist() == [_first_of_last_chunk(header, sections)] * 2
    body, size = len(signed) - len(trace) + header["head_bytes"], header["chunk_bytes"]
    first = body + (stream.offset - header["head_bytes"]) // size * size  # of the first piece's chunk
    both = []
    for index in range(0, len(signed) // 4096, step):
        good, bad = rows[CALM:].reshape(-1, 2)[index]
        is_of_pieces = index * 4096 + 7 >= first  # head and image were taken when the trace was loaded
        if bad["result"] != NEVER:
            assert is_of_pieces, index
            assert (known[int(bad["result"])], bad["output"]) == ("CHUNK", BAD_STATE), index
        if good["result"] != NEVER:
            assert (good["result"], good["output"], good["same"]) == (0, 0, 1), index
        if is_of_pieces:
            both.append(NEVER not in (good["result"], bad["result"]))
    assert sum(both) > len(both) // 2
    assert counts["carveout_bytes_left"] == 0


def _first_of_last_chunk(header: Mapping[str, Any], sections: layout.Parts) -> int:
    """The first piece that has bytes of the file's last chunk."""
    stream, size = sections.one(SectionType.STREAM), packing.size_of("piece")
    rows = sections.one(SectionType.PIECES).stored
    pieces = [packing.unpack("piece", bytes(rows[at : at + size])) for at in range(0, len(rows), size)]
    start = stream.offset - header["head_bytes"]  # in the body
    last = (start + len(stream.stored) - 1) // header["chunk_bytes"]
    ends = [start + piece["offset"] + piece["stored_bytes"] - 1 for piece in pieces]
    return next(index for index, end in enumerate(ends) if end // header["chunk_bytes"] == last)
