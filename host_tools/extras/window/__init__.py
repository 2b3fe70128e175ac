# SPDX-License-Identifier: BSD-2-Clause
"""A trace in the browser, served on loopback: one job after another, with the tensors that it reads and writes as
pictures, histograms and numbers, its shader beside them, and a second trace to compare with. For model owners who
look for a wrong layer, and for auditors who look at a job. `operands.py` finds a job's tensors, `session.py` keeps
what was computed, `values.py` and `picture.py` show numbers, `pages.py` makes pages, `server.py` serves them.

Not in here: the report that the window shows (`audit.report`), and comparing on the command line
(`gramophone replay --compare`).

Read first: session.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "window",
    "Step through a trace's jobs in the browser.",
    {
        "open": LazyCommand(
            "host_tools.extras.window.command:open_command", "Step through a trace's jobs in the browser."
        )
    },
)
