# SPDX-License-Identifier: BSD-2-Clause
"""Traces that fit a budget of secure memory: the core reads, checks and decodes pieces while jobs run."""

from __future__ import annotations

import functools
import json
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.report.collect import Asked, collect
from host_tools.audit.report.page import page
from host_tools.audit.report.piece_chart import piece_chart
from host_tools.cli import main
from host_tools.model.interpreter import interpreter
from host_tools.model.secure_memory import memory_for
from host_tools.passes import streaming
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS, secure_bytes
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from tests.support.streamed import INPUT, LATENCY_NS, WEIGHTS, expected, loaded, output
from trace_format import layout
from trace_format.actions import Op
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES, SectionType
from trace_format.trace import Trace

ROOM = 1 << 20  # for head, actions, page table
REPLAYS = 20  # with each byte that changes


def made(budget: int, raw: Trace | None = None) -> Trace:
    """The network of weights, built for a budget."""
    return build(raw or weighted(WEIGHTS), asked={PASS.name: budget})


@functools.cache
def smallest() -> int:
    """The budget that a refusal names."""
    with pytest.raises(TraceError, match="at least") as refused:
        made(PAGE_BYTES)
    return int(str(refused.value).split("at least ")[1].split()[0])


def test_each_budget_gives_the_same_outputs() -> None:
    raw, least = weighted(WEIGHTS), smallest()
    sizes = []
    for budget in range(least, least + (WEIGHTS + 2) * PAGE_BYTES, PAGE_BYTES):
        trace = made(budget)
        assert secure_bytes(trace) <= budget
        with interpreter(trace) as run:  # reads each piece as early as a device may
            assert all(run.run({"in": INPUT})["out"].tolist() == expected(raw) for _ in range(2))
        for file in (trace.build(), trace.build(compress=False)):
            with loaded(bytearray(s.signed(file)), budget) as (replayer, _):
                assert output(replayer) == output(replayer) == expected(raw)
        assert (
            len(trace.build()) < len(trace.build(compress=False)) - WEIGHTS * PAGE_BYTES // 4
        )  # pieces are packed
        sizes.append(sum(len(piece.data) for piece in trace.streamed if not piece.resident))
    assert (max(sizes), sizes[-1]) == (WEIGHTS * PAGE_BYTES, 0)


def test_pieces_are_larger_where_there_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = smallest()
    before = len(made(budget).streamed)
    monkeypatch.setattr(streaming, "MAX_PIECES", before - 1)
    monkeypatch.setattr(streaming, "_MOST_PIECES", WEIGHTS)
    trace = made(budget + WEIGHTS * PAGE_BYTES)
    assert 0 < len(trace.streamed) < before
    with interpreter(trace) as run:
        assert run.run({"in": INPUT})["out"].tolist() == expected(weighted(WEIGHTS))
    monkeypatch.setattr(streaming, "MAX_PIECES", 0)
    with pytest.raises(TraceError, match="--secure-memory: it would have 1 pieces, and a device takes at most 0"):
        made(budget + WEIGHTS * PAGE_BYTES)


def test_a_budget_that_is_too_small_names_the_least_and_the_job() -> None:
    least = smallest()
    made(least)
    with pytest.raises(TraceError, match=r"--secure-memory: job \d+ needs \d+ bytes at once"):
        made(least - 1)


def test_without_the_option_nothing_changes() -> None:
    raw = weighted(WEIGHTS)
    assert not build(raw).streamed
    assert build(raw).build() == build(raw, skip=[PASS.name]).build()


def test_a_file_reads_back() -> None:
    trace = made(smallest())
    again = Trace.parse(trace.build())
    header = layout.read_header(trace.build(compress=False))
    with loaded(bytearray(s.signed(trace)), ROOM) as (replayer, _):
        found = replayer.report.secure_bytes
    assert found == memory_for(trace, header["head_bytes"], header["chunk_bytes"]) <= smallest()
    assert [piece.page for piece in again.streamed] == [piece.page for piece in trace.streamed]
    assert again.build() == trace.build()


@pytest.mark.parametrize("latency_ns", [0, LATENCY_NS])
def test_pieces_are_read_before_their_job_or_while_another_runs(latency_ns: int) -> None:
    """With jobs that take time, what a replay needs is read at once while the first of them runs."""
    trace = made(smallest() + WEIGHTS * PAGE_BYTES // 2)
    data = bytearray(s.signed(trace))
    with loaded(data, ROOM, latency_ns) as (replayer, _):
        assert output(replayer) == output(replayer) == expected(weighted(WEIGHTS))


def _stream(data: bytes | bytearray) -> range:
    """Where STREAM lies in a signed file."""
    start = len(data) - int.from_bytes(data[16:24], "little")
    part = layout.disassemble(bytes(data[start:]))[1].one(SectionType.STREAM)
    return range(start + part.offset, start + part.offset + len(part.stored))


@pytest.mark.parametrize("latency_ns", [0, LATENCY_NS])
def test_a_byte_that_changes_after_loading_is_noticed(latency_ns: int) -> None:
    """In each page of each piece: a status that says which, and no output."""
    trace = made(smallest() + 3 * PAGE_BYTES)
    good = s.signed(trace)
    noticed = set()
    for at in _stream(good)[7::PAGE_BYTES]:
        data = bytearray(good)
        with loaded(data, ROOM, latency_ns) as (replayer, carveout):
            data[at] ^= 1
            taken = np.full(16, 99, np.int32)
            replayer.bind(0, INPUT.copy())
            replayer.bind(1, taken)
            with pytest.raises(ReplayError) as failed:
                replayer.run()
            assert failed.value.report.name == "CHUNK"
            noticed.add(failed.value.report.op)
            assert ": piece " in str(failed.value)
            assert (taken == 99).all()
            replayer.unload()
            assert carveout[:].count(0) == len(carveout)
    assert noticed == ({Op.JOB, Op.WAIT_IRQ} if latency_ns else {Op.JOB})


@pytest.mark.parametrize("latency_ns", [0, LATENCY_NS])
def test_a_second_core_that_changes_each_piece_meanwhile(latency_ns: int) -> None:
    """While replays read it, a byte of each page in turn changes again and again: a replay ends in CHUNK without
    an output, or has the right one, and both happen.
    """
    trace = made(smallest())
    data = bytearray(s.signed(trace))
    right, ends = expected(weighted(WEIGHTS)), set()
    with loaded(data, ROOM, latency_ns) as (replayer, _):
        taken = np.full(16, 99, np.int32)
        replayer.bind(0, INPUT.copy())
        replayer.bind(1, taken)
        for at in _stream(data)[7::PAGE_BYTES]:
            with changing(data, at):
                for _ in range(REPLAYS):
                    taken[:] = 99
                    try:
                        replayer.run()
                        ends.add("OK")
                        assert taken.tolist() == right
                    except ReplayError as failed:
                        ends.add(failed.report.name)
                        assert (taken == 99).all()
    assert ends == {"OK", "CHUNK"}


@contextmanager
def changing(data: bytearray, at: int) -> Iterator[None]:
    """A byte of a buffer changes as fast as another thread can; afterwards it is what it was."""
    ends, was = threading.Event(), data[at]

    def change() -> None:
        while not ends.is_set():
            data[at] ^= 1

    other = threading.Thread(target=change)
    other.start()
    try:
        yield
    finally:
        ends.set()
        other.join()
        data[at] = was


def test_what_is_resident_is_read_once_and_the_rest_again() -> None:
    trace = made(smallest() + WEIGHTS * PAGE_BYTES)
    assert all(piece.resident for piece in trace.streamed)
    data = bytearray(s.signed(trace))
    with loaded(data, ROOM) as (replayer, _):
        first = output(replayer)
        for at in _stream(data):
            data[at] = 0
        assert output(replayer) == first
    data = bytearray(s.signed(made(smallest())))
    with loaded(data, ROOM) as (replayer, _):
        assert output(replayer) == first
        for at in _stream(data):
            data[at] = 0
        with pytest.raises(ReplayError, match="chunk"):
            replayer.run()


def test_a_source_that_ends_early_or_is_slow() -> None:
    data = bytearray(s.signed(made(smallest())))
    with loaded(data, ROOM) as (replayer, _):
        replayer.slow(0, _stream(data)[0] + 1)
        with pytest.raises(ReplayError) as failed:
            output(replayer)
        assert failed.value.report.name == "READ"
        replayer.slow(0, len(data))
        assert output(replayer) == expected(weighted(WEIGHTS))
        replayer.slow(2_000_000_000)
        with pytest.raises(ReplayError) as failed:
            output(replayer)
        assert failed.value.report.name == "BUDGET"


def test_a_restart_reads_again() -> None:
    with loaded(bytearray(s.signed(made(smallest()))), ROOM) as (replayer, _):
        first = output(replayer)
        replayer.restart()
        assert output(replayer) == first


def test_a_job_that_fails_is_done_again_with_its_pieces() -> None:
    trace = made(smallest())
    carveout = mmap.mmap(-1, ROOM)
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}, hang_job=WEIGHTS // 2) as gpu:
        replayer = hostlib.HostReplayer(
            s.library(streaming=True), s.GPU, gpu.c_interface, carveout, s.CARVEOUT_PHYS
        )
        replayer.load(s.signed(trace), s.KEY)
        assert output(replayer) == expected(weighted(WEIGHTS))
        assert replayer.report.retries == 1


def test_time_shows_when_pieces_are_read(tmp_path: Path) -> None:
    """As the virtual GPU's replays read them; with more memory, more of it while jobs run."""
    whole = []
    for budget in (smallest(), smallest() + 3 * PAGE_BYTES):
        trace = made(budget)
        path = tmp_path / "net.gtr"
        path.write_bytes(trace.build())
        result = CliRunner().invoke(main, ["speed", "time", str(path), "--read-rate", "100", "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)["pieces"]
        assert sorted(one["piece"] for one in found["reads"]) == list(range(len(trace.streamed)))
        assert found["again_bytes"] == sum(len(piece.data) for piece in trace.streamed if not piece.resident)
        assert len(found["held_bytes"]) == trace.jobs
        assert found["fixed_bytes"] + max(found["held_bytes"]) <= trace.carveout_bytes
        assert found["reading_us"] == pytest.approx(WEIGHTS * PAGE_BYTES / 100)
        whole.append(found["first_output_us"])
    assert whole[1] <= whole[0]
    text = CliRunner().invoke(main, ["speed", "time", str(path)]).stdout
    assert "first output after" in text


def test_where_data_go_is_followed_through_pieces() -> None:
    """A piece that is read is the trace's own data, whatever lay there before: the findings are those without."""
    raw = weighted(WEIGHTS)
    expected = [(found.rule.id, found.text) for found in lint_dynamic(build(raw))[0]]
    for more in (0, 3 * PAGE_BYTES, WEIGHTS * PAGE_BYTES):
        assert [(found.rule.id, found.text) for found in lint_dynamic(made(smallest() + more))[0]] == expected


def test_a_report_shows_the_pieces() -> None:
    trace = made(smallest() + 3 * PAGE_BYTES)
    found = collect(Asked("net.gtr", trace.build(), run=False), trace)
    chart = piece_chart(found)
    assert chart
    sizes = [len(piece.data) for piece in trace.streamed]
    assert [piece.bytes for piece in found.pieces] == sizes
    assert chart.again == sum(len(piece.data) for piece in trace.streamed if not piece.resident)
    held = [
        sum(size for size, row in zip(sizes, found.pieces, strict=True) if row.from_job <= job <= row.last_job)
        for job in range(trace.jobs)
    ]
    assert chart.held == held
    assert len({(bar.x, bar.y) for bar in chart.bars}) == len(sizes)
    text = page(found)
    for piece in found.pieces:
        assert f"<td>{piece.offset:#010x}</td><td>{piece.bytes:,}</td><td>{piece.from_job}</td>" in text
    plain = build(weighted(1))
    assert "Secure memory over time" not in page(collect(Asked("net.gtr", plain.build(), run=False), plain))


def test_a_budget_for_everything_is_not_filled() -> None:
    """Nothing is read early where all pieces stay."""
    enough = made(smallest() + WEIGHTS * PAGE_BYTES)
    assert made(ROOM).carveout_bytes == enough.carveout_bytes


def test_a_replayer_without_the_feature_refuses_it() -> None:
    device = s.Device()
    with pytest.raises(ReplayError) as failed:
        device.replayer.load(s.signed(made(smallest())), s.KEY)
    assert failed.value.report.name == "HEADER"
