# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/RULES.md: `python -m host_tools.audit.document`."""

from __future__ import annotations

from pathlib import Path

from host_tools.audit import rules
from host_tools.support.files import write_atomically

TARGET = Path(__file__).resolve().parents[2] / "docs" / "RULES.md"

if __name__ == "__main__":
    write_atomically(TARGET, rules.document().encode())
