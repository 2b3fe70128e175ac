# SPDX-License-Identifier: BSD-2-Clause
"""From captures to raw traces: what events become, and captures that cannot become a trace."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.gpus.mali.kbase import AccessError
from host_tools.machine.errors import RecordError
from host_tools.model.description import describe_actions
from host_tools.record.convert import convert
from host_tools.vgpu.capture import CaptureError
from tests.support.panfrost_captures import (
    AS_COMMAND,
    CLOSE,
    COMMAND_NEXT,
    CONTENT,
    FLUSHES,
    GPU_ID,
    HEAD,
    HEAD_NEXT,
    JOB_CLEAR,
    JOB_STATUS,
    LATEST_FLUSH,
    LPAE_TABLE,
    MAP,
    PA,
    PAGE,
    PROBE,
    RAM_END,
    SERVICE,
    TABLE,
    TABLE_CONFIG,
    TABLE_SET,
    capture,
    first_job,
    interrupt,
    job,
    read,
    record,
    write,
)
from tests.support.sampling import few
from trace_format import profile
from trace_format.actions import Op
from trace_format.errors import GramophoneError, ProfileError
from trace_format.trace import Trace

BIN_START = profile.load("v3d42").register("core0.CLE_CT0QEA").offset


def convert_bytes(path: Path, data: bytes) -> Trace:
    """Through a file, and back from the bytes of the trace: what validation refuses does not pass."""
    (path / "a.cap").write_bytes(data)
    trace = convert(path / "a.cap", ram_end=RAM_END, meta={"name": "x"}, notes={})
    return Trace.parse(trace.build())


def test_what_the_accesses_of_panfrost_become(tmp_path: Path) -> None:
    changed = record(12, HEAD, 1) + bytes(16)
    second = [read(LATEST_FLUSH, 0x77), *job(2, [changed], flush=0x77), *SERVICE]
    trace = convert_bytes(tmp_path, capture([*PROBE, *first_job(), *second, *CLOSE]))
    service = [
        "WaitIrq job within 5000000 us",
        "IrqEnter job",
        "RegReadOnce job.IRQ_STATUS == 0x00000002",
        "RegWrite job.IRQ_MASK = 0x00000000",
        "IrqExit job",
        "RegWrite job.IRQ_CLEAR = 0x00000002",
        "RegReadOnce job.IRQ_RAWSTAT == 0x00000000",
        "RegWrite job.IRQ_MASK = 0x00070007",
    ]
    next_job = [
        f"RegWrite js1.HEAD_NEXT_LO = {HEAD:#010x}",
        "RegWrite js1.HEAD_NEXT_HI = 0x00000000",
        "RegWrite js1.AFFINITY_NEXT_LO = 0x000000f0",
        "RegWrite js1.AFFINITY_NEXT_HI = 0x00000000",
        "RegWrite js1.CONFIG_NEXT = 0x00087b00",
        "RegReadKeep gpu.LATEST_FLUSH kept[0]",
        "RegWriteKept js1.FLUSH_ID_NEXT kept[0]",
    ]
    assert list(describe_actions(trace)) == [
        "RegReadOnce gpu.GPU_ID == 0x60000002 mask 0xf00fffff",
        "RegWrite gpu.COMMAND = 0x00000001",
        "Interval 5 us",
        "RegWrite job.IRQ_MASK = 0x00070007",
        "SetGpuPgtable as0",
        "RegWrite as0.COMMAND = 0x00000001",
        f"MapGpuMem as0 {HEAD:#010x}..{HEAD + 0xFFF:#010x} (1 page) -> 0x00003000 rw-",
        "ReplayStart",
        "Upload 4096 bytes image 0x0 -> 0x00003000",
        "Job 0",
        *next_job,
        "RegWrite js1.COMMAND_NEXT = 0x00000001",
        *service,
        "Upload 1 bytes image 0x1000 -> 0x00003000",
        "Job 1",
        *next_job,
        "RegWrite js1.COMMAND_NEXT = 0x00000001",
        *service,  # and nothing of what the driver closes down
    ]
    assert trace.gpu == "mali_g71"
    assert trace.meta["core_mask"] == 0xF0
    assert trace.image == bytes([9]) * 4096 + b"\0"


def test_memory_lies_in_the_jobs_address_space(tmp_path: Path) -> None:
    table = [record(2, struct.unpack_from("<I", row, 8)[0] + 3 * 0x40, 1) for row in TABLE_SET]
    table[0] = write(TABLE + 3 * 0x40, LPAE_TABLE)
    trace = convert_bytes(tmp_path, capture([PROBE[2], *table, *first_job(config=FLUSHES | 3)]))
    rows = {int(row["op"]): int(row["arg"]) & 15 for row in trace.actions}
    assert rows[Op.SET_GPU_PGTABLE] == rows[Op.MAP_GPU_MEM] == 3


def test_what_the_gpu_sees_in_one_piece_is_so_in_the_carve_out(tmp_path: Path) -> None:
    """Runs of pages, here scattered over the guest's memory, by where they end up."""

    def mapped(page: int, pages: int, pa: int, flags: int = 3) -> bytes:
        return record(7, page, pages) + struct.pack("<QII", pa, flags, 0)

    first = [
        mapped(PAGE, 2, PA),
        mapped(PAGE + 2, 3, PA - 0x8000),  # goes on with what is before
        mapped(PAGE + 5, 1, PA + 0x2000, 16 | 3),  # of another kind
        mapped(PAGE + 7, 1, PA + 0x3000, 16 | 3),  # does not follow
    ]
    later = [mapped(PAGE + 8, 1, PA + 0x4000, 16 | 3)]  # follows, but was not there before
    rows = [*PROBE, *job(1, first), *SERVICE, *job(2, later), *SERVICE]
    trace = convert_bytes(tmp_path, capture(rows))
    maps = trace.actions[trace.actions["op"] == Op.MAP_GPU_MEM]
    assert [(int(row["a"]) - PAGE, int(row["value"]), int(row["b"])) for row in maps] == [
        (0, 5, 1),  # the first two runs
        (5, 1, 7),
        (7, 1, 9),
        (8, 1, 11),
    ]
    assert [int(row["flags"]) for row in maps] == [3, 7, 7, 7]
    assert trace.carveout_bytes == 12 << 12


def test_mappings_that_change_are_those_of_the_first_job_again_in_the_next_replay(tmp_path: Path) -> None:
    """The first page goes to other memory, the second is not mapped any more; the third comes later and stays."""

    def mapped(page: int, pa: int) -> bytes:
        return record(7, page, 1) + struct.pack("<QII", pa, 3, 0)

    first = [mapped(PAGE, PA), mapped(PAGE + 1, PA + 0x1000), record(9, PAGE, 2)]
    second = [record(8, PAGE + 1, 1), mapped(PAGE, PA + 0x5000), mapped(PAGE + 2, PA), CONTENT]
    rows = [*PROBE, *job(1, first), *SERVICE, *job(2, second), *SERVICE]
    listing = list(describe_actions(convert_bytes(tmp_path, capture(rows))))
    flush = [
        "RegReadWait as0.STATUS == 0x00000000 mask 0x00000001 within 100000 us",
        "RegWrite as0.LOCKADDR_LO = 0x0000003f",
        "RegWrite as0.LOCKADDR_HI = 0x00000000",
        "RegWrite as0.COMMAND = 0x00000002",
        "RegReadWait as0.STATUS == 0x00000000 mask 0x00000001 within 100000 us",
        "RegWrite as0.COMMAND = 0x00000004",
        "RegReadWait as0.STATUS == 0x00000000 mask 0x00000001 within 100000 us",
    ]
    mapping = "MapGpuMem as0 0x0a000000..0x0a001fff (2 pages) -> 0x00002000 rw-"
    start = listing.index("ReplayStart")
    assert listing[start - 1] == mapping
    assert listing[start + 1 :][: len(flush) + 3] == [
        mapping,
        *flush,
        "Clear 4096 bytes at 0x00002000",
        "Clear 4096 bytes at 0x00003000",
    ]
    later = listing.index("UnmapGpuMem as0 0x0a001000..0x0a001fff (1 page)")
    assert listing[later + 1 :][: len(flush) + 4] == [
        "MapGpuMem as0 0x0a000000..0x0a000fff (1 page) -> 0x00005000 rw-",
        "MapGpuMem as0 0x0a002000..0x0a002fff (1 page) -> 0x00007000 rw-",
        *flush,
        "Upload 4096 bytes image 0x0 -> 0x00005000",
        "Job 1",
    ]


def test_a_driver_that_does_not_mask_interrupts(tmp_path: Path) -> None:
    service = [read(JOB_STATUS, 2), write(JOB_CLEAR, 2), interrupt(0)]
    trace = convert_bytes(tmp_path, capture([*PROBE, *job(), *service, *CLOSE]))
    assert list(describe_actions(trace))[-2:] == ["RegWrite job.IRQ_CLEAR = 0x00000002", "IrqExit job"]


def without(rows: Sequence[bytes], kind: int, offset: int) -> list[bytes]:
    """Without the accesses of one kind to one register."""
    return [row for row in rows if row[:4] + row[8:12] != struct.pack("<II", kind, offset)]


START = len(PROBE)
BAD: dict[str, tuple[bytes, type[GramophoneError], str]] = {
    "no job": (capture([*PROBE, *CLOSE]), RecordError, "no GPU job was submitted"),
    "nothing": (capture([]), RecordError, "no GPU job was submitted"),
    "a job failed": (capture([*PROBE, *first_job()], jobs=0), RecordError, "1 jobs were started, 0 completed"),
    "faults": (capture([*PROBE, *first_job()], faults=2), RecordError, "the GPU raised 2 MMU faults"),
    "the model gave up": (
        capture([*PROBE, *first_job()], failed=True),
        RecordError,
        "the virtual GPU failed while recording",
    ),
    "unknown register": (capture([read(0x3FF0, 0)]), AccessError, "at offset 0x20: unknown register 0x3ff0"),
    "write of a read-only register": (capture([write(GPU_ID, 0)]), AccessError, "gpu.GPU_ID is read-only"),
    "read of a write-only register": (capture([read(AS_COMMAND, 0)]), AccessError, "as0.COMMAND is write-only"),
    "flush id never read": (
        capture([*PROBE, *first_job(flush=5)]),
        AccessError,
        "a flush id that was never read: expected a value that LATEST_FLUSH had before, found 0x5",
    ),
    "no page table": (
        capture([PROBE[2], *first_job()]),
        AccessError,
        "a job in an address space that has no page table",
    ),
    "job in another address space": (
        capture([*PROBE, *first_job(config=FLUSHES | 1)]),
        AccessError,
        r"no page table: expected one of \[0\], found 1",
    ),
    "jobs in two address spaces": (
        capture(
            [
                *PROBE,
                write(TABLE + 0x40, LPAE_TABLE),
                write(AS_COMMAND + 0x40, 1),
                *first_job(),
                *job(2, [], config=FLUSHES | 1),
                *SERVICE,
            ]
        ),
        AccessError,
        r"jobs in several address spaces: expected one, found \[0, 1\]",
    ),
    "no translation": (
        capture([write(TABLE_CONFIG, 2), *PROBE, *first_job()]),
        AccessError,
        "address space 0 is set to another page table format",
    ),
    "identity in the older format": (
        capture([write(TABLE, LPAE_TABLE & ~1), write(AS_COMMAND, 1)]),
        AccessError,
        "address space 0 is set to another page table format",
    ),
    "no end of the interrupt": (
        capture([*PROBE, *job()]),
        AccessError,
        "ends before the driver has dealt with the end of the last job",
    ),
    "interrupts stay masked": (
        capture([*PROBE, *job(), *SERVICE[:-1]]),
        AccessError,
        "ends before the driver has dealt with the end of the last job",
    ),
    "a job that nothing started": (
        capture([*PROBE, *without(first_job(), 2, COMMAND_NEXT)]),
        CaptureError,
        "a job starts, but nothing was written to js0.COMMAND_NEXT or js1.COMMAND_NEXT or js2.COMMAND_NEXT",
    ),
    "a later job that nothing started": (
        capture([*PROBE, *first_job(), *without(job(2, []), 2, COMMAND_NEXT), *SERVICE]),
        CaptureError,
        "a job starts, but nothing was written to js0.COMMAND_NEXT",
    ),
    "a later job without a chain": (
        capture([*PROBE, *first_job(), *without(job(2, []), 2, HEAD_NEXT), *SERVICE]),
        CaptureError,
        "a job starts, but nothing was written to js1.HEAD_NEXT_LO",
    ),
    "a job without a chain": (
        capture([*PROBE, *without(first_job(), 2, HEAD_NEXT)]),
        CaptureError,
        "a job starts, but nothing was written to js1.HEAD_NEXT_LO",
    ),
    "memory after the guest's": (
        capture([record(7, PAGE, 2) + struct.pack("<QII", RAM_END - 4096, 3, 0)]),
        CaptureError,
        "at offset 0x20: mapped memory: expected below 0xc0000000, found 0xbffff000 and 2 pages",
    ),
    "memory that has two addresses": (
        capture([*PROBE, *job(memory=[MAP, record(7, PAGE + 9, 1) + MAP[16:]])]),
        CaptureError,
        "a page of memory is mapped at two GPU addresses",
    ),
    "too much memory": (
        capture([record(7, 0, 0x7FFFF) + struct.pack("<QII", 0x40000000, flags, 0) for flags in (1, 3, 1)]),
        CaptureError,
        "the recording needs too much memory: expected at most 1048576 pages",
    ),
    "cut off": (capture([*PROBE, *first_job()])[:-1], CaptureError, "cut off in the end record"),
    "a GPU that has no profile": (capture([], gpu="mali_g99-x"), ProfileError, "no profile for GPU 'mali_g99'"),
    "V3D: no job": (capture([write(0, 1)], gpu="v3d42"), RecordError, "no GPU job was submitted"),
    "V3D: a job that nothing started": (
        capture([MAP, record(4, 0, 1), record(5, 0, 1)], gpu="v3d42"),
        CaptureError,
        "a job starts, but nothing was written to core0.CSD_QUEUED_CFG0",
    ),
    "V3D: a list that nothing started": (
        capture([MAP, record(4, 2, 1), record(5, 2, 1)], gpu="v3d42"),
        CaptureError,
        "nothing was written to core0.CLE_CT0QEA or core0.CLE_CT1QEA or core0.CSD_QUEUED_CFG0",
    ),
    "V3D: a compute job that a list started": (
        capture([write(BIN_START, 1), record(4, 0, 1), record(5, 0, 1)], gpu="v3d42"),
        CaptureError,
        "nothing was written to core0.CSD_QUEUED_CFG0",
    ),
    "V3D: a job without a configuration": (
        capture([write(0x4904, 1), record(4, 0, 1), record(5, 0, 1)], gpu="v3d42"),
        CaptureError,
        "a job starts, but nothing was written to core0.CSD_QUEUED_CFG1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_captures_that_are_refused(tmp_path: Path, name: str) -> None:
    data, error, message = BAD[name]
    with pytest.raises(error, match=message) as caught:
        convert_bytes(tmp_path, data)
    if not isinstance(caught.value, ProfileError):
        assert str(caught.value).startswith(str(tmp_path / "a.cap"))


CONFIGURATION = [write(0x4908 + 4 * i, 0x10 + i) for i in range(6)]
V3D = [
    *[write(BIN_START, 1), MAP, CONTENT, record(4, 1, 1), record(5, 1, 1), interrupt(1), interrupt(0)],
    *[*CONFIGURATION, write(0x4904, 0x1000), record(12, HEAD, 1) + bytes(16), record(4, 0, 2), record(5, 0, 2)],
]
GOOD_V3D = capture(V3D, gpu="v3d42", jobs=1)
GOOD = capture([*PROBE, *first_job(), read(LATEST_FLUSH, 9), *job(2, [], flush=9), *SERVICE, *CLOSE])


@few(40, 300)
@given(
    st.sampled_from([GOOD, GOOD_V3D]),
    st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=4)), max_size=3),
)
def test_damaged_captures_give_a_trace_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, changes: list[tuple[float, bytes]]
) -> None:
    data = bytearray(good)
    for where, new in changes:
        at = int(where * len(data))
        data[at : at + len(new)] = new
    try:
        trace = convert_bytes(tmp_path_factory.mktemp("capture"), bytes(data))
    except GramophoneError:
        assert changes
        return
    assert trace.jobs == (2 if good is GOOD else 1)


def test_a_v3d_job_is_repeated_with_all_its_registers(tmp_path: Path) -> None:
    """A replay that starts with a compute job writes its whole configuration again."""
    rows = [
        write(0x4030, 1),
        *CONFIGURATION,
        write(0x4904, 0x1000),
        MAP,
        CONTENT,
        record(4, 0, 1),
        record(5, 0, 1),
    ]
    trace = convert_bytes(tmp_path, capture(rows, gpu="v3d42"))
    ops = trace.actions["op"].tolist()
    assert ops.index(Op.REPLAY_START) == 2  # after the cache flush and the mapping
    assert ops[ops.index(Op.JOB) + 1 :] == [Op.REG_WRITE] * 7
