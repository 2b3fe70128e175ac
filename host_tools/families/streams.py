# SPDX-License-Identifier: BSD-2-Clause
"""How the virtual GPU of a family with command streams is made to run one: what the interpreter needs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from host_tools.families.page_tables import PageTables


class Queue(Protocol):
    """A queue of the virtual GPU, which keeps its registers from one call to the next."""

    def call(self, space: int, stream: int, instructions: int) -> None:
        """Run a stream to its end: address space, GPU address, number of instructions.

        Raises:
            DivergenceError: it has not ended.
            VgpuError: the virtual GPU stopped.
        """


@dataclass(frozen=True)
class Streams:
    """What the module `streams` of a family's folder has as STREAMS.

    Attributes:
        queue: a queue of the virtual GPU that tables are of; it takes pages of theirs.
    """

    queue: Callable[[PageTables], Queue]
