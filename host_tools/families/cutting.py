# SPDX-License-Identifier: BSD-2-Clause
"""How a family's compute jobs are cut into several that do the same together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from trace_format.actions import Action
from trace_format.profile import Profile

Words = list[tuple[str, int]]  # names of registers and what is written to them, the one that starts the job last


class NotCutError(ValueError):
    """A job cannot be cut; says why."""


@dataclass(frozen=True)
class Prefix:
    """The registers of a job's first workgroups, those of the others, and which part of all the first are."""

    first: Words
    others: Words
    part: Fraction


@dataclass(frozen=True)
class Cutting:
    """How jobs are cut that registers describe.

    Attributes:
        pieces: the registers of each piece, in their order, given the GPU, what has been written to a register,
            and how many pieces there are to be: more where that makes none larger than its share, fewer where
            there cannot be so many, at least two. NotCutError: none.
        prefixes: divisions into the first workgroups and the others, given the GPU and what has been written to a
            register, by ascending number of the first. NotCutError: none.
        between: actions between the end of one piece and the next one's start: what the driver does there.
    """

    pieces: Callable[[Profile, Callable[[str], int], int], Sequence[Words]]
    prefixes: Callable[[Profile, Callable[[str], int]], Sequence[Prefix]]
    between: Callable[[Profile], list[Action]]
