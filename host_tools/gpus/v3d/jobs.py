# SPDX-License-Identifier: BSD-2-Clause
"""What registers say of a compute job of a V3D: where code and uniforms lie, and how much work it is.

Sources: Mesa 22.3.6 src/broadcom/vulkan/v3dv_queue.c and v3dv_pipeline.c (CFG5: code and flags; CFG6: uniforms),
v3dv_cmd_buffer.c (cmd_buffer_create_csd_job, CFG0 to CFG3); for the V3D 7.1 Mesa 25.0.7 (there too: CFG4).
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.families.family import Named
from trace_format.profile import Profile

CODE_FLAGS = 7  # bits of CSD_QUEUED_CFG5 that are no address: propagate NaNs, single segment, threading
INSTRUCTION_BYTES, UNIFORM_BYTES = 8, 4


def addresses(register: Callable[[str], int]) -> list[Named]:
    """The addresses that a job names which is started now; `register` says what has been written to one."""
    code = register("core0.CSD_QUEUED_CFG5") & ~CODE_FLAGS
    uniforms = register("core0.CSD_QUEUED_CFG6")
    found = [Named("code", code, INSTRUCTION_BYTES, True)]
    if uniforms:  # a shader without any has none
        found.append(Named("uniforms", uniforms, UNIFORM_BYTES, False))
    return found


def batches(gpu: Profile, word: int) -> int:
    """How many batches CSD_QUEUED_CFG4 says there are."""
    return word + ("NUM_BATCHES_M1" in gpu.bit_names["core0.CSD_QUEUED_CFG4"])


def work(register: Callable[[str], int]) -> str:
    """How much a job has to do: `13 x 1 x 1 groups of 16`."""
    counts = [register(f"core0.CSD_QUEUED_CFG{axis}") >> 16 for axis in range(3)]
    size = register("core0.CSD_QUEUED_CFG3") & 0xFF or 256
    return f"{' x '.join(map(str, counts))} groups of {size}"
