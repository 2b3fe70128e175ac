# SPDX-License-Identifier: BSD-2-Clause
"""A plugin for pytest: workers of pytest-xdist are given time to write their counts when they end."""

from xdist.workermanage import NodeManager

NodeManager.EXIT_TIMEOUT = 600  # seconds; a worker that takes longer than 10 would be killed
