# SPDX-License-Identifier: BSD-2-Clause
"""What the pass `streaming` has done, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.support.results import Count, Result


class StreamingFacts(Result):
    """What `--secure-memory` has done.

    Attributes:
        budget_bytes: What was asked for.
        secure_bytes: What a device with one key takes, at most.
        pieces: Pieces that are read while jobs run.
        first_bytes: Bytes of pieces that the first job waits for.
        again_bytes: Bytes of pieces that each replay reads again.
        resident_bytes: Bytes of pieces that stay.
    """

    budget_bytes: Count
    secure_bytes: Count
    pieces: Count
    first_bytes: Count
    again_bytes: Count
    resident_bytes: Count


@dataclass(frozen=True)
class Streamed:
    """What the pass has done; see `StreamingFacts`."""

    budget_bytes: int
    secure_bytes: int
    pieces: int
    first_bytes: int
    again_bytes: int
    resident_bytes: int

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"secure memory: at most {self.secure_bytes} of {self.budget_bytes} bytes; {self.pieces} pieces are "
            f"read while jobs run: {self.again_bytes} bytes again in each replay, {self.resident_bytes} once",
            "a device must have the feature streaming: 'streaming = true' in its device file's [features]",
        ]

    def facts(self) -> StreamingFacts:
        """For programs."""
        return StreamingFacts(**vars(self))
