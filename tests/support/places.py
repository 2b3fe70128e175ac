# SPDX-License-Identifier: BSD-2-Clause
"""Where the checkout is that the tests are of."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
