# SPDX-License-Identifier: BSD-2-Clause
"""First replays on a board: a bring-up in twelve stages, and which job, page and word differ from the virtual GPU.
For owners of a board that nobody has tried, who must tell a wrong model from a wrong board.

Not in here: what two traces write on the virtual GPU (`replay --compare`).

Read first: probes.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "bringup",
    "Compare a board's jobs with the virtual GPU.",
    {
        "prove make": LazyCommand(
            "host_tools.extras.bringup.commands.make:make_command",
            "Make a trace whose outputs are what each job writes.",
        ),
        "prove run": LazyCommand(
            "host_tools.extras.bringup.commands.run:run_command",
            "Replay a probe on an emulated device and compare its jobs.",
        ),
        "prove read": LazyCommand(
            "host_tools.extras.bringup.commands.read:read_command",
            "Compare what a board's jobs wrote with the virtual GPU.",
        ),
        "bringup make": LazyCommand(
            "host_tools.extras.bringup.commands.kit_make:kit_make_command",
            "Make a board's bring-up firmware and its twelve stages.",
        ),
        "bringup run": LazyCommand(
            "host_tools.extras.bringup.commands.kit_run:kit_run_command",
            "Run a bring-up kit in an emulation of the board.",
        ),
        "bringup read": LazyCommand(
            "host_tools.extras.bringup.commands.kit_read:kit_read_command",
            "Name every value on a board's console that differs.",
        ),
    },
    example="gramophone prove make net.gtr -o probe.gtr",
    words={
        "bringup": (
            "Run twelve stages on a new board, and name what differs.",
            "gramophone bringup make out lenet.gtr --signing-key key.pem -o kit",
        )
    },
)
