# SPDX-License-Identifier: BSD-2-Clause
"""How long jobs take on a board's GPU, by a model that is fitted to measurements, and a search for faster kernels
by this model. For model owners who must meet a time on a board that they do not have at hand.

Not in here: measurements of replays: that is `bench` in the core.

Read first: co_execution.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "speed",
    "Estimate how long a trace takes on a board.",
    {
        "speed time": LazyCommand(
            "host_tools.extras.speed.commands.time:time_command",
            "Estimate the time of each job of a trace on a board.",
        ),
        "speed calibrate": LazyCommand(
            "host_tools.extras.speed.commands.calibrate:calibrate_command",
            "Fit the constants of `speed time` to a board's times.",
        ),
    },
    example="gramophone speed time net.gtr",
    passes={"trim-address-space": ["host_tools.extras.speed.co_execution:PASS"]},
    additions={"kernels": "host_tools.extras.speed.kernels.options:searched_kernels"},
    renamed={"time": "speed time", "calibrate": "speed calibrate"},
)
