# SPDX-License-Identifier: BSD-2-Clause
"""What the jobs of a trace do to memory, whoever says it, and what their descriptors name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trace_format.errors import TraceError

Mask = NDArray[np.bool_]  # a page's bytes
Span = tuple[int, int]  # numbers of the first job and of the last one


class NotFollowedError(TraceError):
    """Jobs whose descriptors in memory cannot be followed."""


class Accesses(Protocol):
    """What jobs do to memory, by pages of the carve-out.

    There are three: what a replay showed (host_tools/accesses/observe.py), what a recording's notes say
    (host_tools/accesses/noted_accesses.py), what chains of descriptors reach
    (host_tools/gpus/mali/chain_memory.py).
    """

    def touched(self, frame: int) -> bool:
        """Some job can access the page."""

    def needed(self, frame: int) -> Mask:
        """Bytes of the page whose initial value some job may read: PAGE_BYTES booleans."""

    def written(self, frame: int) -> bool:
        """Some job may write to the page."""

    def overwritten(self, frame: int) -> Mask:
        """Bytes of the page that jobs write whatever the data is: PAGE_BYTES booleans."""


@dataclass(frozen=True)
class Reached:
    """Memory that jobs reach by their descriptors: one piece of an address space.

    Attributes:
        space: address space.
        first, end: virtual page numbers, the second one after the last.
        jobs: numbers of the jobs that reach it.
    """

    space: int
    first: int
    end: int
    jobs: frozenset[int]


@dataclass(frozen=True)
class Followed:
    """What descriptors in memory say of a trace's jobs.

    Attributes:
        reached: memory that they reach.
        code: number of a job -> address space and GPU address of each of its shaders, each once.
    """

    reached: Sequence[Reached]
    code: Mapping[int, Sequence[tuple[int, int]]]

    def code_after(self, va: int) -> int | None:
        """The next address above `va` at which a shader begins; None: there is none."""
        return min((at for places in self.code.values() for _, at in places if at > va), default=None)


Flaw = tuple[str, str]  # rule of docs/RULES.md, text


def nothing(_: object) -> Iterator[Flaw]:
    """`Family.check` where registers say all that there is to check."""
    return iter(())
