# SPDX-License-Identifier: BSD-2-Clause
"""Clock of a HiKey960's Mali: a mailbox to LPM3, the processor that sets it. Without a rate no GPU answers.

Facts: Linux drivers/mailbox/hi3660-mailbox.c, drivers/clk/hisilicon/clk-hi3660-stub.c. The rate that LPM3 starts
with is not known; here it is none, so that the firmware must request one.
"""

from __future__ import annotations

from host_tools.runners.power.block import PowerBlock
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import boards

BASE = 0xE896B000
CHANNEL = BASE + 13 * 0x40
SOURCE, DESTINATION, MODE = CHANNEL, CHANNEL + 0x4, CHANNEL + 0x10
INTERRUPT_MASK, INTERRUPT_CLEAR, SEND, DATA = CHANNEL + 0x14, CHANNEL + 0x18, CHANNEL + 0x1C, CHANNEL + 0x20
WORDS = 8
LOCK, KEY = BASE + 0xA00, 0x1ACCE551
RATE = BASE + 0x578  # MHz
SET_RATE, RATES = 0x0003030A, (178, 400, 533, 807, 960, 1037)  # of hi3660-gpu.dtsi's operating points
IDLE, READY, ANSWERED = 1 << 4, 1 << 5, 1 << 7
AUTOMATIC_ANSWER = 1
LPM3, HOST = 1 << 3, 1 << 0  # interrupts: of the receiver, of the sender


class Hikey960Power(PowerBlock):
    """The model; a request is a message."""

    BOARD = boards.load("hikey960")
    PAGES = (BASE,)

    def __init__(self, device: VirtualGpu, answers: int | None = None) -> None:
        super().__init__(device, answers)
        data = {DATA + 4 * i: 0 for i in range(WORDS)}
        self._registers = {SOURCE: 0, DESTINATION: 0, MODE: 0, INTERRUPT_MASK: 0, LOCK: 1, **data}
        self._state = IDLE
        self.rate = 0

    def _read(self, address: int) -> int | None:
        if address == RATE:
            return self.rate
        value = self._registers.get(address)
        return value | self._state if value is not None and address == MODE else value

    def _write(self, address: int, value: int) -> bool:
        if address == LOCK:
            self._registers[LOCK] = int(value != KEY)
            return True
        self.refuse(bool(self._registers[LOCK]), f"the mailbox is locked, and {address:#010x} written")
        if address == SOURCE:
            self.refuse(self._state != IDLE, "a channel in use is taken")
            self._state = READY
        if address == INTERRUPT_CLEAR:
            self.refuse(self._state != ANSWERED or value != HOST, "an answer that is not there is cleared")
            self._state = READY
        elif address == SEND:
            self._send(value)
        elif address in self._registers:
            self._registers[address] = value
        else:
            return False
        return True

    def _send(self, value: int) -> None:
        seen = tuple(self._registers[a] for a in (SOURCE, DESTINATION, INTERRUPT_MASK, MODE))
        expected = (HOST, LPM3, LPM3 ^ 0xFFFFFFFF, AUTOMATIC_ANSWER)
        self.refuse(self._state != READY, "a message is sent over another one")
        self.refuse(value != HOST or seen != expected, f"the channel is set up wrongly: {seen}")
        words = tuple(self._registers[DATA + 4 * i] for i in range(WORDS))
        is_known = words[0] == SET_RATE and words[1] in RATES and not any(words[2:])
        self.refuse(not is_known, f"LPM3 does not know the message {words}")
        self._state = 0
        if self._answering():
            self._state = ANSWERED
            self.rate = words[1]

    def is_on(self) -> bool:
        """Whether there is a clock."""
        return self.rate != 0


MODEL = Hikey960Power
