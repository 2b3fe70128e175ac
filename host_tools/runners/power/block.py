# SPDX-License-Identifier: BSD-2-Clause
"""Models of what switches the GPU of an emulated board.

A block is a model of the registers that a firmware must set, in the right order, before the GPU answers. It fails
loudly: an unknown register, a wrong order, and an access to a GPU that is off stop the emulation.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from host_tools.runners.replay import RunnerError
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator.boards import Board


class PowerBlock(abc.ABC):
    """Power, clock and reset of a board's GPU.

    Args:
        device: the virtual GPU that it switches, of the kind that the board has.
        answers: how many requests it answers before it stops answering; None: all.

    Attributes:
        log: (address, value) of each write, in order.
        now_ns: virtual time.
    """

    BOARD: ClassVar[Board]  # whose GPU is switched
    TITLE: ClassVar[str]
    GPU: ClassVar[str]  # the virtual GPU
    PAGES: ClassVar[tuple[int, ...]]  # addresses of the 4 KiB pages that its registers lie in

    def __init_subclass__(cls) -> None:
        assert cls.BOARD.gpu
        cls.TITLE, cls.GPU = cls.BOARD.title, cls.BOARD.gpu.virtual

    def __init__(self, device: VirtualGpu, answers: int | None = None) -> None:
        self.device = device
        self.log: list[tuple[int, int]] = []
        self.now_ns = 0
        self._answers = answers

    def read(self, address: int) -> int:
        """Value of a register; RunnerError when there is none."""
        value = self._read(address)
        if value is None:
            raise RunnerError(f"{self.TITLE}: read of {address:#010x}: unknown register")
        return value

    def write(self, address: int, value: int) -> None:
        """Write a register; RunnerError when there is none, or it may not be written so now."""
        self.log.append((address, value))
        if not self._write(address, value):
            raise RunnerError(f"{self.TITLE}: write of {value:#010x} to {address:#010x}: unknown register")

    @abc.abstractmethod
    def _read(self, address: int) -> int | None:
        """As `read`; None: unknown."""

    @abc.abstractmethod
    def _write(self, address: int, value: int) -> bool:
        """As `write`; False: unknown."""

    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether the GPU answers."""

    def _answering(self) -> bool:
        """Whether this request is answered."""
        if self._answers is None:
            return True
        self._answers -= 1
        return self._answers >= 0

    def refuse(self, condition: bool, why: str) -> None:
        """RunnerError with the reason when the condition holds."""
        if condition:
            raise RunnerError(f"{self.TITLE}: {why}")
