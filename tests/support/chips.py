# SPDX-License-Identifier: BSD-2-Clause
"""A GPU of which no chip has constants: each that there is has some."""

from __future__ import annotations

import pytest

from host_tools.model import timing

GPU = "mali_g72"
REFUSED = f"no chip with GPU {GPU} has constants"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the constants of all chips with GPU away."""
    left = {name: chip for name, chip in timing.chips().items() if chip.gpu != GPU}
    monkeypatch.setattr(timing, "chips", lambda: left)
