# SPDX-License-Identifier: BSD-2-Clause
"""Jobs in the reports of passes: their names, and of what they were left out or seen, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from host_tools.support.results import Amount, Result

SHOWN = 6  # jobs of a reason


class TimeChange(Result):
    """Microseconds."""

    before: Amount
    after: Amount


class HasReason(Protocol):
    """A job, and why something was not done to it."""

    @property
    def why(self) -> str:
        """The reason."""

    def text(self) -> str:
        """The job."""


def titled(number: int, name: str) -> str:
    """A job by its number, from 1, and its name, if it has one."""
    return f"job {number}{f' ({name})' if name else ''}"


def by_reason(what: str, jobs: Sequence[HasReason]) -> Iterator[str]:
    """A line for each reason, which begins with what is the case for its reason."""
    for why in dict.fromkeys(job.why for job in jobs):
        mine = [job for job in jobs if job.why == why]
        shown = ", ".join(job.text() for job in mine[:SHOWN])
        others = f" and {len(mine) - SHOWN} others" if len(mine) > SHOWN else ""
        yield f"{what}, as {why}: {shown}{others}"


def only_seen(done: str, jobs: int, seen: int) -> Iterator[str]:
    """A line if replays alone have shown of some of the jobs that they access the same."""
    if seen:
        yield (
            f"of {jobs} jobs that {done}, {seen} are not proved to access the same with all data: two replays did"
        )
