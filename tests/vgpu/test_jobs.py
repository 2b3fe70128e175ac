# SPDX-License-Identifier: BSD-2-Clause
"""Compute dispatches and control lists: start, queue, completion, failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from host_tools.vgpu import VgpuError
from tests.support.vgpu_model import (
    BIN_DONE,
    BIN_LIST,
    CSD_DONE,
    DATA,
    ERROR,
    READ,
    RENDER_DONE,
    RENDER_LIST,
    TILE_LIST,
    TILE_LIST_VA,
    WRITE,
    Board,
)

Boards = Callable[..., Board]


def completed(b: Board) -> int:
    return b.core(0x900) >> 4 & 0xFF


def test_dispatch_completes_before_the_write_returns(board: Boards) -> None:
    b = board()
    b.dispatch(WRITE, 0x11008)
    assert b.ram.word(DATA + 0x1008) == 0xC0FFEE
    assert b.core(0x50) == CSD_DONE
    assert b.levels == [(0, True)]
    assert b.core(0x900) == 1 << 4
    counters = b.gpu.counters()
    assert (counters.jobs, counters.instructions, counters.bytes_written, counters.bytes_read) == (1, 1, 4, 0)


def test_current_configuration(board: Boards) -> None:
    b = board(hang_job=1)
    b.dispatch(READ)
    for i in (0, 1, 2, 3, 5, 6):
        assert b.core(0x920 + 4 * i) == b.core(0x904 + 4 * i)
    assert b.core(0x930) == 0  # no batch left to hand out


def test_latency_and_queue(board: Boards) -> None:
    b = board(latency_ns=100)
    b.gpu.advance(10)
    b.dispatch(WRITE, 0x10000)
    assert b.core(0x900) & 3 == 2
    b.dispatch(WRITE, 0x11000)
    assert b.core(0x900) & 3 == 3
    assert b.ram.word(DATA + 0x1000) == 0  # the queued one has not run
    b.gpu.advance(109)
    assert not b.levels
    b.gpu.advance(110)
    assert b.levels == [(0, True)]
    assert (completed(b), b.core(0x900) & 3) == (1, 2)
    assert b.ram.word(DATA + 0x1000) == 0xC0FFEE
    b.core(0x58, CSD_DONE)
    b.gpu.advance(300)
    assert (completed(b), b.core(0x900) & 3, b.core(0x50)) == (2, 0, CSD_DONE)


def test_a_full_queue_is_not_overwritten(board: Boards) -> None:
    b = board(latency_ns=100)
    b.dispatch()
    b.dispatch()
    with pytest.raises(VgpuError, match=r"core0 0x0908 \(core0\.CSD_QUEUED_CFG1\): a dispatch is queued already"):
        b.dispatch()


def test_completed_count_wraps(board: Boards) -> None:
    b = board()
    for _ in range(257):
        b.dispatch()
    assert completed(b) == 1
    assert b.gpu.counters().jobs == 257


def test_schedule_is_asked_for_each_completion(board: Boards) -> None:
    delays: list[int] = []
    b = board(latency_ns=50, schedule=delays.append)
    b.lists((0x10000, BIN_LIST))
    b.dispatch()
    assert delays == [50]
    b.gpu.advance(20)
    delays.clear()
    b.run_list(0x10000, len(BIN_LIST))
    b.gpu.advance(50)
    assert b.core(0x50) == CSD_DONE
    assert delays == [20]
    b.gpu.advance(70)
    assert b.core(0x50) == CSD_DONE | BIN_DONE


def test_without_latency_a_schedule_defers_the_interrupt(board: Boards) -> None:
    delays: list[int] = []
    b = board(schedule=delays.append)
    b.dispatch(WRITE)
    assert (delays, b.levels) == ([0], [])
    b.gpu.advance(0)
    assert b.levels == [(0, True)]


def test_hang(board: Boards) -> None:
    b = board(hang_job=2)
    b.dispatch()
    b.core(0x58, CSD_DONE)
    b.dispatch(WRITE)
    b.gpu.advance(1 << 40)
    assert b.core(0x50) == 0
    assert b.core(0x900) & 3 == 2
    assert b.gpu.counters().jobs == 1


def test_engine_error_stops_the_gpu(board: Boards) -> None:
    with pytest.raises(VgpuError, match="compute job 1: instruction at 0xd0b1e004: asked to fail"):
        board().dispatch(ERROR)


def test_no_job_without_mmu(board: Boards) -> None:
    with pytest.raises(VgpuError, match="with the MMU off"):
        board(mmu=False).dispatch()


def test_no_operation_lists(board: Boards) -> None:
    b = board()
    b.lists((0x10000, BIN_LIST), (0x11000, RENDER_LIST), (TILE_LIST_VA, TILE_LIST))
    b.run_list(0x10000, len(BIN_LIST))
    assert b.core(0x50) == BIN_DONE
    b.run_list(0x11000, len(RENDER_LIST), render=True)
    assert b.core(0x50) == BIN_DONE | RENDER_DONE
    assert b.core(0x114) == 0x11000 + len(RENDER_LIST)
    assert b.gpu.counters().list_jobs == 2


def replaced(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("render", "data", "tile_list", "message"),
    [
        (False, bytes([36, *[0] * 8, 4]), TILE_LIST, r"bin list at 0x00010000: packet 36 \(not known here\)"),
        (False, bytes([0]), TILE_LIST, r"packet 0 \(not known here\) at 0x00010000"),
        (False, bytes([250]), TILE_LIST, r"packet 250 "),
        (False, BIN_LIST[:-1], TILE_LIST, r"does not end with packet 4 \(flush\)"),
        (False, BIN_LIST[:5], TILE_LIST, r"packet 120 .* at 0x00010002: runs past the end"),
        (False, b"", TILE_LIST, r"does not end with packet 4"),
        (False, RENDER_LIST, TILE_LIST, r"bin list at 0x00010000: packet 121 "),
        (True, BIN_LIST, TILE_LIST, r"render list at 0x00010000: packet 119 "),
        (True, RENDER_LIST[:-1], TILE_LIST, r"does not end with packet 13"),
        (True, RENDER_LIST, replaced(TILE_LIST, 5, 0), r"packet 29 .* at 0x00013004: a format other"),
        (True, RENDER_LIST, replaced(TILE_LIST, 4, 36), r"generic tile list at 0x00013000: packet 36 "),
        (True, RENDER_LIST, replaced(TILE_LIST, 18, 1), r"does not end with packet 18"),
    ],
)
def test_lists_that_are_not_no_operations(
    board: Boards, render: bool, data: bytes, tile_list: bytes, message: str
) -> None:
    b = board()
    b.lists((0x10000, data), (TILE_LIST_VA, tile_list))
    with pytest.raises(VgpuError, match=message):
        b.run_list(0x10000, len(data), render=render)


def test_second_list_while_one_runs(board: Boards) -> None:
    b = board(latency_ns=10)
    b.lists((0x10000, BIN_LIST))
    b.run_list(0x10000, len(BIN_LIST))
    with pytest.raises(VgpuError, match=r"bin list .* submitted while another runs"):
        b.run_list(0x10000, len(BIN_LIST))


def test_list_that_is_not_mapped(board: Boards) -> None:
    b = board()
    b.run_list(0x20000, 4)
    assert b.core(0x50) == 0
    assert (b.hub(0x50), b.hub(0x122C), b.hub(0x1234)) == (0x10, 4 << 5, 0x20000)  # client CLE
