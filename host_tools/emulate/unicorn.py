"""Replays on Unicorn: the same firmware ELF at EL3, without a machine around it, for quick tests.

Unicorn has no interrupt controller, no clock to be trusted and no secure world: the runner gives the firmware
one register of the GIC, a virtual counter, and memory. Registers reach the virtual GPU through `mmio_map`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from unicorn import arm64_const as arm64

from host_tools.emulate import firmware as firmwares
from host_tools.emulate import mailbox
from host_tools.emulate.replay import (
    ReplayResult,
    RunnerError,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    result,
    secure_bytes,
)
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from signing.keys import PublicKey

PAGE = 4096
PSTATE_EL3 = 0x3CD  # EL3, own stack pointer, all exceptions masked
GICD_ISPENDR, GIC_SPI_BASE = 0x200, 32
COUNTER_HZ = 62_500_000  # as QEMU's
NS_PER_LOOK = 1000  # virtual time passes only when the firmware looks at the clock or at the interrupt
NOWHERE = (1 << 64) - 4  # emulation ends by the exit alone
HLT_SEMIHOSTING = 0xD45E0000  # hlt #0xf000
DEVICE = "Unicorn, EL3"


def replay(
    signed: bytes,
    key: PublicKey,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    gpu: str | None = None,
    repeat: int = 1,
    min_security_version: int = 0,
    firmware: Path | None = None,
    latency_ns: int = 0,
    hang_job: int = 0,
    fault_job: int = 0,
) -> ReplayResult:
    """Run the firmware, have it verify, load and replay a signed trace.

    Args:
        signed: the file.
        key: whose traces the firmware accepts; an ES256 key.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; without it that of the trace.
        repeat: replays in a row; the outputs are the last one's.
        min_security_version: older traces are refused.
        firmware: folder of a compiled firmware; without it one is made for `key`.
        latency_ns: how long the virtual GPU takes for what takes time.
        hang_job, fault_job: test aids: the compute job (from 1) that never completes, or faults.

    Raises:
        InputError: a tensor does not fit.
        VgpuError: the trace asks the virtual GPU for something that it does not model.
        RunnerError: the firmware crashed or gave no answer.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    fw = (
        firmwares.load(firmware)
        if firmware
        else firmwares.build(key, gpu, min_security_version, carveout_bytes=secure_bytes(trace, signed))
    )
    buffers = bind(trace, inputs or {})
    size = -(-mailbox.layout(signed, buffers).size // PAGE) * PAGE
    dram = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, signed, buffers, repeat)
    memory = {fw.board.carveout_base: carveout}
    with VirtualGpu(gpu, memory, latency_ns=latency_ns, hang_job=hang_job, fault_job=fault_job) as device:
        Machine(fw, device, carveout, dram).run()
    report = mailbox.response(dram.data, buffers, places)
    return result(report, DEVICE, buffers, None, signed, gpu)


def _pages(base: int, size: int) -> tuple[int, int]:
    """The whole pages that a range lies in: (address, size)."""
    start = base & -PAGE
    return start, -(-(base + size) // PAGE) * PAGE - start


class Machine:
    """The firmware in Unicorn, with what it needs of a board."""

    def __init__(self, fw: firmwares.Firmware, device: VirtualGpu, carveout: Tensor, dram: Tensor) -> None:
        self._fw = fw
        self._device = device
        self._now_ns = 0
        self._failure: Exception | None = None
        self._ended = False
        self.uart = bytearray()
        board = fw.board
        self._uc = uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_A72)
        for base, data in fw.segments:
            uc.mem_map(*_pages(base, len(data)), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
            uc.mem_write(base, data)
        uc.mem_map(*_pages(*fw.ram), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        self._shared = carveout, dram  # Unicorn keeps only their addresses
        for base, memory in ((board.carveout_base, carveout), (board.mailbox_base, dram)):
            uc.mem_map_ptr(base, memory.size, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE, memory.ctypes.data)
        window = -(-device.window_bytes // PAGE) * PAGE
        uc.mmio_map(board.gpu_base, window, self._gpu_read, None, self._gpu_write, None)
        uc.mmio_map(board.gic_base, PAGE, self._gic_read, None, None, None)
        uc.mmio_map(board.uart_base, PAGE, None, None, self._uart_write, None)
        uc.hook_add(unicorn.UC_HOOK_INTR, self._exception)
        uc.hook_add(unicorn.UC_HOOK_INSN, self._counter, None, 1, 0, arm64.UC_ARM64_INS_MRS)
        uc.reg_write(arm64.UC_ARM64_REG_PSTATE, PSTATE_EL3)
        # Only the write of a system register makes Unicorn take notice of the new level: CPACR_EL1, no traps.
        uc.reg_write(arm64.UC_ARM64_REG_CP_REG, (1, 0, 3, 0, 2, 3 << 20))

    def run(self) -> None:
        """From reset to the firmware's own exit; RunnerError or VgpuError when it does not get there."""
        try:
            self._uc.emu_start(self._fw.entry, NOWHERE)
        except unicorn.UcError as error:
            at = self._uc.reg_read(arm64.UC_ARM64_REG_PC)
            self._failure = self._failure or RunnerError(f"the firmware crashed at {at:#x}: {error}")
        if self._failure:
            raise self._failure
        if not self._ended:
            raise RunnerError(f"the firmware stopped at {self._uc.reg_read(arm64.UC_ARM64_REG_PC):#x}")

    def _gpu_read(self, _uc: Any, offset: int, size: int, _user: Any) -> int:
        return self._guarded(lambda: self._device.read32(offset)) if size == 4 else 0

    def _gpu_write(self, _uc: Any, offset: int, _size: int, value: int, _user: Any) -> None:
        self._guarded(lambda: self._device.write32(offset, value))

    def _gic_read(self, _uc: Any, offset: int, _size: int, _user: Any) -> int:
        """GICD_ISPENDR, of the GPU's lines; time passes."""
        self._guarded(self._pass_time)
        pending = 0
        for line in range(self._device.interrupt_lines):
            number = GIC_SPI_BASE + self._fw.board.gpu_spi + line
            if offset == GICD_ISPENDR + number // 32 * 4:
                pending |= int(self._device.interrupt_level(line)) << number % 32
        return pending

    def _uart_write(self, _uc: Any, offset: int, _size: int, value: int, _user: Any) -> None:
        if offset == 0:
            self.uart.append(value & 0xFF)

    def _counter(self, uc: Any, register: int, system: Any, _user: Any) -> bool:
        """CNTPCT_EL0 (3, 3, 14, 0, 1) is virtual; every other system register is Unicorn's own."""
        if (system.op0, system.op1, system.crn, system.crm, system.op2) != (3, 3, 14, 0, 1):
            return False
        self._guarded(self._pass_time)
        uc.reg_write(register, self._now_ns * COUNTER_HZ // 1_000_000_000)
        return True

    def _pass_time(self) -> int:
        self._now_ns += NS_PER_LOOK
        self._device.advance(self._now_ns)
        return 0

    def _guarded(self, access: Callable[[], int | None]) -> int:
        """No exception may cross Unicorn: keep it, and stop."""
        try:
            return access() or 0
        except VgpuError as error:
            self._failure = error
            self._uc.emu_stop()
            return 0

    def _exception(self, uc: Any, number: int, _user: Any) -> None:
        pc = uc.reg_read(arm64.UC_ARM64_REG_PC)
        self._ended = int.from_bytes(uc.mem_read(pc, 4), "little") == HLT_SEMIHOSTING
        if not self._ended:
            self._failure = RunnerError(f"the firmware took exception {number} at {pc:#x}")
        uc.emu_stop()
