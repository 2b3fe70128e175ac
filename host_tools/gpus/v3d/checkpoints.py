# SPDX-License-Identifier: BSD-2-Clause
"""Where replays on a V3D can stop: before a job's second register is written, after caches were cleaned.

Linux 6.12, drivers/gpu/drm/v3d: v3d_sched.c (registers of a job, the first last), v3d_gem.c (v3d_clean_caches).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from host_tools.families.checkpoints import Checkpoints
from trace_format.actions import Action, Op
from trace_format.profile import Profile

_AT_ONCE = re.compile(r"core0\.CTL_\w*CACTL|(core0|hub)\.INT_CLR")
_COMBINER, _CLEAN = 0x100, 0x5  # CTL_L2TCACTL: writes the TMU's combined writes; the cache's dirty lines


def _leaves_nothing(name: str, value: int) -> bool:
    return bool(_AT_ONCE.fullmatch(name))


def _resets(name: str, value: int) -> bool:
    return False  # the bridge's register does, which no trace may write


def _cleans(gpu: Profile, rows: Sequence[Action]) -> bool:
    """Both are asked for in this order, and waited for, after the job's end."""
    register = gpu.register("core0.CTL_L2TCACTL").index
    waited = [index for index, row in enumerate(rows) if row.op == Op.WAIT_IRQ][-1:]
    left = [_COMBINER, _CLEAN]
    asked = False
    for row in rows[waited[0] :] if waited else ():
        if row.op == Op.REG_WRITE and row.register == register and left and row.value == left[0]:
            asked = True
        elif row.op == Op.REG_READ_WAIT and row.register == register and asked:
            del left[0]
            asked = False
    return not left


CHECKPOINTS = Checkpoints(
    begins="core0.CSD_QUEUED_CFG1",
    describes=re.compile(r"core0\.CSD_QUEUED_CFG\d"),
    leaves_nothing=_leaves_nothing,
    resets=_resets,
    cleans=_cleans,
)
