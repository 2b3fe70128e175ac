# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on a Mali, each on cores of its own."""

from host_tools.families.shares import Sharing
from host_tools.gpus.mali.share_order import order
from host_tools.gpus.mali.shares import together

SHARING = Sharing(shares=together, job_order=order)
