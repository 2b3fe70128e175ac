# SPDX-License-Identifier: BSD-2-Clause
"""Recordings of one Mali for another, by the rules in `rules`."""

from host_tools.families.retargeting import Retargeting
from host_tools.gpus.mali.rules import retarget

RETARGETING = Retargeting(retarget)
