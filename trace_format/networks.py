# SPDX-License-Identifier: BSD-2-Clause
"""Networks of a joint trace: which actions, slots and memory are whose, and the rules that keep them apart.

The image is common: nothing writes to it. A network without neighbours has no row, and its trace no section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from trace_format import packing
from trace_format.actions import Actions, Columns, Op, Type
from trace_format.errors import ActionRangeError, NetworkError, ReservedError, SectionError, listed, meant
from trace_format.schema import MAX_NETWORKS, MAX_PRIORITY, NETWORK_FLAG_EXCLUSIVE, PAGE_BYTES

BYTES = packing.size_of("network")


@dataclass(frozen=True)
class Network:
    """A row of the section.

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

    @property
    def end_slot(self) -> int:
        """Index after its last slot."""
        return self.first_slot + self.slot_count

    @property
    def end_page(self) -> int:
        """Page after its working memory."""
        return self.first_page + self.page_count


NUMBERS = tuple(field.name for field in fields(Network) if field.name not in ("name", "exclusive"))


@dataclass(frozen=True)
class Limits:
    """What the rest of the trace says.

    Attributes:
        actions: all of them.
        slot_count: number of slots.
        image_bytes, carveout_bytes, retry_limit, time_budget_us: of the manifest.
    """

    actions: Actions
    slot_count: int
    image_bytes: int
    carveout_bytes: int
    retry_limit: int
    time_budget_us: int

    @property
    def image_pages(self) -> int:
        """Pages of the image, the last one perhaps not full."""
        return -(-self.image_bytes // PAGE_BYTES)


def packed_networks(networks: Sequence[Network]) -> bytes:
    """The section's content; ReservedError: a value does not fit."""
    found = []
    for network in networks:
        values = {name: getattr(network, name) for name in NUMBERS}
        flags = NETWORK_FLAG_EXCLUSIVE if network.exclusive else 0
        found.append(packing.pack("network", {"name": network.name, "flags": flags, **values}))
    return b"".join(found)


def parsed_networks(data: bytes, offset: int) -> list[Network]:
    """The networks of the section's content, which lies at `offset` in the file.

    Raises:
        SectionError: its size is not that of two to eight rows.
        ReservedError: reserved bytes or bits are not zero.
    """
    if len(data) % BYTES or not 2 <= len(data) // BYTES <= MAX_NETWORKS:
        raise SectionError(
            "size of the networks section",
            offset=offset,
            expected=f"2 to {MAX_NETWORKS} rows of {BYTES} bytes",
            found=len(data),
        )
    found = []
    for at in range(0, len(data), BYTES):
        row = packing.unpack("network", data[at : at + BYTES], offset + at)
        if row["flags"] & ~NETWORK_FLAG_EXCLUSIVE:
            raise ReservedError(
                "reserved flags of a network", offset=offset + at, expected=0, found=hex(row["flags"])
            )
        exclusive = bool(row["flags"])
        found.append(Network(row["name"], exclusive=exclusive, **{name: row[name] for name in NUMBERS}))
    return found


def find(networks: Sequence[Network], name: str) -> int:
    """Index of the network of this name; NetworkError naming those that exist."""
    names = [network.name for network in networks]
    if name not in names:
        raise NetworkError(f"no network {name!r}{meant(name, names)}; there are: {listed(names)}")
    return names.index(name)


def check_networks(networks: Sequence[Network], limits: Limits, where: str = "") -> None:
    """Raise the error of the first rule that the networks of a joint trace break; of none, nothing is asked.

    Raises:
        NetworkError: ranges that do not follow one another or do not end with all there is, names, limits.
        ActionRangeError: an action that reaches what is not its network's.
    """
    if not networks:
        return
    if not 2 <= len(networks) <= MAX_NETWORKS:
        raise NetworkError(f"{where}number of networks", expected=f"2 to {MAX_NETWORKS}", found=len(networks))
    for index, network in enumerate(networks):
        for what, expected, found in _differences(networks, index, limits):
            if expected != found:
                name = f"network {index} ({network.name})"
                raise NetworkError(f"{where}{name}: {what}", expected=expected, found=found)
    _check_actions(networks, limits, where)


def _differences(networks: Sequence[Network], index: int, limits: Limits) -> Iterator[tuple[str, object, object]]:
    """What each rule expects of a row, and what it finds; equal where it holds."""
    row = networks[index]
    before = networks[index - 1] if index else None
    pages = limits.carveout_bytes // PAGE_BYTES
    is_last = index == len(networks) - 1
    yield "is its name one", True, bool(row.name)
    yield "networks of this name", 1, sum(other.name == row.name for other in networks)
    yield "first_action", before.end_action if before else 0, row.first_action
    yield "replay_start between its actions", True, row.first_action <= row.replay_start < row.end_action
    yield "end_action within the actions", True, row.end_action <= len(limits.actions)
    yield "first_slot", before.end_slot if before else 0, row.first_slot
    yield "slots within the slots", True, row.end_slot <= limits.slot_count
    yield "exclusive, as the first is", networks[0].exclusive, row.exclusive
    end = before.end_page if before and not row.exclusive else limits.image_pages
    yield "first_page", end, row.first_page
    yield "pages within the carve-out", True, row.end_page <= pages
    yield "longest_job_us within predicted_us", True, row.longest_job_us <= row.predicted_us
    yield f"priority within {MAX_PRIORITY}", True, row.priority <= MAX_PRIORITY
    yield "retry_limit within the manifest's", True, row.retry_limit <= limits.retry_limit
    yield "time_budget_us within the manifest's", True, 1 <= row.time_budget_us <= limits.time_budget_us
    if is_last:
        yield "end_action, the last one's", len(limits.actions), row.end_action
        yield "end of the last one's slots", limits.slot_count, row.end_slot
        last = max(other.end_page for other in networks)
        yield "end of working memory (pages)", pages, last


def _check_actions(networks: Sequence[Network], limits: Limits, where: str) -> None:
    columns = Columns(limits.actions)
    starts = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    expected = [row.replay_start for row in networks]
    if starts.tolist() != expected:
        raise NetworkError(f"{where}actions that are ReplayStart", expected=expected, found=starts.tolist()[:9])
    owner = np.repeat(np.arange(len(networks)), [row.end_action - row.first_action for row in networks])

    def each(get: Callable[[Network], int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([get(row) for row in networks], np.int64)[owner]

    slots = columns.of(Type.SLOT)
    last = slots + np.maximum(columns.of(Type.OPERANDS), 1)
    frames, pages = columns.of(Type.FRAME), columns.of(Type.PAGES)
    targets, sizes = columns.of(Type.TARGET), columns.of(Type.BYTES)
    first, end = each(lambda row: row.first_page), each(lambda row: row.end_page)
    in_image = frames + pages <= limits.image_pages
    own = (frames >= first) | (first == limits.image_pages)
    for wrong, what in (
        ((slots >= 0) & (slots < each(lambda row: row.first_slot)), "a slot of another network"),
        ((slots >= 0) & (last > each(lambda row: row.end_slot)), "a slot of another network"),
        ((frames >= 0) & ~in_image & ~(own & (frames + pages <= end)), "pages of another network"),
        (
            (targets >= 0) & ((targets < first * PAGE_BYTES) | (targets + sizes > end * PAGE_BYTES)),
            "a target in memory of another network",
        ),
    ):
        if wrong.any():
            index = int(np.argmax(wrong))
            name = networks[int(owner[index])].name
            raise ActionRangeError(f"{where}action {index}: {what} than {name}", action=index)
