# SPDX-License-Identifier: BSD-2-Clause
"""Where replays on a V3D can stop: before a job's second register is written, after caches were cleaned.

Linux 6.12, drivers/gpu/drm/v3d: v3d_sched.c (registers of a job, the first last), v3d_gem.c (v3d_clean_caches).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from host_tools.families.checkpoints import Checkpoints
from host_tools.gpus.v3d.copies import settle
from trace_format.actions import Action, Op
from trace_format.profile import Profile

_AT_ONCE = re.compile(r"core0\.CTL_\w*CACTL|(core0|hub)\.INT_CLR")


def _leaves_nothing(name: str, value: int) -> bool:
    return bool(_AT_ONCE.fullmatch(name))


def _resets(name: str, value: int) -> bool:
    return False  # the bridge's register does, which no trace may write


def _cleans(gpu: Profile, rows: Sequence[Action]) -> bool:
    """What Linux does after a job is done after this one has ended."""
    ends = [index for index, row in enumerate(rows) if row.op == Op.WAIT_IRQ][-1:]
    left = [_what(row) for row in settle(gpu)]
    for row in rows[ends[0] :] if ends else ():
        if left and _what(row) == left[0]:
            del left[0]
    return not left


def _what(row: Action) -> tuple[int, int, int, int]:
    """An action, however long it waits."""
    return row.op, row.arg, row.value, row.a


CHECKPOINTS = Checkpoints(
    begins="core0.CSD_QUEUED_CFG1",
    describes=re.compile(r"core0\.CSD_QUEUED_CFG\d"),
    leaves_nothing=_leaves_nothing,
    resets=_resets,
    cleans=_cleans,
)
