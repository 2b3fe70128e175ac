# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a recording that was turned into one for another GPU of its family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Applied:
    """What a rule did: in how many places (fields, words, register accesses)."""

    rule: str
    reason: str
    places: int
