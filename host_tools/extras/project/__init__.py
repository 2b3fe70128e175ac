# SPDX-License-Identifier: BSD-2-Clause
"""Project files: all traces, firmware and images of a project from one file, here or on a farm of computers.
For teams who build many networks for many devices.

Not in here: what a single step does: those are commands of the core, which `make` runs.

Read first: commands/make_file.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "project",
    "Make what a project file names.",
    {
        "make": LazyCommand(
            "host_tools.extras.project.commands.make:make_command",
            "Build everything in a project file that is out of date.",
        )
    },
    readers=["host_tools.extras.project.kinds:identify"],
)
