# SPDX-License-Identifier: BSD-2-Clause
"""What is asked of a family with command streams: how its virtual GPU runs one, which ones a device takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from host_tools.families.page_tables import PageTables
from trace_format.trace import Trace


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
        firmware: a file in place of the microcontroller's, for replayers on the virtual GPU.
        straightened: a recording whose streams a device can judge; in it slots are found.
        check: TraceError for a trace with a stream that a device refuses.
    """

    queue: Callable[[PageTables], Queue]
    firmware: Callable[[], bytes]
    straightened: Callable[[Trace], Trace]
    check: Callable[[Trace], None]
