# SPDX-License-Identifier: BSD-2-Clause
"""What somebody who keeps a device's log can do to it, and what must be found."""

from __future__ import annotations

from collections.abc import Callable

from signing.replay_log import ENTRY_BYTES, read_log

Entries = list[bytes]


def entries_of(data: bytes) -> Entries:
    """A log's entries as they lie in it."""
    return [data[at : at + ENTRY_BYTES] for at in range(0, len(data), ENTRY_BYTES)]


def _first_boot(entries: Entries) -> Entries:
    return [raw for raw in entries if read_log(raw)[0].boot == 1]


# Of a log of several boots, the first with four entries or more: what is done, and the fault.
ORDERS: dict[str, tuple[Callable[[Entries], Entries], str]] = {
    "removed": (lambda log: [*log[:2], *log[3:]], "gap"),
    "swapped": (lambda log: [*log[:2], log[3], log[2], *log[4:]], "reordered"),
    "duplicated": (lambda log: [*log[:3], *log[2:]], "duplicate"),
    "cut": (lambda log: log[:-1], "cut-tail"),
    "cut to the first boot": (_first_boot, "cut-tail"),
}
