# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on a V3D: there is no way."""

from host_tools.families.shares import Sharing

SHARING = Sharing(shares="a V3D runs one job at a time, on all its QPUs")
