# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's Raspberry Pi 4 for tests."""

from __future__ import annotations

import pytest

from host_tools.machine.board_qemu import raspi4b_qemu
from host_tools.machine.errors import RecordError


def qemu_or_skip() -> str:
    """A QEMU with the machine; skips the test where there is none and its packages cannot be fetched."""
    try:
        return raspi4b_qemu()
    except RecordError as error:
        pytest.skip(str(error))
