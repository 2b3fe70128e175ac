# SPDX-License-Identifier: BSD-2-Clause
"""A network of a joint trace, apart from what checks it: results of commands have it as a field."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """A row of the networks' section (trace_format.networks).

    Attributes:
        name: unique within the trace.
        first_action, replay_start, end_action: indices of actions; that at replay_start is a ReplayStart.
        first_slot, slot_count: its slots.
        first_page, page_count: its working memory in the carve-out, in pages of 4096 bytes.
        exclusive: all networks have the same working memory.
        predicted_us, longest_job_us: a replay's jobs by the time model, and the longest of them; 0: not known.
        period_us: how often it is asked for; 0: when somebody asks.
        priority: 0 to 255, a higher one first.
        retry_limit, time_budget_us: as in the manifest, for its replays.
        image: the pages of the image that it reaches, as (first, end), ascending and apart.
    """

    name: str
    first_action: int
    replay_start: int
    end_action: int
    first_slot: int
    slot_count: int
    first_page: int
    page_count: int
    exclusive: bool = False
    predicted_us: int = 0
    longest_job_us: int = 0
    period_us: int = 0
    priority: int = 0
    retry_limit: int = 2
    time_budget_us: int = 60_000_000
    image: tuple[tuple[int, int], ...] = ()

    @property
    def end_slot(self) -> int:
        """Index after its last slot."""
        return self.first_slot + self.slot_count

    @property
    def end_page(self) -> int:
        """Page after its working memory."""
        return self.first_page + self.page_count
