# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that other tools made. For researchers who have recordings of GPUReplay.

Not in here: our own recordings (`record`).

Read first: gpureplay.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "importers",
    "Turn another tool's recording into a raw trace.",
    {
        "import gpureplay": LazyCommand(
            "host_tools.extras.importers.command:gpureplay_command", "Import a GPUReplay recording of a Mali."
        ),
    },
    example="gramophone import gpureplay recordings/mnist -o mnist.raw.gtr",
)
