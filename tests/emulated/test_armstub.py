# SPDX-License-Identifier: BSD-2-Clause
"""A Raspberry Pi 4's way from EL3 to the kernel, and its other cores, on Unicorn."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unicorn as uc
from unicorn import arm64_const as arm64

from host_tools.runners import firmware, unicorn
from host_tools.runners.power.rpi4 import Rpi4Power
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.status import value_of

pytestmark = pytest.mark.usefixtures("checked_caches")

MIB = 1 << 20
KERNEL, DEVICE_TREE = 0x200000, 0x2EFF2F00
# mrs x5, currentel; mov x6, x0; mov x0, #0x18; hlt #0xf000: it ends by semihosting
CURRENT_EL_AND_HALT = bytes.fromhex("454238d5e60300aa000380d200005ed4")
AT_END = KERNEL + len(CURRENT_EL_AND_HALT) - 4
NO_KERNEL = {
    "no word of one": {0xF0: 0x5AFE570B, 0xFC: KERNEL},
    "none": {0xF0: 0},
    "at an odd place": {0xF0: 0, 0xFC: KERNEL + 2},
    "another file": {0xF0: 0, 0xFC: KERNEL, KERNEL + 56: 0x644D5242},
}


def with_kernel(folder: Path, changes: dict[int, int]) -> unicorn.Machine:
    """A Raspberry Pi with a kernel, as its firmware leaves it; ends where the kernel, or the stub, does."""
    fw = firmware.load(folder)
    dram, carveout = (np.frombuffer(mmap.mmap(-1, MIB), np.uint8) for _ in range(2))
    with VirtualGpu(Rpi4Power.GPU, {fw.board.carveout_base: carveout}) as gpu:
        machine = unicorn.Machine(fw, gpu, carveout, dram)
        machine._uc.mem_map(KERNEL, 0x1000)
        machine._uc.mem_write(KERNEL, CURRENT_EL_AND_HALT)
        words = {0xF0: 0, 0xF8: DEVICE_TREE, 0xFC: KERNEL, KERNEL + 56: 0x644D5241} | changes
        for at, word in words.items():
            machine._uc.mem_write(at, word.to_bytes(4, "little"))
        machine.run()
    return machine


def test_the_kernel_follows_at_el2(rpi4: Path) -> None:
    machine = with_kernel(rpi4, {})
    assert machine.uart == b"=%08x\n" % value_of("REQUEST")
    read = machine._uc.reg_read
    assert read(arm64.UC_ARM64_REG_PC) == AT_END
    assert read(arm64.UC_ARM64_REG_X5) >> 2 == 2, "exception level"
    assert read(arm64.UC_ARM64_REG_X6) == DEVICE_TREE
    assert [read(arm64.UC_ARM64_REG_X0 + i) for i in (1, 2, 3)] == [0, 0, 0]
    assert read(arm64.UC_ARM64_REG_CP_REG, (1, 1, 3, 6, 0)) == 0x5B1, "SCR_EL3"
    assert machine.a72 == {"CPUECTLR_EL1": 0x40, "L2CTLR_EL1": 0x22}
    # interrupts of all 8 groups are the normal world's, and it may set the priority mask
    assert machine.gic == {0x80 + 4 * i: 0xFFFFFFFF for i in range(8)} | {0x1004: 0xFF}


@pytest.mark.parametrize("name", NO_KERNEL)
def test_without_a_kernel_the_stub_waits(rpi4: Path, name: str) -> None:
    machine = with_kernel(rpi4, NO_KERNEL[name] | ({} if 0xFC in NO_KERNEL[name] else {0xFC: 0}))
    assert machine.uart == b"=%08x\n" % value_of("REQUEST")
    assert machine._uc.reg_read(arm64.UC_ARM64_REG_PC) < KERNEL
    assert machine.gic == {}


def test_the_other_cores_wait(rpi4: Path) -> None:
    """Until the kernel calls them, by its spin table; a word that is no address is no call."""

    def be_core_3(engine: Any, _at: int, _size: int, _user: Any) -> None:
        engine.reg_write(arm64.UC_ARM64_REG_X0, 0x80000003)
        engine.reg_write(arm64.UC_ARM64_REG_X2, 0x80000003)

    fw = firmware.load(rpi4)
    dram, carveout = (np.frombuffer(mmap.mmap(-1, MIB), np.uint8) for _ in range(2))
    with VirtualGpu(Rpi4Power.GPU) as gpu:
        machine = unicorn.Machine(fw, gpu, carveout, dram)
        for at in (0x4, 0x104):  # after the instructions that read MPIDR_EL1
            machine._uc.hook_add(uc.UC_HOOK_CODE, be_core_3, None, at, at)
        for word in (0x5AFE570B, 0):
            machine._uc.mem_write(0xF0, word.to_bytes(8, "little"))
            machine._uc.emu_start(fw.entry, unicorn.NOWHERE, count=1000)
            assert 0x10C <= machine._uc.reg_read(arm64.UC_ARM64_REG_PC) < 0x120
        assert machine.power
        assert machine.power.log == []
        machine._uc.mem_map(KERNEL, 0x1000)
        machine._uc.mem_write(KERNEL, CURRENT_EL_AND_HALT)
        machine._uc.mem_write(0xF0, KERNEL.to_bytes(8, "little"))
        machine.run()
        assert machine._uc.reg_read(arm64.UC_ARM64_REG_PC) == AT_END
        assert machine._uc.reg_read(arm64.UC_ARM64_REG_X5) >> 2 == 2
        assert machine.a72 == {"CPUECTLR_EL1": 0x40}
        assert machine.gic == {0x80: 0xFFFFFFFF, 0x1004: 0xFF}, "only its own interrupts"
