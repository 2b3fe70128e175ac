# SPDX-License-Identifier: BSD-2-Clause
"""A virtual GPU that misbehaves once, or for good, at one access: what lies between the replayer and the model."""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass
from typing import Any

from host_tools.vgpu.binding import VgpuError, VirtualGpu
from tee_replayer.generator import hostlib

FOREVER = 1 << 62  # looks at an interrupt line


class Kind(enum.Enum):
    """What goes wrong; `value` and `at` of a Fault say how and where."""

    READ_FLIP = "a register reads with bits flipped"
    READ_AS = "a register reads as another value"
    IRQ_LATE = "an interrupt is seen so many looks late"
    IRQ_EARLY = "an interrupt is seen before its time, for so many looks"
    MMU_FAULT = "the MMU reports a fault, until a reset"
    RESET = "the GPU resets itself"
    MEMORY_FLIP = "a bit of working memory flips"
    POWER_CUT = "the device loses power: memory stays as it is then"


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: what.
        at: number of the access: of reads, looks at the interrupt line, or all accesses, by the kind.
        value: bits, value, number of looks, or byte offset * 8 + bit in working memory.
    """

    kind: Kind
    at: int
    value: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value}: access {self.at}, {self.value:#x}"


class FaultyGpu:
    """Callbacks for the replayer: those of a virtual V3D, with one fault.

    Args:
        device: the virtual GPU.
        fault: what goes wrong; None: nothing.
        memory: the carve-out.
        control: byte offset of the register that shows MMU faults, and the bit.
        reset: byte offset of the register that resets the GPU, with 1 and then 0.
    """

    def __init__(
        self, device: VirtualGpu, fault: Fault | None, memory: Any, control: tuple[int, int], reset: int
    ) -> None:
        self.device, self.fault, self.memory = device, fault, memory
        self.control, self.reset = control, reset
        self.reads = self.looks = self.accesses = 0
        self.faulted = False
        self.snapshot = b""  # of the memory at a power cut
        ffi = hostlib._ffi()

        @ffi.callback("uint32_t(void *, uint32_t)", error=0)  # type: ignore[untyped-decorator]
        def read32(_ctx: Any, offset: int) -> int:
            self._access()
            self.reads += 1
            value = self._read(offset)
            if self.faulted and offset == self.control[0]:
                value |= self.control[1]
            if self._is(Kind.READ_FLIP, self.reads):
                value ^= self._value
            if self._is(Kind.READ_AS, self.reads):
                value = self._value
            return value

        @ffi.callback("void(void *, uint32_t, uint32_t)")  # type: ignore[untyped-decorator]
        def write32(_ctx: Any, offset: int, value: int) -> None:
            self._access()
            if offset == self.reset and value:
                self.faulted = False
            self._write(offset, value)

        @ffi.callback("bool(void *, unsigned)", error=False)  # type: ignore[untyped-decorator]
        def level(_ctx: Any, line: int) -> bool:
            self.looks += 1
            fault = self.fault
            if fault and fault.at <= self.looks < fault.at + fault.value:
                if fault.kind is Kind.IRQ_LATE:
                    return False
                if fault.kind is Kind.IRQ_EARLY:
                    return True
            return device.interrupt_level(line)

        handle, *_, advance = device.c_interface
        self.c_interface = (handle, read32, write32, level, advance)

    def _read(self, offset: int) -> int:
        """0 where the model has stopped, because of what it was made to do; `device.error` says so."""
        with contextlib.suppress(VgpuError):
            return self.device.read32(offset)
        return 0

    def _write(self, offset: int, value: int) -> None:
        with contextlib.suppress(VgpuError):
            self.device.write32(offset, value)

    @property
    def _value(self) -> int:
        assert self.fault
        return self.fault.value

    def _is(self, kind: Kind, count: int) -> bool:
        return self.fault is not None and self.fault.kind is kind and self.fault.at == count

    def _access(self) -> None:
        self.accesses += 1
        if self._is(Kind.MMU_FAULT, self.accesses):
            self.faulted = True
        if self._is(Kind.RESET, self.accesses):
            self._write(self.reset, 1)
            self._write(self.reset, 0)
        if self._is(Kind.MEMORY_FLIP, self.accesses):
            self.memory[self._value // 8] ^= 1 << self._value % 8
        if self._is(Kind.POWER_CUT, self.accesses):
            self.snapshot = bytes(self.memory)
