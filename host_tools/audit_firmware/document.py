# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/FIRMWARE-RULES.md: `python -m host_tools.audit_firmware.document`."""

from __future__ import annotations

from pathlib import Path

from host_tools.audit_firmware import rules
from host_tools.support.files import write_atomically

TARGET = Path(__file__).resolve().parents[2] / "docs" / "FIRMWARE-RULES.md"

if __name__ == "__main__":
    write_atomically(TARGET, rules.document().encode())
