# SPDX-License-Identifier: BSD-2-Clause
"""A virtual V3D 4.2 with one planted difference, as a board might have it: in what a job writes, what a register
reads as, when an interrupt comes. Its caches keep what a job writes until a trace cleans them."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.runners import unicorn, vgpu
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from tee_replayer.generator import hostlib
from trace_format import profile

GPU = profile.load("v3d42")
START = GPU.register("core0.CSD_QUEUED_CFG0").offset
CLEAN = GPU.register("core0.CTL_L2TCACTL").offset
RESET = GPU.register("bridge.SW_INIT_1").offset
CLEANS = 1 << 8 | 2 << 1  # TMU write combiner; flush mode: clean (Linux, v3d_regs.h: TMUWCF, FLM_CLEAN)
USED = 1 << 20  # of the carve-out, at its start: more than these networks have


class Kind(enum.Enum):
    """What is planted; `at` and `value` of a Plant say where and how."""

    NOTHING = "nothing"
    LAST_BITS = "an operation of a job rounds otherwise"
    OTHER_VALUE = "a job writes another word"
    PAGE_NOT_WRITTEN = "a job does not write a page"
    BESIDE = "a job writes where it should not"
    CLEAN_LOST = "the caches are not cleaned after a job"
    READS_AS = "a register reads as another value"
    STUCK = "a register keeps bits that are cleared"
    LACKS = "a register never has some bits"
    IRQ_LATE = "interrupts come so many looks late"
    IRQ_MISSING = "the interrupt of a job does not come"
    NO_IRQ = "no interrupt comes"
    NO_JOB = "a job does not start"


@dataclass(frozen=True)
class Plant:
    """A difference.

    Attributes:
        kind: what.
        at: number of the job, or offset of the register.
        value: register's value, bits, or looks.
    """

    kind: Kind = Kind.NOTHING
    at: int = 0
    value: int = 0


class PlantedGpu(VirtualGpu):
    """The virtual GPU with `plant`."""

    plant: ClassVar[Plant] = Plant()

    def __init__(self, gpu: str, memory: Any = None, **options: Any) -> None:
        super().__init__(gpu, memory, **options)
        assert len(memory) == 1
        self.carveout: NDArray[np.uint8] = np.frombuffer(next(iter(memory.values())), np.uint8)[:USED]
        self.jobs = self.looks = 0
        self.cached: list[tuple[NDArray[np.int64], NDArray[np.uint8]]] = []

    def _is(self, kind: Kind, at: int) -> bool:
        return self.plant.kind is kind and self.plant.at == at

    def read32(self, offset: int) -> int:
        """A register."""
        if self._is(Kind.READS_AS, offset):
            return self.plant.value
        value = super().read32(offset) | (self.plant.value if self._is(Kind.STUCK, offset) else 0)
        return value & ~self.plant.value if self._is(Kind.LACKS, offset) else value

    def write32(self, offset: int, value: int) -> None:
        """A register; a job's writes reach memory when they are cleaned."""
        if offset == START:
            self._run_job(value)
            return
        if offset == RESET:
            self.cached.clear()
        if offset == CLEAN and value & CLEANS and not self._is(Kind.CLEAN_LOST, self.jobs - 1):
            self._clean()
        super().write32(offset, value)

    def _run_job(self, value: int) -> None:
        job = self.jobs
        self.jobs += 1
        self.looks = 0
        self._clean()  # the GPU itself sees what is in its caches
        if self._is(Kind.NO_JOB, job):
            return
        before = self.carveout.copy()
        super().write32(START, value)
        self._spoil(job, before)
        changed = np.flatnonzero(self.carveout != before)
        self.cached.append((changed, self.carveout[changed].copy()))
        self.carveout[changed] = before[changed]

    def _clean(self) -> None:
        for places, data in self.cached:
            self.carveout[places] = data
        self.cached.clear()

    def _spoil(self, job: int, before: NDArray[np.uint8]) -> None:
        words, old = self.carveout[: len(before) // 4 * 4].view("<u4"), before[: len(before) // 4 * 4].view("<u4")
        changed = np.flatnonzero(words != old)
        if self._is(Kind.LAST_BITS, job):
            floats = changed[(words[changed] & 0x7FFF_FFFF) > 0x0100_0000]
            words[floats] ^= 1
        elif self._is(Kind.OTHER_VALUE, job):
            words[changed[len(changed) // 2]] ^= 0x4010_0000
        elif self._is(Kind.PAGE_NOT_WRITTEN, job):
            page = changed[changed // 1024 == changed[-1] // 1024]
            words[page] = old[page]
        elif self._is(Kind.BESIDE, job):
            page = np.arange(changed[0] // 1024 * 1024, changed[0] // 1024 * 1024 + 1024)
            words[np.setdiff1d(page, changed)[-1]] ^= 0x00AA_0000

    def interrupt_level(self, line: int = 0) -> bool:
        """The line."""
        level = super().interrupt_level(line)
        if level and self._is(Kind.IRQ_MISSING, self.jobs - 1):
            return False
        if self.plant.kind is Kind.NO_IRQ:
            return False
        if level and self.plant.kind is Kind.IRQ_LATE:
            self.looks += 1
            return self.looks > self.plant.value
        return level

    @property
    def c_interface(self) -> tuple[Any, Any, Any, Any, Any]:
        """Callbacks to the above; a model that stops reads 0, and `error` says why."""
        ffi = hostlib._ffi()
        handle, *_, advance = super().c_interface

        def read(_ctx: Any, offset: int) -> int:
            with contextlib.suppress(VgpuError):
                return self.read32(offset)
            return 0

        def write(_ctx: Any, offset: int, value: int) -> None:
            with contextlib.suppress(VgpuError):
                self.write32(offset, value)

        self._callbacks = (
            ffi.callback("uint32_t(void *, uint32_t)", read, error=0),
            ffi.callback("void(void *, uint32_t, uint32_t)", write),
            ffi.callback("bool(void *, unsigned)", lambda _ctx, line: self.interrupt_level(line), error=False),
        )
        return (handle, *self._callbacks, advance)


@contextlib.contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Inside, the runners vgpu and unicorn have a GPU with a difference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlantedGpu, "plant", plant)
        for runner in (vgpu, unicorn):
            patch.setattr(runner, "VirtualGpu", PlantedGpu)
        yield
