# SPDX-License-Identifier: BSD-2-Clause
"""The runner's machine with the model of caches and order beside it; a broken rule ends the run with an error."""

from __future__ import annotations

from typing import Any

import unicorn
from unicorn import arm64_const as arm64

from host_tools.runners import firmware as firmwares
from host_tools.runners import unicorn as runner
from host_tools.runners.caches.instructions import (
    CONTROL,
    SMPEN_WRITE,
    Barrier,
    Found,
    Maintenance,
    instructions,
)
from host_tools.runners.caches.mapping import spans
from host_tools.runners.caches.model import LINE, Finding, Memory, Model
from host_tools.runners.replay import RunnerError, Tensor
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.translation import FAR

SMPEN = 1 << 6
MMU_AND_CACHE = 1 << 0 | 1 << 2  # M and C of SCTLR_EL3
_TTBR0, _TCR, _MAIR = (2, 0, 3, 6, 0), (2, 0, 3, 6, 2), (10, 2, 3, 6, 0)  # CRn, CRm, op0, op1, op2
_BOTH = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE


class CacheError(RunnerError):
    """The firmware breaks rules of caches and order.

    Attributes:
        findings: which, and where.
    """

    def __init__(self, fw: firmwares.Firmware, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("\n".join([f"{fw.folder}: caches and order:", *(f"  {found}" for found in findings)]))


class CheckedMachine(runner.Machine):
    """As Machine. An earlier boot stage may have left dirty lines, if the firmware turns an MMU on; a board whose
    firmware leaves it off has no caches, or a loader that leaves nothing in them.

    Args:
        device: created with `track_access`; it may be without on a machine whose GPU does nothing.

    Attributes:
        model: the state of caches and order.
    """

    def __init__(
        self, fw: firmwares.Firmware, device: VirtualGpu, carveout: Tensor, dram: Tensor, *more: Any, **named: Any
    ) -> None:
        super().__init__(fw, device, carveout, dram, *more, **named)
        board, found = fw.board, list(instructions(fw.segments))
        has_mmu = any(row.what == CONTROL for row in found)
        ranges = [
            *(("rom", base, len(data)) for base, data in fw.segments),
            ("ram", *fw.ram),
            ("carveout", board.carveout_base, board.carveout_bytes),
            ("mailbox", board.mailbox_base, dram.size),
        ]
        self.model = Model((Memory(*row, is_old=has_mmu) for row in ranges), lambda: self._pc)
        self.model.is_coherent = not any(_words(fw, SMPEN_WRITE))
        self._started = 0  # jobs, of which the model knows
        self._ram_hook: int | None = None
        for name, base, size in ranges[-2:]:
            self._watch(name, base, size)
            self._watch(name, base | FAR, size)
        self._ram = ranges[-3]
        self._watch_ram(has_mmu)
        for row in found:
            self._uc.hook_add(unicorn.UC_HOOK_CODE, self._instruction, row, row.address, row.address)

    @property
    def _pc(self) -> int:
        return int(self._uc.reg_read(arm64.UC_ARM64_REG_PC))

    def run(self) -> None:
        """As Machine.run; CacheError when the firmware breaks a rule."""
        super().run()
        self.model.end()
        if self.model.findings:
            raise CacheError(self._fw, self.model.findings)

    def _watch(self, name: str, base: int, size: int) -> int:
        memory = self.model.memories[name]
        return int(self._uc.hook_add(_BOTH, self._memory, memory, base, base + size - 1))

    def _watch_ram(self, is_on: bool) -> None:
        """While RAM is cached, all of it counts as dirty, so that its accesses change nothing."""
        if is_on and self._ram_hook is None:
            self._ram_hook = self._watch(*self._ram)
        elif not is_on and self._ram_hook is not None:
            self._uc.hook_del(self._ram_hook)
            self._ram_hook = None

    def _memory(self, _uc: Any, kind: int, address: int, size: int, _value: int, memory: Memory) -> None:
        self.model.access(memory, address & ~FAR, size, kind == unicorn.UC_MEM_WRITE)

    def _instruction(self, uc: Any, _address: int, _size: int, row: Found) -> None:
        if isinstance(row.what, Barrier):
            self.model.barrier(row.what)
        elif isinstance(row.what, Maintenance):
            self._maintain(row, row.what)
        elif row.what == CONTROL:
            is_on = self._x(row.register) & MMU_AND_CACHE == MMU_AND_CACHE
            self._guarded(lambda: self._switch(uc, is_on))
        else:
            self.model.system_register(row.what)

    def _maintain(self, row: Found, what: Maintenance) -> None:
        """Of a loop over lines, all lines at once: only its last round is left to the core."""
        self._join()
        start = self._x(row.register) & ~FAR & -LINE
        end = start + LINE
        if row.ends_at is not None:
            end = max(end, -(-(self._x(row.ends_at) & ~FAR) // LINE) * LINE)
            self._uc.reg_write(arm64.UC_ARM64_REG_X0 + row.register, end - LINE)
        self.model.maintain(what, start, end)

    def _switch(self, uc: Any, is_on: bool) -> None:
        self._join()
        if is_on:
            registers = (uc.reg_read(arm64.UC_ARM64_REG_CP_REG, which) for which in (_TTBR0, _TCR, _MAIR))
            self.model.switch(True, spans(lambda at, size: bytes(uc.mem_read(at, size)), *registers))
        else:
            self.model.switch(False, ())
        self._watch_ram(not is_on)

    def _join(self) -> None:
        self.model.is_coherent |= bool(self.a72.get("CPUECTLR_EL1", 0) & SMPEN)

    def _x(self, number: int) -> int:
        return int(self._uc.reg_read(arm64.UC_ARM64_REG_X0 + number)) if number < runner.X28 else 0

    def _look(self) -> None:
        jobs = self._device.counters().jobs
        if jobs != self._started:
            self._started = jobs
            self.model.gpu(self._device.access_map())
            self._device.clear_access()

    def _gpu_read(self, uc: Any, offset: int, size: int, user: Any) -> int:
        value = super()._gpu_read(uc, offset, size, user)
        self._look()
        self.model.register_read()
        return value

    def _gpu_write(self, uc: Any, offset: int, size: int, value: int, user: Any) -> None:
        self.model.register_written(self._fw.board.gpu_base + offset)
        super()._gpu_write(uc, offset, size, value, user)
        self._look()

    def _gic_read(self, uc: Any, offset: int, size: int, user: Any) -> int:
        value = super()._gic_read(uc, offset, size, user)
        self._look()
        self.model.register_read()
        return value

    def _counter(self, uc: Any, register: int, system: Any, user: Any) -> bool:
        is_counter = super()._counter(uc, register, system, user)
        if is_counter:
            self.model.counter_read()
        return is_counter


def _words(fw: firmwares.Firmware, word: int) -> list[int]:
    """Addresses of an instruction, with any register."""
    return [
        base + at
        for base, data in fw.segments
        for at in range(0, len(data) - 3, 4)
        if int.from_bytes(data[at : at + 4], "little") & ~31 == word
    ]
