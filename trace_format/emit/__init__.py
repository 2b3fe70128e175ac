# SPDX-License-Identifier: BSD-2-Clause
"""Emitters: each writes one description of a format from the one schema."""

from pathlib import Path

GENERATED = Path(__file__).resolve().parents[1] / "generated"
