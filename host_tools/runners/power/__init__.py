# SPDX-License-Identifier: BSD-2-Clause
"""Models of what switches the GPU of a board, for the emulation of its port: they refuse other orders, wrong
passwords and unknown registers.

Not in here: the ports, which are in C (`baremetal`).

Read first: block.py
"""

from __future__ import annotations

import importlib

from host_tools.runners.power.block import PowerBlock


def model(name: str) -> type[PowerBlock]:
    """The model in a module of this folder, by the name that a board's description has (gpu.power_model)."""
    found: type[PowerBlock] = importlib.import_module(f"{__name__}.{name}").MODEL
    return found
