# SPDX-License-Identifier: BSD-2-Clause
"""The nano driver of a Mali-G610 on the virtual GPU: what it runs and refuses, and a GPU that does not answer."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from typing import Any

import cffi
import numpy as np
import pytest

from host_tools.gpus.mali_csf.judging import check, flaws
from host_tools.passes.pipeline import build
from host_tools.runners import libraries, vgpu
from host_tools.support.cache import cache_dir
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import gpu_firmware, hostlib
from tee_replayer.generator.status import ReplayError
from tests.support.hostile_streams import HOSTILE, accepted
from tests.support.replayer_samples import CARVEOUT_PHYS, KEY, library, signed
from tests.vgpu.test_straight import ADDED, DATA, OUTPUT, dispatch, recording
from trace_format import profile
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.schema.report import Status
from trace_format.trace import Trace

GPU = profile.load("mali_g610")
DRIVERS_BYTES = 2 << 20
MCU_CONTROL, MCU_STATUS = GPU.register("gpu.MCU_CONTROL").offset, GPU.register("gpu.MCU_STATUS").offset
READY, TABLE = GPU.register("gpu.L2_READY_LO").offset, GPU.register("as1.TRANSTAB_LO").offset
OTHERS_TABLE = GPU.register("as3.TRANSTAB_LO").offset
BELLS = [GPU.register(f"doorbell{number}.RING").offset for number in (0, 1)]


class Board:
    """A replayer with a virtual GPU; `lose` and `seen` stand between the two.

    Args:
        trace: that is loaded.
        lose: whether a write (offset, value) does not arrive.
        seen: what is read instead, given offset and value.
    """

    def __init__(
        self,
        trace: Trace,
        lose: Callable[[int, int], bool] = lambda offset, value: False,
        seen: Callable[[int, int], int] = lambda offset, value: value,
    ) -> None:
        self.memory = mmap.mmap(-1, trace.carveout_bytes + DRIVERS_BYTES)
        self.trace = trace
        self.gpu = VirtualGpu("mali_g610", {CARVEOUT_PHYS: self.memory})
        ffi = cffi.FFI()

        def write(_: Any, offset: int, value: int) -> None:
            if not lose(offset, value):
                self.gpu.write32(offset, value)

        self.kept = (
            ffi.callback("uint32_t(void *, uint32_t)", lambda _, offset: seen(offset, self.gpu.read32(offset))),
            ffi.callback("void(void *, uint32_t, uint32_t)", write),
            ffi.callback("bool(void *, unsigned)", lambda _, line: self.gpu.interrupt_level(line)),
        )
        host = hostlib._ffi()
        functions = [host.cast("void *", int(ffi.cast("uintptr_t", each))) for each in self.kept]
        interface = (host.NULL, *functions, host.NULL)
        self.replayer = hostlib.HostReplayer(library(GPU), GPU, interface, self.memory, CARVEOUT_PHYS)
        self.replayer.load(signed(trace), KEY)

    def load_and_run(self, trace: Trace) -> None:
        """Another trace, in its place."""
        self.replayer.load(signed(trace), KEY)
        self.replayer.run()

    def refused(self) -> int:
        """The status of a replay that is refused."""
        with pytest.raises(ReplayError) as error:
            self.replayer.run()
        return error.value.report.status


@pytest.fixture
def trace() -> Trace:
    return build(recording(dispatch(), [*dispatch(), *dispatch()]), skip=("dead-memory", "relocate"))


def data_of(board: Board) -> np.ndarray[Any, np.dtype[np.uint32]]:
    at = board.replayer.translate(0, DATA)
    assert at is not None
    return np.frombuffer(board.memory, "<u4", PAGE_BYTES // 4, at)


def test_streams_run_and_run_again(trace: Trace) -> None:
    board = Board(trace)
    for _ in range(20):  # more calls than the ring has room for
        board.replayer.run()
    assert data_of(board)[(OUTPUT - DATA) // 4 :][:17].tolist() == [3 * ADDED] * 16 + [0]
    assert board.gpu.counters().jobs == 40
    assert board.gpu.counters().resets == 1
    board.replayer.unload()
    assert board.gpu.read32(MCU_STATUS) == 0
    assert board.gpu.counters().resets == 2
    assert not np.frombuffer(board.memory, np.uint8).any()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_streams(name: str) -> None:
    """Host and device refuse each; the GPU has run nothing."""
    change, status = HOSTILE[name]
    hostile = change(accepted())
    assert list(flaws(hostile))
    with pytest.raises(TraceError, match="a device refuses it"):
        check(hostile)
    board = Board(accepted())
    with pytest.raises(ReplayError) as error:
        board.load_and_run(hostile)
    assert error.value.report.status == status
    assert board.gpu.counters().jobs == 0


def test_the_accepted_trace_is_accepted() -> None:
    assert not list(flaws(accepted()))
    Board(accepted()).replayer.run()


@pytest.mark.parametrize(
    ("lost", "status"),
    [
        (lambda offset, value: offset == MCU_CONTROL and value, Status.FIRMWARE),
        (lambda offset, value: offset == BELLS[0], Status.FIRMWARE),
        (lambda offset, value: offset == BELLS[1], Status.TIMEOUT),
        (lambda offset, value: offset == TABLE, Status.DIVERGED),
    ],
    ids=["never on", "never answers", "never ends", "not our tables"],
)
def test_firmware_that_does_not_answer(trace: Trace, lost: Callable[[int, int], bool], status: Status) -> None:
    board = Board(trace, lost)
    assert board.refused() == status


@pytest.mark.parametrize(
    ("offset", "value", "status"),
    [(MCU_STATUS, 1, Status.RESET), (READY, 0, Status.FIRMWARE), (OTHERS_TABLE, 0x1000, Status.DIVERGED)],
    ids=["somebody else's firmware runs", "no power", "somebody else's table"],
)
def test_a_gpu_that_is_not_ours(trace: Trace, offset: int, value: int, status: Status) -> None:
    seen = {offset: value} | ({GPU.register("as3.TRANSCFG_LO").offset: 6} if offset == OTHERS_TABLE else {})
    board = Board(trace, seen=lambda at, found: seen.get(at, found))
    assert board.refused() == status


def test_firmware_of_another_hash(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    made = gpu_firmware.source

    def changed(firmware: gpu_firmware.GpuFirmware) -> str:
        return made(firmware).replace("0x6e,", "0x6f,", 1)

    monkeypatch.setattr(gpu_firmware, "source", changed)
    built = hostlib.build(GPU, libraries.source(), cache_dir("replayer"), firmware=vgpu.stand_in(GPU))
    monkeypatch.setattr(sys.modules[__name__], "library", lambda _: built)
    assert Board(trace).refused() == Status.FIRMWARE
