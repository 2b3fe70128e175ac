# SPDX-License-Identifier: BSD-2-Clause
"""What can be done for a V3D's speed."""

from host_tools.families.speed import Speed
from host_tools.gpus.v3d.cutting import CUTTING
from host_tools.gpus.v3d.timing import KERNEL_COSTS

SPEED = Speed(cutting=CUTTING, kernel_costs=KERNEL_COSTS)
