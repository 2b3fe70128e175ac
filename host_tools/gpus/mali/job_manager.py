# SPDX-License-Identifier: BSD-2-Clause
"""What recordings and passes must know of Mali GPUs with a job manager: commands, how jobs start.

Source: Linux 6.1 drivers/gpu/drm/panfrost (panfrost_regs.h: commands; panfrost_mmu.c: address spaces).
"""

from __future__ import annotations

import enum

from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.profile import Profile
from trace_format.registers import Register

RESETS = (1, 2)  # of gpu.COMMAND: soft and hard
START = 1  # of js*.COMMAND_NEXT
CONFIG_SPACE = 0xF  # bits of js*.CONFIG_NEXT: address space
CONFIG_FLUSHES = 3 << 8 | 3 << 12  # the same: clean and invalidate caches before the chain, and after it
LOCK_ALL = 0x3F  # of as*.LOCKADDR: at address 0, 2 to the power of so many bytes and more
IDLE_TIMEOUT_US = 100_000  # as Linux since 6.8; it gave an address space 1 ms before


class SpaceCommand(enum.IntEnum):
    """Values of as*.COMMAND."""

    UPDATE = 1
    LOCK = 2
    UNLOCK = 3
    FLUSH_PT = 4
    FLUSH_MEM = 5


def idle(status: Register) -> Action:
    """The action that waits until an address space carries out no command; `status`: its as*.STATUS."""
    return action(
        Op.REG_READ_WAIT, register=status.index, expected=0, mask=status.busy, timeout_us=IDLE_TIMEOUT_US
    )


def carried_out(gpu: Profile, space: int, command: SpaceCommand) -> list[Action]:
    """Actions that give an address space, which is idle, a command and wait for its end."""
    register = gpu.register(f"as{space}.COMMAND")
    return [
        action(Op.REG_WRITE, register=register.index, value=command, mask=ALL_BITS),
        idle(gpu.register(f"as{space}.STATUS")),
    ]


def starts_chain(value: int, mask: int) -> bool:
    """Whether a write of this value under this mask to js*.COMMAND_NEXT starts a chain.

    The register holds no command once it is taken, so bits that are not written are 0.
    """
    return value & mask == START


def resets(gpu: Profile, row: Action) -> bool:
    """Whether an action resets the GPU."""
    return row.op == Op.REG_WRITE and row.register == gpu.register("gpu.COMMAND").index and row.value in RESETS


class ChainStarts:
    """Follows the writes of a job slot's registers up to the one that starts a chain.

    Attributes:
        flushes: whether caches are cleaned and invalidated before the latest chain and after it.
    """

    flushes = False

    def __init__(self, gpu: Profile) -> None:
        self.gpu = gpu
        self.slots = {job.start.index: job.start.name.partition(".")[0] for job in gpu.jobs}
        self.written: dict[int, int] = {}

    def take(self, action: Action) -> tuple[int, int] | None:
        """Let an action happen; the address space and the head of the chain that it starts, if it does."""
        if action.op != Op.REG_WRITE:
            return None
        index, value, mask = action.register, action.value, action.mask
        self.written[index] = self.written.get(index, 0) & ~mask | value & mask
        if index not in self.slots or not starts_chain(value, mask):
            return None
        slot = self.slots[index]
        head = self._register(f"{slot}.HEAD_NEXT_LO") | self._register(f"{slot}.HEAD_NEXT_HI") << 32
        config = self._register(f"{slot}.CONFIG_NEXT")
        self.flushes = config & CONFIG_FLUSHES == CONFIG_FLUSHES
        return config & CONFIG_SPACE, head

    def _register(self, name: str) -> int:
        return self.written.get(self.gpu.register(name).index, 0)
