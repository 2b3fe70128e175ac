# SPDX-License-Identifier: BSD-2-Clause
"""Where replays on a Mali can stop: before a job is announced, if the one before has cleaned caches at its end.

Linux 6.1, drivers/gpu/drm/panfrost: panfrost_job.c (a job's registers), panfrost_regs.h (bits, commands).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from host_tools.families.checkpoints import Checkpoints
from trace_format.actions import Action, Op
from trace_format.profile import Profile

_SOFT_RESET, _HARD_RESET, _CLEAN_CACHES, _CLEAN_INVALIDATE_CACHES = 1, 2, 7, 8  # gpu.COMMAND
_END_FLUSH_CLEANS = 1 << 12  # js*.CONFIG_NEXT: END_FLUSH is 1 or 3


def _leaves_nothing(name: str, value: int) -> bool:
    if name == "gpu.COMMAND":
        return value in (_CLEAN_CACHES, _CLEAN_INVALIDATE_CACHES)
    return bool(re.fullmatch(r"(gpu|job|mmu)\.IRQ_CLEAR", name))


def _resets(name: str, value: int) -> bool:
    return name == "gpu.COMMAND" and value in (_SOFT_RESET, _HARD_RESET)


def _cleans(gpu: Profile, rows: Sequence[Action]) -> bool:
    """All that a job's registers say of it is written while it is described, CONFIG_NEXT too."""
    configs = {register.index for name, register in gpu.registers.items() if name.endswith(".CONFIG_NEXT")}
    found = [row for row in rows if row.op == Op.REG_WRITE and row.register in configs]
    return bool(found) and all(row.value & row.mask & _END_FLUSH_CLEANS for row in found)


CHECKPOINTS = Checkpoints(
    begins="",
    describes=re.compile(r"js\d+\.\w+_NEXT(_LO|_HI)?"),
    leaves_nothing=_leaves_nothing,
    resets=_resets,
    cleans=_cleans,
)
