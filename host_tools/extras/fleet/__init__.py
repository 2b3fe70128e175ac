# SPDX-License-Identifier: BSD-2-Clause
"""What many devices have done, from their replay logs. For operators who run thousands of devices.

Not in here: the check of one log: that is `verify log` in the core.

Read first: watch.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "fleet",
    "Check the replay logs of many devices.",
    {
        "fleet": LazyCommand(
            "host_tools.extras.fleet.command:fleet_command",
            "Check the replay logs of many devices.",
        )
    },
)
