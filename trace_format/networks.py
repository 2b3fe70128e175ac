# SPDX-License-Identifier: BSD-2-Clause
"""Networks of a joint trace: which actions, slots and memory are whose, and the rules that keep them apart.

Nothing writes to the image, and each of its pages says which networks reach it. A network without neighbours has
no row, and its trace no section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from trace_format import packing
from trace_format.actions import Actions, Columns, Op, Type
from trace_format.errors import ActionRangeError, NetworkError, ReservedError, SectionError, listed, meant
from trace_format.network import Network
from trace_format.schema import MAX_NETWORKS, MAX_PRIORITY, NETWORK_FLAG_EXCLUSIVE, PAGE_BYTES

BYTES = packing.size_of("network")


NUMBERS = tuple(field.name for field in fields(Network) if field.name not in ("name", "exclusive", "image"))


@dataclass(frozen=True)
class Limits:
    """What the rest of the trace says.

    Attributes:
        actions: all of them.
        slot_count: number of slots.
        image_pages: those of the image, the last one perhaps not full, and of resident pieces behind it.
        carveout_bytes, retry_limit, time_budget_us: of the manifest.
    """

    actions: Actions
    slot_count: int
    image_pages: int
    carveout_bytes: int
    retry_limit: int
    time_budget_us: int


def pages_of(image_bytes: int) -> int:
    """Pages of an image of this size."""
    return -(-image_bytes // PAGE_BYTES)


def ranges_of(is_in: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Pages, of which it says whether each is in, as `Network.image` has them."""
    ends: list[int] = np.flatnonzero(np.diff(is_in, prepend=False, append=False)).tolist()
    return tuple(zip(ends[::2], ends[1::2], strict=True))


def reach(networks: Sequence[Network], image_pages: int) -> NDArray[np.bool_]:
    """Whether a network (first index) reaches a page of the image (second)."""
    found = np.zeros((len(networks), image_pages), np.bool_)
    for row, network in zip(found, networks, strict=True):
        for first, end in network.image:
            row[first:end] = True
    return found


def packed_networks(networks: Sequence[Network], image_pages: int) -> bytes:
    """The section's content; ReservedError: a value does not fit.

    Args:
        networks: the rows.
        image_pages: as in `Limits`.
    """
    found = []
    for network in networks:
        values = {name: getattr(network, name) for name in NUMBERS}
        flags = NETWORK_FLAG_EXCLUSIVE if network.exclusive else 0
        found.append(packing.pack("network", {"name": network.name, "flags": flags, **values}))
    bits = np.packbits(reach(networks, image_pages), axis=0, bitorder="little")
    return b"".join(found) + bits.tobytes()


def parsed_networks(data: bytes, image_pages: int, offset: int) -> list[Network]:
    """The networks of the section's content, which lies at `offset` in the file; `image_pages` as in `Limits`.

    Raises:
        SectionError: its size is not that of two to eight rows, and a byte for each page of the image.
        ReservedError: reserved bytes or bits are not zero.
    """
    count, more = divmod(len(data) - image_pages, BYTES)
    if more or not 2 <= count <= MAX_NETWORKS:
        raise SectionError(
            "size of the networks section",
            offset=offset,
            expected=f"2 to {MAX_NETWORKS} rows of {BYTES} bytes and {image_pages} of the image's pages",
            found=len(data),
        )
    bits = np.frombuffer(data, np.uint8, offset=count * BYTES)
    unknown = np.flatnonzero(bits >> count)
    if len(unknown):
        page = int(unknown[0])
        raise ReservedError(
            f"networks that reach page {page} of the image",
            offset=offset + count * BYTES + page,
            expected=f"bits of {count} networks",
            found=hex(bits[page]),
        )
    found = []
    for index in range(count):
        at = index * BYTES
        row = packing.unpack("network", data[at : at + BYTES], offset + at)
        if row["flags"] & ~NETWORK_FLAG_EXCLUSIVE:
            raise ReservedError(
                "reserved flags of a network", offset=offset + at, expected=0, found=hex(row["flags"])
            )
        exclusive = bool(row["flags"])
        image = ranges_of((bits >> index & 1).astype(np.bool_))
        numbers = {name: row[name] for name in NUMBERS}
        found.append(Network(row["name"], exclusive=exclusive, image=image, **numbers))
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
    nobodys = np.flatnonzero(~reach(networks, limits.image_pages).any(axis=0))
    if len(nobodys):
        raise NetworkError(
            f"{where}page {nobodys[0]} of the image", expected="a network that reaches it", found="none"
        )
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
    ends = [end for pages in row.image for end in pages]
    yield "image pages that ascend and are apart", sorted(set(ends)), ends
    yield "image pages within the image", True, max(ends, default=0) <= limits.image_pages
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

    def each(get: Callable[[Network], int]) -> NDArray[np.int64]:
        return np.array([get(row) for row in networks], np.int64)[owner]

    slots = columns.of(Type.SLOT)
    last = slots + np.maximum(columns.of(Type.OPERANDS), 1)
    frames, pages = columns.of(Type.FRAME), columns.of(Type.PAGES)
    targets, sizes = columns.of(Type.TARGET), columns.of(Type.BYTES)
    sources = columns.of(Type.SOURCE)
    # Pages of the image that a network does not reach, of those before each page.
    foreign = np.zeros((len(networks), limits.image_pages + 1), np.int64)
    np.cumsum(~reach(networks, limits.image_pages), axis=1, out=foreign[:, 1:])

    def is_foreign(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        begin, end = (np.clip(pages, 0, limits.image_pages) for pages in (begin, end))
        found: NDArray[np.bool_] = (begin < end) & (foreign[owner, end] != foreign[owner, begin])
        return found

    first, end = each(lambda row: row.first_page), each(lambda row: row.end_page)
    in_image = frames + pages <= limits.image_pages
    own = (frames >= first) | (first == limits.image_pages)
    for wrong, what in (
        ((slots >= 0) & (slots < each(lambda row: row.first_slot)), "a slot of another network"),
        ((slots >= 0) & (last > each(lambda row: row.end_slot)), "a slot of another network"),
        ((frames >= 0) & ~in_image & ~(own & (frames + pages <= end)), "pages of another network"),
        ((frames >= 0) & is_foreign(frames, frames + pages), "pages of the image of another network"),
        (
            (sources >= 0) & is_foreign(sources // PAGE_BYTES, -(-(sources + sizes) // PAGE_BYTES)),
            "a source in the image of another network",
        ),
        (
            (targets >= 0) & ((targets < first * PAGE_BYTES) | (targets + sizes > end * PAGE_BYTES)),
            "a target in memory of another network",
        ),
    ):
        if wrong.any():
            index = int(np.argmax(wrong))
            name = networks[int(owner[index])].name
            raise ActionRangeError(f"{where}action {index}: {what} than {name}", action=index)
