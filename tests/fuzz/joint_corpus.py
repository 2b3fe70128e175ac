# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for the core with joint traces, steps and a queue of requests: scenes of records (c/core.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.fuzz.core_corpus import (
    JOB,
    REPEATED,
    START,
    Kind,
    Number,
    edit,
    number,
    raw,
    reads_as,
    record,
    slot,
    step,
)
from trace_format import profile
from trace_format.actions import FLAG_RESUME, Op

PAGE = 4096
IMAGE_PAGES, PAGES = 2, 3  # of the image; of each network's working memory, which follows it
NEVER = (1 << 64) - 1
# Fields of a network by their number (row of the section NETWORKS, in words).
FIRST_ACTION, REPLAY_START, END_ACTION, FIRST_SLOT, SLOT_COUNT, FIRST_PAGE, PAGE_COUNT, FLAGS = range(8, 16)
RETRY_LIMIT, TIME_BUDGET = 20, 21


def end(predicted_us: int = 50, how: int = 0, hidden: int = 0) -> bytes:
    """The end of a network; `hidden`: pages of the image that it does not reach, a bit for each."""
    return record(Kind.NETWORK, 0, struct.pack("<III", predicted_us, 0, hidden), how)


def bad_end(field: int, value: int) -> bytes:
    """One whose row says something else."""
    return record(Kind.NETWORK, field, struct.pack("<II", 50, value), 1)


def call(what: int, first: int = 0, second: int = 0, due: int = NEVER, how: int = 0) -> bytes:
    """A call about requests: 4 selects, 5 steps, 6 submits, 7 serves, 8 withdraws, 9 yields."""
    return record(Kind.STEP, what, struct.pack("<IIQ", first, second, due), how)


def joint_scenes(gpu: str) -> Iterator[tuple[str, bytes]]:
    """Two networks, of two jobs each, and callers with requests for them."""
    found = profile.load(gpu)
    mali = gpu.startswith("mali")

    def write(name: str, value: int = 1) -> bytes:
        return raw(Op.REG_WRITE, 0, found.register(name).index, value, 0xFFFFFFFF)

    job = JOB + write("js0.COMMAND_NEXT") if mali else write("core0.CSD_QUEUED_CFG1") + JOB
    job += raw(Op.WAIT_IRQ, 0, 0, 1000)
    work = [IMAGE_PAGES + PAGES * index for index in range(3)]

    def network(
        index: int,
        *,
        page: int | None = None,
        slots: int | None = None,
        target: int | None = None,
        image: tuple[int, int] = (0, IMAGE_PAGES),
        source: int = 0,
    ) -> bytes:
        """A network; `page`, `slots`, `target`: other memory and slots than its own; `image`: first page of the
        image that it maps, and how many; `source`: page that it uploads from."""
        page = work[index] if page is None else page
        target = work[index] if target is None else target
        first = 2 * index if slots is None else slots
        code = raw(Op.MAP_GPU_MEM, 5 if mali else 1, 0, image[1], 0, image[0])
        made = slot(1, 8 * PAGE) + slot(2, 8 * PAGE) + code + raw(Op.MAP_GPU_MEM, 3, 0, PAGES, 8, page)
        made += raw(Op.SET_GPU_PGTABLE) + raw(Op.UPLOAD, 0, 0, 64, PAGE * target, PAGE * source)
        return made + START + raw(Op.COPY_TO_GPU, 0, first) + job + job + raw(Op.COPY_FROM_GPU, 0, first + 1)

    def resumed(index: int, *, repeats: bool = True) -> bytes:
        """A network that goes on, and whose jobs can be repeated."""
        code = network(index).replace(START, raw(Op.REPLAY_START, FLAG_RESUME))
        return code.replace(JOB, REPEATED) if repeats else code

    a, b = network(0), network(1)
    both = a + end() + b + end()
    select, serve, give = [call(4, index) for index in range(2)], call(7), call(9)
    ask_a, ask_b = call(6, 0, how=2), call(6, 1, how=2)
    bind, run = step(0), step(2)
    yield "runs", both + bind + select[0] + run + select[1] + run + select[0] + run
    yield "requests", both + ask_a + ask_b + serve * 8
    yield "in-between", both + ask_a + serve + call(6, 1, due=5_000_000, how=2) + serve * 8
    yield "full", both + (ask_a + ask_b) * 5 + serve * 24
    taken = call(8, 0) + serve + call(8, 1) + call(8, 0, 7, how=1)
    yield "withdrawn", both + ask_a + ask_b + serve + taken + ask_a
    yield "given-away", both + ask_a + ask_b + serve + give + serve + give + serve * 8
    yield "steps", both + bind + (select[0] + call(5) + select[1] + call(5)) * 3 + give
    dated = [call(6, network, due=due) for network, due in ((0, 1), (1, 2_000_000_000), (0, 2_000_000_001))]
    yield "late", both + b"".join(dated) + serve * 6
    yield "bound-meanwhile", both + bind + ask_a + serve + bind + step(1, 1) + serve * 4
    yield "runs-meanwhile", both + ask_a + ask_b + serve + bind + run + select[1] + run + serve * 4
    yield "after-a-request", both + ask_a + serve * 4 + select[0] + run
    yield "other-size", both + call(6, 0, 0, how=6) + call(6, 0x101, 0, how=6) + serve
    yield "other-slot", both + call(6, 0, 2, how=10) + call(6, 1, 1, how=10) + call(6, 0, 999, how=10) + serve
    yield "no-network", both + call(6, 2, how=1) + call(6, 0xFFFFFFFF, how=3) + call(4, 2, how=1) + serve
    yield "unloaded", both + ask_a + ask_b + serve
    yield "slow", both + number(Number.CLOCK_STEP, 30) + (ask_a + ask_b) * 2 + serve * 12
    fault = number(Number.RETRIES, 2) + number(Number.IRQ_PATTERN, 0xFFFFFFFFFFFFFFED)
    yield "retries", both + fault + ask_a + ask_b + serve * 12
    late = network(1).replace(START, b"") + START + end()
    odd = number(Number.RETRIES, 2) + number(Number.IRQ_PATTERN, 0x15)
    yield "retries-of-a-prologue", a + end() + late + odd + ask_b + serve * 4
    yield "no-retries", both + number(Number.IRQ_PATTERN, 2) + ask_a + ask_b + serve * 8
    works = found.register("js0.STATUS" if mali else "core0.CSD_STATUS").offset
    yield "busy", both + reads_as(works, 8 if mali else 0xFF, 2) + ask_a + ask_b + serve * 8
    go_on = resumed(0, repeats=False) + end() + resumed(1) + end()
    yield "goes-on", go_on + ask_a + ask_b + (serve + give) * 10
    yield "one-goes-on", resumed(0) + end() + b + end() + ask_a + ask_b + (serve + give) * 8
    yield "goes-on-with-steps", go_on + bind + (select[0] + call(5) + give + select[1] + call(5)) * 4
    yield "repeats", go_on + fault + ask_a + ask_b + serve * 12
    yield "repeats-alone", resumed(0) + fault + ask_a + (serve + give) * 9
    gone = resumed(0).replace(raw(Op.REPLAY_START, FLAG_RESUME), b"")
    yield "repeats-without-a-start", gone + fault + ask_a + serve * 9
    together = resumed(0) + end(how=2) + resumed(1).replace(struct.pack("<I", work[1]), struct.pack("<I", work[0]))
    yield "exclusive-goes-on", together + end(how=2) + ask_a + ask_b + (serve + give) * 8
    shared = a + end(how=2) + network(1, page=work[0], target=work[0]) + end(how=2)
    yield "exclusive", shared + ask_a + ask_b + serve * 8
    three = number(Number.CARVEOUT_PAGES, IMAGE_PAGES + 3 * PAGES) + both + network(2) + end()
    yield "three", three + ask_a + ask_b + call(6, 2, how=2) + serve * 12
    yield "nine", both + end() * 7 + serve
    yield "alone", network(0) + end() + run
    yield "without-a-section", network(0) + bind + run + ask_a + serve * 4
    yield "packed", both + number(Number.CODECS, 0xFF) + ask_a + serve * 4
    # hostile, and signed
    tried = ask_a + ask_b + serve * 6
    yield "others-page", a + end() + network(1, page=work[0]) + end() + tried
    yield "others-page-too", network(0, page=work[0] + 1) + end() + b + end() + tried
    yield "others-slots", a + end() + network(1, slots=0) + end() + tried
    yield "others-slots-too", network(0, slots=2) + end() + b + end() + tried
    yield "others-memory", a + end() + network(1, target=work[0]) + end() + tried
    yield "others-memory-too", network(0, target=work[1]) + end() + b + end() + tried
    yield "image", a + end() + network(1, page=1) + end() + tried
    first, second = network(0, image=(0, 1)), network(1, image=(1, 1), source=1)
    yield "image-apart", first + end(hidden=2) + second + end(hidden=1) + tried
    yield "others-image", first + end(hidden=2) + network(1, source=1) + end(hidden=1) + tried
    yield "others-image-too", a + end(hidden=2) + second + end(hidden=1) + tried
    yield "others-image-uploaded", first + end(hidden=2) + network(1, image=(1, 1)) + end(hidden=1) + tried
    yield "others-image-uploaded-too", network(0, image=(0, 1), source=1) + end(hidden=2) + b + end() + tried
    yield "nobodys-image", first + end(hidden=2) + first + end(hidden=2) + tried
    yield "no-start", a + end() + raw(Op.INTERVAL) + end() + tried
    yield "two-starts", a + START + end() + b + end() + tried
    for name, field, value in (
        ("first-action", FIRST_ACTION, 1),
        ("replay-start", REPLAY_START, 0),
        ("end-action", END_ACTION, 0xFFFFFFFF),
        ("first-slot", FIRST_SLOT, 0),
        ("slot-count", SLOT_COUNT, 3),
        ("first-page", FIRST_PAGE, work[0]),
        ("in-the-image", FIRST_PAGE, 1),
        ("page-count", PAGE_COUNT, PAGES + 1),
        ("pages-wrap", PAGE_COUNT, 0xFFFFFFFF),
        ("flags", FLAGS, 1),
        ("retry-limit", RETRY_LIMIT, 9),
        ("no-budget", TIME_BUDGET, 0),
    ):
        yield name, a + end() + b + bad_end(field, value) + tried
        yield f"{name}-too", a + bad_end(field, value) + b + end() + tried
    yield "no-flag", both + edit(0, 38, 0) + tried
    yield "reserved", both + edit(6, 120, 1, 0) + tried
