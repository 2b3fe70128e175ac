# SPDX-License-Identifier: BSD-2-Clause
"""What can be done for a Mali's speed."""

from host_tools.families.speed import Speed
from host_tools.gpus.mali.timing import KERNEL_COSTS

SPEED = Speed(
    cutting="a Mali's job has no first workgroup: its descriptor says how many there are, and they count from 0",
    kernel_costs=KERNEL_COSTS,
    loads_vectors=True,
)
