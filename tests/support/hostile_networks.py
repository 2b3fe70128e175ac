# SPDX-License-Identifier: BSD-2-Clause
"""Hostile joint traces: networks that reach what is not theirs, or whose section contradicts itself.

`LOADS` is for devices that take joint traces (`generate --networks`); others refuse all of them by the header.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.extras.sharing import joining
from tests.support import replayer_samples as s
from tests.support.hostile_rows import HUGE, Edit, Hostile, OfDevice, OfHost, Row, Unseen, rows
from tests.support.replayer_samples import PAGE, Parts
from trace_format import assembly, errors, layout, packing
from trace_format.actions import MAP_READ, MAP_WRITE, Op
from trace_format.assembly import DEFAULT_CHUNK_BYTES
from trace_format.schema import HEADER_FLAG_JOINT, HEADER_FLAG_OLD_JOINT, SECTION_FLAG_OPTIONAL, Codec, SectionType
from trace_format.trace import Trace

BAD, RESERVED, SECTION, RANGE = (
    errors.NetworkError,
    errors.ReservedError,
    errors.SectionError,
    errors.ActionRangeError,
)
A, B = range(2)
ACTIONS = len(s.PROLOGUE + s.REPLAY)  # of each network
START = len(s.PROLOGUE) - 1
IMAGE_PAGES, PAGES = 1, 15  # working memory follows: 15 pages of a, 15 of b
NETWORKS = 8
ROW = packing.size_of("network")


def good() -> Trace:
    """Two networks; nothing is wrong with them."""
    return s.joint()


def exclusive() -> Trace:
    """The same with one working memory."""
    rows = [joining.Joining(name, s.trace()) for name in "ab"]
    return joining.joint(rows, "small", exclusive=True).trace


def row(name: str, *fields: tuple[int, str, int], device: OfDevice = "NETWORKS", host: OfHost = BAD) -> Row:
    """Other values of fields of networks: (index, field, value)."""

    def edit(parts: Parts) -> Parts:
        for index, field, value in fields:
            parts.network(index, field, value)
        return parts

    return name, edit, device, host


def named(name: str, index: int, text: bytes, host: OfHost = BAD) -> Row:
    """Another name of a network."""

    def edit(parts: Parts) -> Parts:
        at = parts.section(SectionType.NETWORKS)[1] + index * ROW
        parts.data[at : at + 32] = text.ljust(32, b"\0")
        return parts

    return name, edit, "NETWORKS", host


def byte(name: str, at: int) -> Row:
    """A byte of the last row's reserved ones."""

    def edit(parts: Parts) -> Parts:
        parts.data[parts.section(SectionType.NETWORKS)[1] + 2 * ROW - 40 + at] = 1
        return parts

    return name, edit, "NETWORKS", RESERVED


def action(name: str, network: int, index: int, device: OfDevice, host: OfHost, **fields: int) -> Row:
    """Other fields of an action of a network."""
    return name, lambda parts: parts.action(network * ACTIONS + index, **fields), device, host


def sections(
    name: str,
    change: Callable[[list[layout.Part]], None],
    device: OfDevice = "NETWORKS",
    host: OfHost = SECTION,
    flags: int = HEADER_FLAG_JOINT,
) -> Row:
    """Other sections, or other flags of the header, in a file whose sizes and hashes fit."""

    def edit(parts: Parts) -> Parts:
        found = list(layout.disassemble(bytes(parts.data))[1])
        change(found)
        hashes = next(part for part in found if part.type == SectionType.CHUNKS)
        body_at = next(index for index, part in enumerate(found) if part.type == SectionType.ACTIONS)
        head, body = found[:body_at], found[body_at:]
        pieces = [bytes(part.stored) + bytes(part.padding) for part in body]
        hashes.stored = assembly.chunk_hashes(pieces, DEFAULT_CHUNK_BYTES)
        hashes.raw_bytes = len(hashes.stored)
        return Parts(bytearray(assembly.head_of(head, body, DEFAULT_CHUNK_BYTES, flags) + b"".join(pieces)))

    return name, edit, device, host


def resize(found: list[layout.Part], change: Callable[[bytes], bytes]) -> None:
    """Another content of the section."""
    found[3] = layout.Part(SectionType.NETWORKS, change(bytes(found[3].stored)))


def resized(name: str, change: Callable[[bytes], bytes]) -> Row:
    """The same, of the good joint trace."""
    return sections(name, lambda found: resize(found, change))


def reach(name: str, page: int, networks: int, device: OfDevice = "NETWORKS", host: OfHost = BAD) -> Row:
    """Other networks that reach a page of the image."""
    return name, lambda parts: parts.reach(page, networks), device, host


def image(name: str, network: int, first: int, pages: int = 1) -> Row:
    """A mapping of pages of the image, to be read."""
    return action(name, network, 0, "RANGE", RANGE, flags=MAP_READ, b=first, value=pages)


def source(name: str, network: int, place: int, size: int = 100) -> Row:
    """An upload from a place in the image."""
    return action(name, network, 3, "RANGE", RANGE, b=place, value=size)


def packed(found: list[layout.Part]) -> None:
    """The section's bytes as an LZ4 block would be."""
    found[3] = layout.Part(SectionType.NETWORKS, found[3].stored, codec=Codec.LZ4)


def optional(found: list[layout.Part]) -> None:
    """The section, flagged so that readers may pass over it."""
    found[3] = layout.Part(SectionType.NETWORKS, found[3].stored, SECTION_FLAG_OPTIONAL)


def only(*fields: tuple[int, str, int]) -> Edit:
    """As `row`, its edit alone."""
    return row("", *fields)[1]


LOADS: tuple[Hostile, ...] = rows(
    [
        named("a network without a name", A, b""),
        named("two networks of one name", B, b"a"),
        named("a network's name that goes on after its end", B, b"b\0c", RESERVED),
        named("a network's name that begins with nothing", A, b"\0a", RESERVED),
        row("an action before the first network", (A, "first_action", 1)),
        row("networks whose actions overlap", (B, "first_action", ACTIONS - 1)),
        row("an action between networks", (B, "first_action", ACTIONS + 1)),
        row("a network that begins with the first one's actions", (B, "first_action", 0)),
        row("a network whose actions begin nowhere", (B, "first_action", HUGE)),
        row("a replay that starts in another network", (A, "replay_start", ACTIONS + START)),
        row("a replay that starts in the network before", (B, "replay_start", START)),
        row("a replay that starts nowhere", (B, "replay_start", HUGE)),
        row("a replay that starts at the network's end", (A, "replay_start", ACTIONS)),
        row("a replay that starts later than ReplayStart", (A, "replay_start", START + 1)),
        row("a replay that starts earlier than ReplayStart", (B, "replay_start", ACTIONS + START - 1)),
        row("a network that ends in the next one", (A, "end_action", ACTIONS + 1)),
        row("a network that ends before it begins", (B, "end_action", ACTIONS - 1)),
        row("a network that ends before its replay starts", (A, "end_action", START)),
        row("a network without actions", (B, "end_action", ACTIONS)),
        row("a network that ends after the last action", (B, "end_action", 2 * ACTIONS + 1)),
        row("a network that never ends", (B, "end_action", HUGE)),
        row("actions after the last network", (B, "end_action", 2 * ACTIONS - 1)),
        row(
            "a mapping of the next network",
            (A, "end_action", ACTIONS + 1),
            (B, "first_action", ACTIONS + 1),
            device="RANGE",
            host=RANGE,
        ),
        row(
            "the last copy of the network before",
            (A, "end_action", ACTIONS - 1),
            (B, "first_action", ACTIONS - 1),
            device="RANGE",
            host=RANGE,
        ),
        row("a slot before the first network's", (A, "first_slot", 1)),
        row("networks whose slots overlap", (B, "first_slot", 1)),
        row("a slot between networks", (B, "first_slot", 3)),
        row("slots that begin nowhere", (B, "first_slot", HUGE)),
        row("slots that end in the next network's", (A, "slot_count", 3)),
        row("more slots than there are", (B, "slot_count", 3)),
        row("slots after the last network's", (B, "slot_count", 1)),
        row("slots whose end wraps", (B, "slot_count", HUGE - 1)),
        row("no end of slots", (A, "slot_count", HUGE)),
        row(
            "a slot of the next network",
            (A, "slot_count", 3),
            (B, "first_slot", 3),
            (B, "slot_count", 1),
            device="RANGE",
            host=RANGE,
        ),
        row(
            "a slot of the network before",
            (A, "slot_count", 1),
            (B, "first_slot", 1),
            (B, "slot_count", 3),
            device="RANGE",
            host=RANGE,
        ),
        row("working memory in the image", (A, "first_page", 0)),
        row("a page between image and working memory", (A, "first_page", IMAGE_PAGES + 1)),
        row("working memories that overlap", (B, "first_page", IMAGE_PAGES + PAGES - 1)),
        row("working memory of the network before", (B, "first_page", IMAGE_PAGES)),
        row("a page between working memories", (B, "first_page", IMAGE_PAGES + PAGES + 1)),
        row("working memory nowhere", (B, "first_page", HUGE)),
        row("working memory that ends in the next one's", (A, "page_count", PAGES + 1)),
        row("working memory beyond the carve-out", (B, "page_count", PAGES + 1)),
        row("a page of nobody", (B, "page_count", PAGES - 1)),
        row("working memory whose end wraps", (B, "page_count", HUGE - IMAGE_PAGES - PAGES + 1)),
        row("working memory without end", (A, "page_count", HUGE)),
        row(
            "working memory that the next network maps",
            (A, "page_count", PAGES + 4),
            (B, "first_page", IMAGE_PAGES + PAGES + 4),
            (B, "page_count", PAGES - 4),
            device="RANGE",
            host=RANGE,
        ),
        row(
            "working memory that the network before maps",
            (A, "page_count", 3),
            (B, "first_page", IMAGE_PAGES + 3),
            (B, "page_count", 2 * PAGES - 3),
            device="RANGE",
            host=RANGE,
        ),
        row("a reserved flag of a network", (A, "flags", 2), host=RESERVED),
        row("the last flag of a network", (B, "flags", 1 << 31), host=RESERVED),
        row("an exclusive network beside another", (B, "flags", 1)),
        row("an exclusive network before another", (A, "flags", 1)),
        row("exclusive networks with memory of their own", (A, "flags", 1), (B, "flags", 1)),
        row("a job longer than all of them", (A, "longest_job_us", 1)),
        row("the longest job there can be", (B, "predicted_us", HUGE - 1), (B, "longest_job_us", HUGE)),
        row("a priority too high", (A, "priority", 256)),
        row("the highest priority", (B, "priority", HUGE)),
        row("more retries than the manifest has", (A, "retry_limit", 3)),
        row("retries without end", (B, "retry_limit", HUGE)),
        row("no time at all", (A, "time_budget_us", 0)),
        row("more time than the manifest has", (A, "time_budget_us", 60_000_001)),
        row("all the time there is", (B, "time_budget_us", HUGE)),
        byte("the first reserved byte of a network", 0),
        byte("the last reserved byte of a network", 39),
        resized("one network", lambda data: data[:ROW] + data[2 * ROW :]),
        resized("no networks", lambda data: data[2 * ROW :]),
        resized("nothing of networks", lambda data: b""),
        resized("one network and a half", lambda data: data[: ROW + ROW // 2] + data[2 * ROW :]),
        resized("nine networks", lambda data: (data[: 2 * ROW] * 5)[: 9 * ROW] + data[2 * ROW :]),
        resized("more networks than fit", lambda data: data[: 2 * ROW] * 100 + data[2 * ROW :]),
        resized("networks that do not say which pages they reach", lambda data: data[: 2 * ROW]),
        resized("networks that reach a page too many", lambda data: data + b"\1"),
        sections("a packed section of networks", packed, "SECTIONS"),
        sections("an optional section of networks", optional, "SECTIONS", RESERVED),
        sections(
            "networks without the header's flag", lambda found: None, "SECTIONS", errors.SectionRangeError, 0
        ),
        sections("the header's flag without networks", lambda found: found.__delitem__(3), "SECTIONS"),
        sections("networks of a raw recording", lambda found: None, "HEADER", RESERVED, HEADER_FLAG_JOINT | 1),
        sections(
            "encrypted networks without the message",
            lambda found: None,
            "SECTIONS",
            SECTION,
            HEADER_FLAG_JOINT | 2,
        ),
        sections(
            "networks that all reach the whole image, as in older joint traces",
            lambda found: resize(found, lambda data: data[: 2 * ROW]),
            "HEADER",
            errors.VersionError,
            HEADER_FLAG_OLD_JOINT,
        ),
        sections(
            "an older joint trace and a newer one",
            lambda found: None,
            "HEADER",
            errors.VersionError,
            HEADER_FLAG_OLD_JOINT | HEADER_FLAG_JOINT,
        ),
        sections("networks twice", lambda found: found.insert(4, found[3]), "SECTIONS", errors.SectionRangeError),
        sections("networks in the body", lambda found: found.append(found.pop(3)), "SECTIONS"),
        sections("networks before the hashes", lambda found: found.insert(2, found.pop(3)), "SECTIONS"),
        action("a mapping of the next network's pages", A, 0, "RANGE", RANGE, b=IMAGE_PAGES + PAGES),
        action("a mapping that ends in the next one's pages", A, 0, "RANGE", RANGE, b=IMAGE_PAGES + PAGES - 1),
        action("a mapping of the network before", B, 0, "RANGE", RANGE, b=IMAGE_PAGES),
        action("a mapping that begins in the one before", B, 0, "RANGE", RANGE, b=IMAGE_PAGES + PAGES - 1),
        action("reading the network before", B, 0, "RANGE", RANGE, flags=MAP_READ, b=IMAGE_PAGES + PAGES - 4),
        action(
            "a mapping from the image over the one before", B, 0, "RANGE", RANGE, flags=MAP_READ, b=0, value=30
        ),
        action("writing to the image", B, 0, "RANGE", RANGE, flags=MAP_READ | MAP_WRITE, b=0, value=1),
        action("an upload to the network before", B, 3, "RANGE", RANGE, a=4 * PAGE),
        action("an upload that ends in the next network", A, 3, "RANGE", RANGE, a=16 * PAGE - 50),
        action("clearing the next network", A, 3, "RANGE", RANGE, op=Op.CLEAR, value=PAGE, a=16 * PAGE, b=0),
        action("input of the next network", A, 5, "RANGE", RANGE, arg=2),
        action("output of the network before", B, 8, "RANGE", RANGE, arg=1),
        action("a second ReplayStart of a network", B, 5, "NETWORKS", BAD, op=Op.REPLAY_START, arg=0),
        action("a network without a ReplayStart", B, START, "NETWORKS", BAD, op=Op.COPY_TO_GPU, arg=2),
        action("jobs that are counted anew", B, 6, "ACTION", errors.ActionError, value=0),
    ],
    good,
) + rows(
    [
        # Pages of the image of `s.apart`: a's, of both, b's; then a's working memory.
        image("mapping the next network's page of the image", A, 2),
        image("mapping the page of the network before", B, 0),
        image("a mapping of the image that ends in the next network's page", A, 1, 2),
        image("a mapping of the image that begins in the page of the network before", B, 0, 2),
        image("a mapping of the whole image", A, 0, 3),
        image("a mapping of the whole image by the last network", B, 0, 3),
        image("a mapping of the image that goes on in working memory, over the next one's page", A, 0, 5),
        image("a mapping of the next one's page and of working memory", A, 2, 5),
        source("an upload of the next network's page", A, 2 * PAGE),
        source("an upload of the page of the network before", B, 0),
        source("an upload that ends in the next network's page", A, 2 * PAGE - 50),
        source("an upload of the next network's first byte", A, 2 * PAGE - 99),
        source("an upload that begins in the page of the network before", B, PAGE - 50),
        source("an upload of the last byte of the network before", B, PAGE - 1),
        source("an upload of the whole image", A, 0, 3 * PAGE),
        reach("a page of the image that is nobody's", 1, 0),
        reach("the first page, nobody's", 0, 0),
        reach("the last page, nobody's", 2, 0),
        reach("a page of a network that is not there", 1, 1 << 2, host=RESERVED),
        reach("a page of one more network than there are", 2, 7, host=RESERVED),
        reach("a page of the last network that there can be", 0, 0x81, host=RESERVED),
        reach("a network's page that is said to be the next one's", 0, 1 << B, "RANGE", RANGE),
        reach("a network's page that is said to be that of the one before", 2, 1 << A, "RANGE", RANGE),
        row(
            "an image a page shorter, to have a reach for working memory",
            (A, "first_page", 2),
            (A, "page_count", PAGES),
        ),
    ],
    s.apart,
)
GOOD: tuple[Hostile, ...] = (
    *rows(
        [
            ("good: pages of the image apart", lambda parts: parts, "OK", Unseen("nothing is wrong")),
            ("good: all pages shared", lambda parts: parts.reach(0, 3).reach(2, 3), "OK", Unseen("it is said")),
        ],
        s.apart,
    ),
    *rows([("good: two networks", lambda parts: parts, "OK", Unseen("nothing is wrong"))], good),
    *rows([("good: exclusive networks", lambda parts: parts, "OK", Unseen("nothing is wrong"))], exclusive),
    *rows([("good: eight networks", lambda parts: parts, "OK", Unseen("nothing is wrong"))], lambda: s.joint(8)),
    *rows(
        [
            ("good: times", only((A, "predicted_us", HUGE), (A, "longest_job_us", HUGE)), "OK", Unseen("right")),
            ("good: limits", only((B, "priority", 255), (B, "period_us", HUGE)), "OK", Unseen("right")),
        ],
        good,
    ),
)
