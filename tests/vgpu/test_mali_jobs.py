# SPDX-License-Identifier: BSD-2-Clause
"""The virtual Mali's job slots: chains, their headers, interrupts, queueing, stops and faults."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from host_tools.vgpu.binding import VgpuError
from tests.support.mali_model import FLUSHES, JOB, PAGE, VA, MaliBoard

NULL, WRITE_VALUE, CACHE_FLUSH, COMPUTE = 1, 2, 3, 4
DONE, TERMINATED, ACTIVE = 1, 4, 8
LATENCY = 5000


def test_a_job_is_done() -> None:
    board = MaliBoard()
    board.put_job()
    board.submit()
    assert (board.read(0x1000), board.read(0x100C), board.gpu.interrupt_level(JOB)) == (2, 2, True)
    assert board.slot(0x24) == DONE
    assert board.slot(0x60) == 0
    assert board.status() == DONE
    board.write(0x1004, 2)
    assert (board.read(0x1000), board.read(0x1010), board.gpu.interrupt_level(JOB)) == (0, 0, False)
    counters = board.gpu.counters()
    assert (counters.jobs, counters.instructions) == (1, 0)


@pytest.mark.parametrize(("slot", "kind"), [(0, NULL), (0, CACHE_FLUSH), (1, COMPUTE), (2, NULL), (2, COMPUTE)])
def test_every_slot(slot: int, kind: int) -> None:
    board = MaliBoard()
    board.put_job(kind=kind)
    board.submit(slot=slot)
    assert (board.read(0x1000), board.slot(0x24, slot)) == (1 << slot, DONE)


def test_slot_0_takes_no_jobs_that_compute() -> None:
    """JS_FEATURES_0 of the recordings is 0x20e: null, write-value, cache-flush and fragment jobs."""
    board = MaliBoard()
    board.put_job()
    with pytest.raises(VgpuError, match=r"\(slot 0\): the slot takes no jobs of this type .* \(0x4\)"):
        board.submit(slot=0)


def test_two_slots_at_once() -> None:
    """Each has its own status, interrupt bits and mask of them; the end of one leaves the other's alone."""
    board = MaliBoard(latency_ns=LATENCY)
    board.put_job(VA)
    board.put_job(VA + 0x80)
    board.submit(VA, slot=1, affinity=0x0F)
    board.gpu.advance(board.now + LATENCY // 2)
    board.submit(VA + 0x80, slot=2, affinity=0xF0)
    assert (board.slot(0x24, 1), board.slot(0x24, 2)) == (ACTIVE, ACTIVE)
    assert (board.slot(0x10, 1), board.slot(0x10, 2)) == (0x0F, 0xF0)
    board.write(0x1008, 0x70004)  # only the second one's end is waited for
    board.gpu.advance(board.now + LATENCY)
    assert (board.slot(0x24, 1), board.slot(0x24, 2), board.read(0x1000)) == (DONE, ACTIVE, 2)
    assert not board.gpu.interrupt_level(JOB)
    board.gpu.advance(board.now + 2 * LATENCY)
    assert (board.read(0x1000), board.read(0x100C), board.gpu.interrupt_level(JOB)) == (6, 4, True)
    board.write(0x1004, 4)
    assert (board.read(0x1000), board.gpu.interrupt_level(JOB)) == (2, False)
    board.write(0x1008, 0x70002)
    assert (board.read(0x100C), board.gpu.interrupt_level(JOB)) == (2, True)


def test_a_chain_with_dependencies() -> None:
    board = MaliBoard()
    board.put_job(VA, index=1, next_va=VA + PAGE)
    board.put_job(VA + PAGE, index=2, first=1, next_va=VA + 0x80)
    board.put_job(VA + 0x80, index=3, first=2, second=1)
    board.submit()
    assert [board.status(va) for va in (VA, VA + PAGE, VA + 0x80)] == [DONE] * 3
    assert board.slot(0x24) == DONE
    assert board.gpu.counters().jobs == 1


def test_a_header_across_two_pages_is_impossible_but_a_payload_is_not() -> None:
    board = MaliBoard()
    value = struct.pack("<QIIQ", VA + 2 * PAGE - 4, 7, 0, 0x1122334455667788)
    board.put_job(VA, value, kind=WRITE_VALUE)
    board.submit()
    assert board.slot(0x24) == DONE
    assert board.ram.word(0x41001FFC) == 0x55667788
    assert board.ram.word(0x41002000) == 0x11223344


VALUES = [(3, 8, 0), (4, 1, 0x88), (5, 2, 0x7788), (6, 4, 0x55667788), (7, 8, 0x1122334455667788)]


@pytest.mark.parametrize(("kind", "size", "expected"), VALUES)
def test_write_value_jobs(kind: int, size: int, expected: int) -> None:
    board = MaliBoard()
    board.ram.put(0x41001000, b"\xaa" * 16)
    board.put_job(VA, struct.pack("<QIIQ", VA + PAGE, kind, 0, 0x1122334455667788), kind=WRITE_VALUE)
    board.submit()
    found = bytes(board.ram.bytes[0x1001000:0x1001010])
    assert found == expected.to_bytes(size, "little") + b"\xaa" * (16 - size)


def test_a_write_value_job_that_may_not_write() -> None:
    board = MaliBoard()
    board.put_job(VA, struct.pack("<QIIQ", VA + 4 * PAGE, 3, 0, 0), kind=WRITE_VALUE, next_va=VA + 0x80)
    board.put_job(VA + 0x80)
    board.submit()
    assert (board.slot(0x24), board.status(), board.status(VA + 0x80)) == (0x43, 0x43, 0)
    assert board.read(0x1000) == 1 << 17
    assert board.slot(0x08) == VA & 0xFFFFFFFF  # tail: where it ended


def test_null_and_cache_flush_jobs() -> None:
    board = MaliBoard()
    board.put_job(VA, kind=NULL, next_va=VA + 0x80)
    board.put_job(VA + 0x80, kind=CACHE_FLUSH)
    flush = board.read(0x38)
    board.submit(config=0)
    assert (board.status(), board.status(VA + 0x80), board.read(0x38)) == (DONE, DONE, flush + 1)


def test_without_write_back() -> None:
    board = MaliBoard()
    board.put_job()
    board.submit(config=FLUSHES | 1 << 15)
    assert (board.slot(0x24), board.status()) == (DONE, 0)


def test_flushes_count_and_are_reduced() -> None:
    board = MaliBoard()
    first = board.read(0x38)
    board.put_job()
    board.submit()  # nothing was flushed since the job was made: a flush at start and one at the end
    assert board.read(0x38) == first + 2
    board.put_job()
    board.submit(flush=first)  # flushed since then: only at the end
    assert board.read(0x38) == first + 3


BAD_HEADERS: list[tuple[str, dict[str, Any], str]] = [
    ("status of an earlier run", {"status": 1}, "status of an earlier run is still in the header"),
    ("type 0", {"kind": 0}, "job type is not modelled (0x0)"),
    ("vertex", {"kind": 5}, "job type is not modelled (0x5)"),
    ("fragment", {"kind": 9}, "job type is not modelled (0x9)"),
    ("type 127", {"kind": 127}, "job type is not modelled (0x7f)"),
    ("reserved bit 10", {"kind": COMPUTE | 1 << 9}, "reserved bits of the header are set (0x400)"),
    ("reserved bit 13", {"kind": COMPUTE | 1 << 12}, "reserved bits of the header are set (0x2000)"),
    ("depends on nothing", {"first": 7}, "depends on a job that is not before it in the chain (0x7)"),
    ("depends on itself", {"first": 1}, "depends on a job that is not before it in the chain (0x1)"),
    ("next not aligned", {"next_va": VA + 8}, "not aligned to 64 bytes"),
]


@pytest.mark.parametrize(("name", "fields", "message"), BAD_HEADERS, ids=[row[0] for row in BAD_HEADERS])
def test_headers_that_are_refused(name: str, fields: dict[str, Any], message: str) -> None:
    board = MaliBoard()
    board.put_job(**fields)
    with pytest.raises(VgpuError) as caught:
        board.submit()
    assert f"job at GPU address {fields.get('next_va', VA):#x} (slot 1): " in str(caught.value)
    assert message in str(caught.value)


def test_a_32_bit_header_is_refused() -> None:
    board = MaliBoard()
    board.put_job()
    board.ram.put(0x41000010, struct.pack("<I", 8 | 1 << 16))
    with pytest.raises(VgpuError, match="descriptors of 32 bits"):
        board.submit()


def test_an_unknown_value_type_is_refused() -> None:
    board = MaliBoard()
    board.put_job(VA, struct.pack("<QIIQ", VA + PAGE, 8, 0, 0), kind=WRITE_VALUE)
    with pytest.raises(VgpuError, match="unknown type of a write-value job"):
        board.submit()


def test_a_chain_in_a_circle_is_refused() -> None:
    board = MaliBoard()
    board.put_job(next_va=VA)
    with pytest.raises(VgpuError, match="status of an earlier run"):
        board.submit()
    board = MaliBoard()
    board.put_job(next_va=VA)
    with pytest.raises(VgpuError, match="the chain has no end"):
        board.submit(config=1 << 15)


@pytest.mark.parametrize(
    ("options", "affinity", "status"), [({}, 0, 0x44), ({}, 0xFF00, 0x44), ({"power": False}, 0xFF, 0x41)]
)
def test_jobs_without_cores(options: dict[str, Any], affinity: int, status: int) -> None:
    board = MaliBoard(**options)
    board.put_job()
    board.submit(affinity=affinity)
    assert (board.slot(0x24), board.read(0x1000), board.status()) == (status, 1 << 17, 0)


def test_an_address_space_that_does_not_exist() -> None:
    with pytest.raises(VgpuError, match="job in address space 9; there are 8"):
        MaliBoard().submit(config=9)


def test_time_passes_and_a_second_job_waits() -> None:
    board = MaliBoard(latency_ns=LATENCY)
    board.put_job(VA)
    board.put_job(VA + 0x80)
    board.submit(VA)
    assert (board.slot(0x24), board.slot(0x60), board.read(0x1000)) == (ACTIVE, 0, 0)
    board.submit(VA + 0x80)
    assert (board.slot(0x60), board.status(VA + 0x80)) == (1, 0)
    with pytest.raises(VgpuError, match="a job is queued already"):
        board.write(0x18C0, 0)
    board = MaliBoard(latency_ns=LATENCY)
    board.put_job(VA)
    board.put_job(VA + 0x80)
    board.submit(VA)
    board.submit(VA + 0x80)
    board.wait(LATENCY)
    assert (board.read(0x1000), board.slot(0x00), board.slot(0x60)) == (2, (VA + 0x80) & 0xFFFFFFFF, 0)
    board.write(0x1004, 2)
    assert (board.read(0x1010), board.read(0x1000)) == (2, 0)  # slot 1 is active
    board.wait(LATENCY)
    board.write(0x1004, 2)
    assert (board.read(0x1010), board.gpu.counters().jobs) == (0, 2)


@pytest.mark.parametrize(("command", "flag", "stopped"), [(3, 0, True), (5, 0, True), (7, 0, False), (7, 1, True),
                                                         (5, 1, False), (2, 0, False)])  # fmt: skip
def test_a_job_that_hangs_is_stopped(command: int, flag: int, stopped: bool) -> None:
    board = MaliBoard(latency_ns=LATENCY, hang_job=1)
    board.put_job()
    board.submit(config=FLUSHES | flag << 11)
    board.wait(1_000_000_000)
    assert (board.read(0x1000), board.slot(0x24)) == (0, ACTIVE)
    board.write(0x18A0, command)
    assert (board.read(0x1000), board.slot(0x24)) == ((1 << 17, TERMINATED) if stopped else (0, ACTIVE))
    assert board.gpu.counters().jobs == 0


def test_a_reset_ends_a_hang() -> None:
    board = MaliBoard(hang_job=1)
    board.submit()
    board.write(0x30, 1)
    assert (board.slot(0x24), board.read(0x1000)) == (0, 0)


def test_after_a_failure_the_queue_waits_for_the_driver() -> None:
    board = MaliBoard(latency_ns=LATENCY, fault_job=1)
    board.put_job(VA)
    board.put_job(VA + 0x80)
    board.submit(VA)
    board.submit(VA + 0x80)
    board.wait(LATENCY)
    assert (board.read(0x1000), board.read(0x2000), board.slot(0x24)) == (1 << 17, 1, 0x42)
    assert (board.read(0x241C), board.slot(0x60)) == (0x2C3, 1)
    board.write(0x18E0, 0)
    board.write(0x18E0, 1)
    board.wait(LATENCY)
    assert (board.slot(0x24), board.status(VA + 0x80)) == (DONE, DONE)


@pytest.mark.parametrize("value", [2, 3])
def test_commands_that_are_not_modelled(value: int) -> None:
    with pytest.raises(VgpuError, match="COMMAND_NEXT is not modelled"):
        MaliBoard().write(0x18E0, value)


def test_a_start_without_next() -> None:
    with pytest.raises(VgpuError, match="START in JS1 COMMAND"):
        MaliBoard().write(0x18A0, 1)
