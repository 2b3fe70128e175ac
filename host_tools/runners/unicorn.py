# SPDX-License-Identifier: BSD-2-Clause
"""Replays on Unicorn: the same firmware ELF at EL3, without a machine around it, for quick tests.

Unicorn has no interrupt controller, no reliable clock and no secure world: the runner gives the firmware
one register of the GIC, a UART, a virtual counter, memory, and what switches the GPU on the firmware's board
(power/), each at its place on that board. Registers reach the virtual GPU through `mmio_map`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from unicorn import arm64_const as arm64

from host_tools.runners import evidence, mailbox, nor_flash
from host_tools.runners import firmware as firmwares
from host_tools.runners.buffers import Buffers, bound
from host_tools.runners.needs import gpu_of
from host_tools.runners.power import model
from host_tools.runners.power.block import PowerBlock
from host_tools.runners.replay import ReplayResult, RunnerError, Tensor, result
from host_tools.runners.requests import BoardRequest, FirmwareRequest, SeriesRequest, TroubleRequest
from host_tools.vgpu import confined
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from tee_replayer.generator import boards
from tee_replayer.generator.board_fit import CLOCK
from tee_replayer.generator.interrupts import interrupt_of

PAGE = 4096
PSTATE_EL3 = 0x3CD  # EL3, own stack pointer, all exceptions masked
CPACR_EL1, CNTFRQ_EL0 = (1, 0, 3, 0, 2), (14, 0, 3, 3, 0)  # CRn, CRm, op0, op1, op2
CNTPCT_EL0 = (14, 0, 3, 3, 1)
UART_DR = 0
UART_LSR, UART_LSR_THRE = 5 << 2, 1 << 5  # of an 8250
RTC, RTC_DR = boards.load(boards.QEMU_VIRT).devices[CLOCK], 0  # a PL031
# Registers of the Cortex-A72 that Unicorn's lacks, as "msr NAME, x0".
A72_REGISTERS = {0xD519F220: "CPUECTLR_EL1", 0xD519B040: "L2CTLR_EL1"}
READS, X28 = 1 << 21, 28  # in such an instruction; the later registers are not numbered consecutively
GICD_TYPER, GICD_ISPENDR, GIC_SPI_BASE = 0x4, 0x200, 32
GIC_LINES = 7  # groups of 32 interrupts after the first: a BCM2711's
GIC_BYTES = 2 * PAGE  # distributor, and on boards the CPU interface after it
NS_PER_LOOK = 1000  # virtual time passes only when the firmware reads the clock or the interrupt
NOWHERE = (1 << 64) - 4  # only the exit ends the emulation
HLT_SEMIHOSTING = 0xD45E0000  # hlt #0xf000
SEMIHOSTING_EXIT = 0x18
DEVICE = "Unicorn, EL3"


@dataclass(frozen=True, kw_only=True)
class UnicornRequest(FirmwareRequest, BoardRequest, SeriesRequest, TroubleRequest):
    """What it takes."""


REQUEST = UnicornRequest


def replay(request: UnicornRequest) -> ReplayResult:
    """As Runner: the firmware verifies, loads and replays.

    Raises:
        VgpuError: the trace needs something that the virtual GPU does not model.
        RunnerError: the firmware crashed, gave no answer, or is for another GPU or a smaller trace.
    """
    delivery, gpu = request.delivery, request.gpu
    fw = firmwares.firmware_for(request)
    block = power_block(fw.board)
    if block and gpu not in (None, block.GPU):
        raise RunnerError(
            f"{request.firmware}: the firmware's board is a {block.TITLE}, which has a {block.GPU}, no {gpu}"
        )
    gpu = block.GPU if block else gpu_of(delivery, gpu)
    buffers = bound(request)
    room, heads = evidence.extras(request), mailbox.heads_of(delivery.trace, fw.has_queue)
    size = -(-mailbox.layout(delivery.data, buffers, room, heads).size // PAGE) * PAGE
    if size > fw.board.mailbox_bytes:
        raise RunnerError(
            f"the trace and its tensors need a mailbox of {size} bytes; "
            f"the firmware's has {fw.board.mailbox_bytes}"
        )
    name = f"{DEVICE}, {block.TITLE}" if block else DEVICE
    flash = nor_flash.read(nor_flash.prepared(request.flash)) if request.flash else b""
    done = confined.call(
        lambda: _replay(request, fw, gpu, buffers, name, size, flash),
        Done,
        writes=(request.store,) if request.store else (),
    )
    if request.flash and done.flash != flash:
        with request.flash.open("r+b") as file:
            file.write(done.flash)
    return done.result


@dataclass(frozen=True)
class Done:
    """A replay's result, and what the flash holds after it."""

    result: ReplayResult
    flash: bytes


def _replay(
    request: UnicornRequest,
    fw: firmwares.Firmware,
    gpu: str,
    buffers: Buffers,
    name: str,
    mailbox_bytes: int,
    flash: bytes,
) -> Done:
    delivery, room = request.delivery, evidence.extras(request)
    heads = mailbox.heads_of(delivery.trace, fw.has_queue)
    dram = np.frombuffer(mmap.mmap(-1, mailbox_bytes), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, delivery.data, buffers, request.repeat, room, heads)
    memory = {fw.board.carveout_base: carveout}
    with VirtualGpu(
        gpu, memory, latency_ns=request.latency_ns, hang_job=request.hang_job, fault_job=request.fault_job
    ) as device:
        machine = Machine(fw, device, carveout, dram, store=request.store, flash=flash, clock=request.clock)
        machine.run()
    report = mailbox.response(dram.data, buffers, places)
    said = evidence.answer(dram.data, request, places)
    found = result(report, name, buffers.outputs, None, delivery, gpu, said)
    return Done(found, bytes(machine.flash.data) if machine.flash else b"")


def power_block(board: firmwares.Board) -> type[PowerBlock] | None:
    """What switches the GPU of a board; None where it is always on. RunnerError when it is not known."""
    if not board.power_base:
        return None
    for described in map(boards.load, boards.names()):
        if described.gpu and described.gpu.power_model:
            block = model(described.gpu.power_model)
            if block.PAGES[0] == board.power_base:
                return block
    raise RunnerError(f"there is no model of the power block at {board.power_base:#x}, the firmware's")


def _pages(base: int, size: int) -> tuple[int, int]:
    """The whole pages that a range lies in: (address, size)."""
    start = base & -PAGE
    return start, -(-(base + size) // PAGE) * PAGE - start


class Machine:
    """The firmware in Unicorn, with what it needs of a board.

    Attributes:
        uart: what was sent.
        a72: name -> value of registers that only this core has.
        gic: offset -> value of the interrupt controller's registers that were written.
        gpu_accesses: of its registers; of those, gpu_writes.
        power: the model of the block that switches the GPU, or None.
        flash: that of the rollback store, or None.
    """

    def __init__(
        self,
        fw: firmwares.Firmware,
        device: VirtualGpu,
        carveout: Tensor,
        dram: Tensor,
        power_answers: int | None = None,
        store: Path | None = None,
        flash: bytes = b"",
        clock: int | None = None,
    ) -> None:
        self._fw = fw
        self._device = device
        self._now_ns = 0
        self._failure: Exception | None = None
        self._ended = False
        self.uart = bytearray()
        self.a72: dict[str, int] = {}
        self.gic: dict[int, int] = {}
        self.gpu_accesses = self.gpu_writes = 0
        board = fw.board
        block = power_block(board)
        self.power = block(device, power_answers) if block else None
        self._uc = uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._store = evidence.Store(store, lambda at, size: bytes(uc.mem_read(at, size)), uc.mem_write)
        uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_A72)
        for base, data in fw.segments:
            uc.mem_map(*_pages(base, len(data)), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
            uc.mem_write(base, data)
        uc.mem_map(*_pages(*fw.ram), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        self._shared = carveout, dram  # Unicorn keeps only their addresses
        for base, memory in ((board.carveout_base, carveout), (board.mailbox_base, dram)):
            uc.mem_map_ptr(base, memory.size, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE, memory.ctypes.data)
        window = block.BOARD.devices["gpu"].bytes if block else -(-device.window_bytes // PAGE) * PAGE
        uc.mmio_map(board.gpu_base, window, self._gpu_read, None, self._gpu_write, None)
        uc.mmio_map(board.gic_base, GIC_BYTES, self._gic_read, None, self._gic_write, None)
        uc.mmio_map(board.uart_base, PAGE, self._uart_read, None, self._uart_write, None)
        self.flash = nor_flash.NorFlash(flash) if flash else None
        if self.flash:
            place = nor_flash.PLACE
            uc.mmio_map(place.base, place.bytes, self._flash_read, self.flash, self._flash_write, self.flash)
        if clock is not None:
            uc.mmio_map(RTC.base, RTC.bytes, self._clock_read, clock, None, None)
        for page in block.PAGES if block else ():
            uc.mmio_map(page, PAGE, self._power_read, page, self._power_write, page)
        uc.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, self._unmapped)
        uc.hook_add(unicorn.UC_HOOK_INTR, self._exception)
        uc.hook_add(unicorn.UC_HOOK_INSN, self._counter, None, 1, 0, arm64.UC_ARM64_INS_MRS)
        uc.reg_write(arm64.UC_ARM64_REG_PSTATE, PSTATE_EL3)
        # Only a write of a system register makes Unicorn notice the new level: CPACR_EL1, no traps.
        uc.reg_write(arm64.UC_ARM64_REG_CP_REG, (*CPACR_EL1, 3 << 20))

    def run(self) -> None:
        """From reset to the firmware's own exit; RunnerError or VgpuError when it does not get there."""
        try:
            self._uc.emu_start(self._fw.entry, NOWHERE)
        except unicorn.UcError as error:
            at = self._uc.reg_read(arm64.UC_ARM64_REG_PC)
            self._failure = self._failure or RunnerError(f"the firmware crashed at {at:#x}: {error}")
        if self._failure:
            raise self._failure
        # On an emulated machine the firmware exits; on a board it prints a line and then waits forever.
        if not self._ended and not self.uart.endswith(b"\n"):
            raise RunnerError(f"the firmware stopped at {self._uc.reg_read(arm64.UC_ARM64_REG_PC):#x}")

    def _gpu_read(self, _uc: Any, offset: int, size: int, _user: Any) -> int:
        return self._guarded(lambda: self._reach_gpu().read32(offset)) if size == 4 else 0

    def _gpu_write(self, _uc: Any, offset: int, _size: int, value: int, _user: Any) -> None:
        self.gpu_writes += 1
        self._guarded(lambda: self._reach_gpu().write32(offset, value))

    def _reach_gpu(self) -> VirtualGpu:
        self.gpu_accesses += 1
        if self.power:
            self.power.refuse(not self.power.is_on(), "an access to a GPU that is off: the bus waits forever")
        return self._device

    def _power_read(self, _uc: Any, offset: int, _size: int, page: int) -> int:
        assert self.power
        block = self.power
        return self._guarded(lambda: block.read(page + offset))

    def _power_write(self, _uc: Any, offset: int, _size: int, value: int, page: int) -> None:
        assert self.power
        block = self.power
        self._guarded(lambda: block.write(page + offset, value))

    def _flash_read(self, _uc: Any, offset: int, _size: int, flash: nor_flash.NorFlash) -> int:
        return self._guarded(lambda: flash.read(offset))

    def _flash_write(self, _uc: Any, offset: int, _size: int, value: int, flash: nor_flash.NorFlash) -> None:
        self._guarded(lambda: flash.write(offset, value))

    def _clock_read(self, _uc: Any, offset: int, _size: int, clock: int) -> int:
        return clock if offset == RTC_DR else 0

    def _gic_read(self, _uc: Any, offset: int, _size: int, _user: Any) -> int:
        """GICD_ISPENDR, of the GPU's lines; time passes."""
        if offset == GICD_TYPER:
            return GIC_LINES
        self._guarded(self._pass_time)
        pending = 0
        for line in range(self._device.interrupt_lines):
            number = GIC_SPI_BASE + interrupt_of(self._fw.board.gpu_spi, line)
            if offset == GICD_ISPENDR + number // 32 * 4:
                pending |= int(self._device.interrupt_level(line)) << number % 32
        return pending

    def _gic_write(self, _uc: Any, offset: int, _size: int, value: int, _user: Any) -> None:
        self.gic[offset] = value

    def _uart_read(self, _uc: Any, offset: int, _size: int, _user: Any) -> int:
        return (
            UART_LSR_THRE if offset == UART_LSR else 0
        )  # an 8250's status, a PL011's flags: it takes a character

    def _uart_write(self, _uc: Any, offset: int, _size: int, value: int, _user: Any) -> None:
        if offset == UART_DR:
            self.uart.append(value & 0xFF)

    def _unmapped(self, uc: Any, kind: int, address: int, _size: int, _value: int, _user: Any) -> bool:
        """An access to what is not there, as a device of the board without a model."""
        at = uc.reg_read(arm64.UC_ARM64_REG_PC)
        how = "write to" if kind == unicorn.UC_MEM_WRITE_UNMAPPED else "read"
        if kind == unicorn.UC_MEM_FETCH_UNMAPPED:
            how = "execute"
        board = self._fw.board
        self._failure = RunnerError(
            f"{self._fw.folder}: the firmware tried to {how} {address:#x} (from {at:#x}), where this machine has "
            f"nothing; of the firmware's board it has memory, GPU ({board.gpu_base:#x}), interrupt controller "
            f"({board.gic_base:#x}) and UART ({board.uart_base:#x}), and no model of other devices"
        )
        return False

    def _counter(self, uc: Any, register: int, system: Any, _user: Any) -> bool:
        """CNTPCT_EL0 is virtual, at the rate in CNTFRQ_EL0; every other system register is Unicorn's own."""
        if (system.crn, system.crm, system.op0, system.op1, system.op2) != CNTPCT_EL0:
            return False
        self._guarded(self._pass_time)
        rate = uc.reg_read(arm64.UC_ARM64_REG_CP_REG, CNTFRQ_EL0)
        uc.reg_write(register, self._now_ns * rate // 1_000_000_000)
        return True

    def _pass_time(self) -> int:
        self._now_ns += NS_PER_LOOK
        if self.power:
            self.power.now_ns = self._now_ns
        self._device.advance(self._now_ns)
        return 0

    def _guarded(self, access: Callable[[], int | None]) -> int:
        """No exception may pass through Unicorn: keep it, and stop."""
        try:
            return access() or 0
        except (VgpuError, RunnerError, OSError) as error:
            self._failure = self._failure or error
            self._uc.emu_stop()
            return 0

    def _exception(self, uc: Any, number: int, _user: Any) -> None:
        pc = uc.reg_read(arm64.UC_ARM64_REG_PC)
        instruction = int.from_bytes(uc.mem_read(pc, 4), "little")
        if self._is_done_for_a72(uc, instruction):
            uc.reg_write(arm64.UC_ARM64_REG_PC, pc + 4)
            return
        if instruction == HLT_SEMIHOSTING and uc.reg_read(arm64.UC_ARM64_REG_X0) != SEMIHOSTING_EXIT:
            self._semihost(uc, pc)
            return
        self._ended = instruction == HLT_SEMIHOSTING
        if not self._ended:
            self._failure = RunnerError(f"the firmware took exception {number} at {pc:#x}")
        uc.emu_stop()

    def _semihost(self, uc: Any, pc: int) -> None:
        operation, block = uc.reg_read(arm64.UC_ARM64_REG_X0), uc.reg_read(arm64.UC_ARM64_REG_X1)
        uc.reg_write(arm64.UC_ARM64_REG_X0, self._guarded(lambda: self._store.call(operation, block)))
        uc.reg_write(arm64.UC_ARM64_REG_PC, pc + 4)

    def _is_done_for_a72(self, uc: Any, instruction: int) -> bool:
        """Whether the instruction moves one of A72_REGISTERS; then do that."""
        number = instruction & 31
        name = A72_REGISTERS.get(instruction & ~(READS | 31))
        if name is None or number > X28:
            return False
        register = arm64.UC_ARM64_REG_X0 + number
        if instruction & READS:
            uc.reg_write(register, self.a72.get(name, 0))
        else:
            self.a72[name] = uc.reg_read(register)
        return True
