# SPDX-License-Identifier: BSD-2-Clause
"""Emitters: each writes one description of a format, or of registers, from the one schema: C headers, documents,
Kaitai.

Not in here: the facts (`schema`, `gpus`); what is written lies in `generated` and in docs.

Read first: __main__.py
"""

from pathlib import Path

GENERATED = Path(__file__).resolve().parents[1] / "generated"
