# SPDX-License-Identifier: BSD-2-Clause
"""Boards of silicon: memory of the normal world, and what their ports wait for (board.c)."""

from __future__ import annotations

from host_tools.runners import nor_flash
from host_tools.runners.power import hikey960, rpi4
from tee_replayer.generator import boards
from tee_replayer.generator.profiles import Features
from tests.campaign.device import HIKEY960, RPI4

Row = tuple[str, int, int, object]
# (address, bytes) that the normal world has: of QEMU's machine "virt" its flash, and RAM (QEMU hw/arm/virt.c).
VIRT = ((0x0400_0000, 0x0400_0000), (0x4000_0000, 8 << 30))
# What the descriptions' [memory] and [reserved] leave to it.
HOSTILE = {
    RPI4: ((0x8_0000, 0x1FF8_0000), (0x2E00_0000, 0x1200_0000), (0x4000_0000, 3 << 30)),
    HIKEY960: ((0, 0x1AC0_0000), (0x1AC9_8000, 0x2436_8000), (0x42C0_0000, 0x7D40_0000)),
}


def hostile(path: str) -> tuple[tuple[int, int], ...]:
    """(address, bytes) of the normal world's memory."""
    return HOSTILE.get(path, VIRT)


def describe(path: str, has: Features) -> list[Row]:
    """Rows of a machine's description: the board's registers; flash, and a clock that is not set."""
    if path == RPI4:
        return [
            *(("page", page, 0, "") for page in rpi4.Rpi4Power.PAGES),
            *(("bridge", bridge, 0, "") for bridge in (rpi4.ASB_SLAVE, rpi4.ASB_MASTER)),
            ("always", rpi4.ASB_ID, BRIDGE_ID, ""),
        ]
    if path == HIKEY960:
        ready = hikey960.IDLE | hikey960.READY | hikey960.ANSWERED
        return [
            *(("page", page, 0, "") for page in hikey960.Hikey960Power.PAGES),
            ("never", hikey960.LOCK, hikey960.KEY, ""),
            ("always", hikey960.MODE, ready, ""),
            ("always", hikey960.RATE, hikey960.RATES[0], ""),
        ]
    found: list[Row] = [("flash", nor_flash.PLACE.base, nor_flash.PLACE.bytes, "")] if has.store else []
    return found + ([("page", boards.load(boards.QEMU_VIRT).devices["rtc"].base, 0, "")] if has.clock else [])


BRIDGE_ID = 0x62726467  # "brdg": baremetal/rpi4.c
