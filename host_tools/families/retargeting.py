# SPDX-License-Identifier: BSD-2-Clause
"""How a recording becomes one for another GPU of its family, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_format.trace import Trace


@dataclass(frozen=True)
class Applied:
    """What a rule did: in how many places (fields, words, register accesses)."""

    rule: str
    reason: str
    places: int


@dataclass(frozen=True)
class Retargeting:
    """What the module `retargeting` of a family's folder has as RETARGETING.

    Attributes:
        retarget: a raw recording of another GPU of the family, made of a raw trace and the other's name, and what
            was changed. Raises a TraceError: there are no rules, or one cannot be applied.
    """

    retarget: Callable[[Trace, str], tuple[Trace, Sequence[Applied]]]
