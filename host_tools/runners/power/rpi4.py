# SPDX-License-Identifier: BSD-2-Clause
"""Power of a Raspberry Pi 4's V3D: reset in PM_GRAFX, two bridges to the bus, a clock.

Reset and bridges are the virtual GPU's own (gpus/v3d/vgpu/device/v3d_power.c), which refuses accesses without
them; here are the clock, the order, and what else the port touches. Facts: Linux 6.1
drivers/soc/bcm/bcm2835-power.c, drivers/clk/bcm/clk-bcm2835.c; TF-A 2.12 plat/rpi/common/rpi4_bl31_setup.c.
"""

from __future__ import annotations

from host_tools.runners.power.block import PowerBlock
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import boards
from trace_format import profile

PM_GRAFX, V3DRSTN = 0xFE10010C, 1 << 6
CM_V3DCTL, CM_ENABLE = 0xFE101038, 1 << 4
ASB_SLAVE, ASB_MASTER, ASB_ID = 0xFEC11008, 0xFEC1100C, 0xFEC11020
REQUEST_STOP, ACKNOWLEDGE = 1, 2
PASSWORD, PASSWORD_SHIFT = 0x5A, 24
VALUE_MASK = (1 << PASSWORD_SHIFT) - 1
BOARD = {0xFE200004: 0, 0xFF800000: 0, 0xFF800008: 0}  # pins, counter: values as the port leaves them
_OFFSETS = {register.name: register.offset for register in profile.load("v3d42").others}
WINDOW = {  # where the virtual GPU has these registers
    PM_GRAFX: _OFFSETS["pm.GRAFX"],
    ASB_SLAVE: _OFFSETS["rpivid_asb.V3D_S_CTRL"],
    ASB_MASTER: _OFFSETS["rpivid_asb.V3D_M_CTRL"],
    ASB_ID: _OFFSETS["rpivid_asb.AXI_BRDG_ID"],
}


class Rpi4Power(PowerBlock):
    """The model; a request is one to open or stop a bridge."""

    BOARD = boards.load("rpi4")
    PAGES = (0xFE100000, 0xFE101000, 0xFE200000, 0xFEC11000, 0xFF800000)

    def __init__(self, device: VirtualGpu, answers: int | None = None) -> None:
        super().__init__(device, answers)
        self._board = dict(BOARD)
        self._clock = 0
        self._was_clocked = False  # since the reset began
        self._requested: dict[int, int] = {}  # bridge that does not answer -> what was requested

    def _device(self, address: int) -> int:
        return self.device.read32(WINDOW[address])

    def _is_open(self, bridge: int) -> bool:
        return not self._device(bridge) & REQUEST_STOP

    def _read(self, address: int) -> int | None:
        if address == CM_V3DCTL:
            return self._clock
        if address in self._board:
            return self._board[address]
        if address in self._requested:
            return self._requested[address] | self._device(address) & ACKNOWLEDGE
        return self._device(address) if address in WINDOW else None

    def _write(self, address: int, value: int) -> bool:
        if address in self._board:
            self._board[address] = value
            return True
        if address not in (CM_V3DCTL, PM_GRAFX, ASB_SLAVE, ASB_MASTER):
            return False
        password = value >> PASSWORD_SHIFT
        self.refuse(password != PASSWORD, f"{address:#010x} written with password {password:#04x}, expected 0x5a")
        if address == CM_V3DCTL:
            self._clock = value & VALUE_MASK
            self._was_clocked |= bool(self._clock & CM_ENABLE)
        elif address == PM_GRAFX:
            self._write_reset(value)
        else:
            self._write_bridge(address, value)
        return True

    def _write_reset(self, value: int) -> None:
        was, now = bool(self._device(PM_GRAFX) & V3DRSTN), bool(value & V3DRSTN)
        open_bridges = [b for b in (ASB_SLAVE, ASB_MASTER) if self._is_open(b) and b not in self._requested]
        self.refuse(now and not was and not self._was_clocked, "the reset ends without a clock to propagate it")
        self.refuse(was and not now and bool(open_bridges) and not self._requested, "reset with open bridges")
        if not now:
            self._was_clocked = False
        self.device.write32(WINDOW[PM_GRAFX], value)

    def _write_bridge(self, address: int, value: int) -> None:
        opens = not value & REQUEST_STOP
        if opens != self._is_open(address):
            running = self._clock & CM_ENABLE and self._device(PM_GRAFX) & V3DRSTN
            self.refuse(opens and not running, "a bridge is opened to a GPU in reset, or without clock")
            wrong = address == ASB_SLAVE and opens and not self._is_open(ASB_MASTER)
            wrong |= address == ASB_MASTER and not opens and self._is_open(ASB_SLAVE)
            self.refuse(wrong, "the bridges are switched in the wrong order")
            if not self._answering():
                self._requested[address] = value & REQUEST_STOP
                return
        self.device.write32(WINDOW[address], value)

    def is_on(self) -> bool:
        """Clock on, no reset, both bridges open."""
        bridges = self._is_open(ASB_SLAVE) and self._is_open(ASB_MASTER)
        return bridges and bool(self._clock & CM_ENABLE) and bool(self._device(PM_GRAFX) & V3DRSTN)


MODEL = Rpi4Power
