# SPDX-License-Identifier: BSD-2-Clause
"""Several networks on one GPU: one joint trace, and the requests that are late under an order, by deadline or
another. For firmware engineers whose device runs more than one network.

Not in here: the replay of a joint trace, which the core can do.

Read first: joining.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "sharing",
    "Share a GPU between several networks.",
    {
        "sharing join": LazyCommand(
            "host_tools.extras.sharing.commands.join:join_command",
            "Join the traces of several networks into one.",
        ),
        "sharing simulate": LazyCommand(
            "host_tools.extras.sharing.commands.simulate:simulate_command",
            "Estimate which requests are late if networks share a GPU.",
        ),
    },
    example="gramophone sharing join digits.gtr scenes.gtr -o joint.gtr",
    renamed={"join": "sharing join", "simulate": "sharing simulate"},
)
