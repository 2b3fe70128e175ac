# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/RULES.md and docs/FIRMWARE-RULES.md: `python -m host_tools.audit.document`."""

from __future__ import annotations

from pathlib import Path

from host_tools.audit import rules
from host_tools.audit.firmware import rules as firmware_rules
from host_tools.support.files import write_atomically

DOCS = Path(__file__).resolve().parents[2] / "docs"
TARGET, FIRMWARE_TARGET = DOCS / "RULES.md", DOCS / "FIRMWARE-RULES.md"

if __name__ == "__main__":
    write_atomically(TARGET, rules.document().encode())
    write_atomically(FIRMWARE_TARGET, firmware_rules.document().encode())
