# SPDX-License-Identifier: BSD-2-Clause
"""Hostile joint traces of streamed networks: pieces over another network's memory, or that only some pages share.

`LOADS` is for devices with the features networks and streaming.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from host_tools.extras.sharing import joining
from tests.support import replayer_samples as s
from tests.support.hostile_networks import sections
from tests.support.hostile_pieces import dropped, moved
from tests.support.hostile_rows import Edit, Hostile, OfDevice, OfHost, Row, Unseen, good, rows
from tests.support.replayer_samples import PAGE
from trace_format import errors, layout
from trace_format.actions import MAP_READ, MAP_WRITE, Op
from trace_format.schema import (
    HEADER_FLAG_ENCRYPTED,
    HEADER_FLAG_JOINT,
    HEADER_FLAG_RAW,
    HEADER_FLAG_STREAMED,
    SectionType,
)
from trace_format.trace import Trace

BAD, RANGE, SECTION = errors.PieceError, errors.ActionRangeError, errors.SectionError
BOTH = HEADER_FLAG_JOINT | HEADER_FLAG_STREAMED
# Page 0 is the image, 1 and 2 the resident piece, then come 13 pages of a, and as many of b.
STAYS, A_FIRST, A_WIDE, A_AGAIN, B_FIRST, B_WIDE, B_AGAIN = range(7)
A_PAGE, B_PAGE, END_PAGE = 3, 16, 29
B_ACTION = 12  # the first one of b


@functools.cache
def sample(exclusive: bool = False) -> Trace:
    """Two networks of four jobs each with a resident piece in common."""
    one = s.streamed(meta=good().meta)
    one = one.with_(streamed=[replace(one.streamed[0], data=bytes([1]) * 2 * PAGE), *one.streamed[1:]])
    found = joining.joint([joining.Joining(name, one) for name in "ab"], "small", exclusive=exclusive).trace
    return found.with_(meta=found.meta | good().meta)


def exclusive() -> Trace:
    """The same with one working memory for both."""
    return sample(True)


def row(name: str, edit: Edit, device: OfDevice = "PIECES", host: OfHost = BAD) -> Row:
    """A change, and who refuses it."""
    return name, edit, device, host


def at_page(name: str, index: int, page: int, device: OfDevice = "PIECES", host: OfHost = BAD) -> Row:
    """A piece that lies elsewhere."""
    return row(name, lambda parts: parts.piece(index, "page", page), device, host)


def sectioned(
    name: str, change: object, host: OfHost = SECTION, flags: int = BOTH, device: str = "SECTIONS"
) -> Row:
    """Other sections, or other flags of the header."""
    return sections(name, change, device, host, flags)  # type: ignore[arg-type]


def fewer(found: list[layout.Part]) -> None:
    """Networks that do not say who reaches the resident piece's last page."""
    found[4] = layout.Part(SectionType.NETWORKS, bytes(found[4].stored)[:-1])


LOADS: tuple[Hostile, ...] = rows(
    [
        at_page("a wide piece of a that ends in b", A_WIDE, B_PAGE - 1),
        at_page("a wide piece of b that begins in a", B_WIDE, B_PAGE - 1),
        at_page("a piece of b in the resident one", B_FIRST, 2),
        at_page("a wide piece of a that begins in the resident one", A_WIDE, 2),
        at_page("a piece of b behind all memory", B_FIRST, END_PAGE),
        at_page("a wide piece of b that ends behind all memory", B_WIDE, END_PAGE - 1),
        at_page("a piece of b in the image", B_FIRST, 0),
        row("a resident piece that a reaches, but for its end", lambda p: p.reach(2, 0b10)),
        row("a resident piece that b reaches, but for its end", lambda p: p.reach(2, 0b01)),
        row("a resident piece that a reaches, but for its start", lambda p: p.reach(1, 0b10)),
        row(
            "a page of a resident piece that none reaches",
            lambda p: p.reach(2, 0),
            "NETWORKS",
            errors.NetworkError,
        ),
        row("a network more that reaches it", lambda p: p.reach(2, 0b111), "NETWORKS", errors.ReservedError),
        row(
            "a resident piece in memory of a",
            lambda p: p.piece(A_FIRST, "flags", 1).piece(A_FIRST, "last_job", 7),
            "PIECES",
            SECTION,
        ),
        row("a resident piece that goes with a", lambda p: p.piece(STAYS, "last_job", 3)),
        row(
            "memory of a that begins behind the image",
            lambda p: p.network(0, "first_page", 1),
            "NETWORKS",
            errors.NetworkError,
        ),
        row(
            "memory of a that begins in the resident piece",
            lambda p: p.network(0, "first_page", 2).network(0, "page_count", 14),
            "NETWORKS",
            errors.NetworkError,
        ),
        row(
            "memory of a that ends in b's pieces",
            lambda p: p.network(0, "page_count", 24).network(1, "first_page", 27).network(1, "page_count", 2),
            "PIECES",
            RANGE,
        ),
        row(
            "a writes to the resident piece",
            lambda p: p.action(0, flags=MAP_READ | MAP_WRITE, b=1, value=2),
            "RANGE",
            RANGE,
        ),
        row(
            "a writes to its last page",
            lambda p: p.action(0, flags=MAP_READ | MAP_WRITE, b=2, value=3),
            "RANGE",
            RANGE,
        ),
        row(
            "b writes to it",
            lambda p: p.action(B_ACTION, flags=MAP_READ | MAP_WRITE, b=1, value=2),
            "RANGE",
            RANGE,
        ),
        row(
            "b maps it and a's memory", lambda p: p.action(B_ACTION, flags=MAP_READ, b=1, value=4), "RANGE", RANGE
        ),
        row("b maps a piece of a", lambda p: p.action(B_ACTION, flags=MAP_READ, b=12, value=1), "RANGE", RANGE),
        row("a maps a piece of b", lambda p: p.action(0, flags=MAP_READ, b=26, value=1), "RANGE", RANGE),
        row("b uploads to the resident piece", lambda p: p.action(B_ACTION + 3, a=PAGE), "RANGE", RANGE),
        row("b clears a's piece", lambda p: p.action(B_ACTION + 3, op=Op.CLEAR, a=12 * PAGE, b=0), "RANGE", RANGE),
        row("b uploads from the resident piece", lambda p: p.action(B_ACTION + 3, b=PAGE), "RANGE", RANGE),
        row(
            "a maps a resident piece of b",
            lambda p: p.reach(1, 0b10).reach(2, 0b10).action(0, flags=MAP_READ, b=1, value=2),
            "RANGE",
            RANGE,
        ),
        sectioned("networks that do not say who reaches a piece", fewer, SECTION, BOTH, "NETWORKS"),
        sectioned("networks before pieces", moved(SectionType.NETWORKS, 3)),
        sectioned("no pieces", dropped(SectionType.PIECES)),
        sectioned("no networks", dropped(SectionType.NETWORKS)),
        sectioned("no STREAM", dropped(SectionType.STREAM)),
        sectioned("encrypted without a message", list, SECTION, BOTH | HEADER_FLAG_ENCRYPTED),
        sectioned("raw", list, errors.ReservedError, BOTH | HEADER_FLAG_RAW, "HEADER"),
        sectioned("joint alone", list, SECTION, HEADER_FLAG_JOINT),
        sectioned("streamed alone", list, errors.SectionRangeError, HEADER_FLAG_STREAMED),
    ],
    sample,
) + rows(
    [
        at_page("exclusive: a piece of b behind all memory", B_FIRST, 16),
        at_page("exclusive: a wide piece that ends behind it", B_WIDE, 15),
        at_page("exclusive: a wide piece over one of the same network", B_WIDE, 11),
    ],
    exclusive,
)
IS_GOOD = Unseen("it is good")
GOOD: tuple[Hostile, ...] = rows(
    [
        row("nothing is wrong", lambda parts: parts, IS_GOOD, IS_GOOD),
        at_page(
            "a piece in memory of the other network, whose jobs do not need it", A_AGAIN, 20, IS_GOOD, IS_GOOD
        ),
        row("a resident piece of a alone", lambda p: p.reach(1, 1).reach(2, 1), IS_GOOD, IS_GOOD),
    ],
    sample,
) + rows([row("nothing is wrong: exclusive", lambda parts: parts, IS_GOOD, IS_GOOD)], exclusive)
