# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks of a firmware that takes joint traces: networks that reach what is another's, and two
good ones that take turns, of which none may do anything while the GPU has the other's page tables.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.model import joining
from host_tools.runners.mailbox import Extra
from tests.campaign import cases
from tests.campaign.cases import TIMES, V3D, Attempt, Case, Turns
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Parts
from trace_format import packing, profile
from trace_format.actions import ALL_BITS, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.schema.mailbox import MAILBOX_REQUEST
from trace_format.trace import Trace

NETWORKS, QUEUE = 2, 2  # of the firmware
A, B = range(2)
FIRST_PAGE, PAGES = 1, 15  # working memory of a, which follows the image, and of b, which follows that
TABLE_PAGES = 2  # of each network on a V3D: the page table, and the scratch page
ORDER = (A, B, A, B)  # who asks for a replay
JOBS = 2  # of each replay
STARTS = (0x00510000, 0x00A20000)  # with which each network starts its jobs
NOBODY = 0x70  # a value with which no network starts a job
WHENEVER = (1 << 64) - 1
START = action(Op.REPLAY_START)
# Actions of a network that do what is edited to be another's.
OWN_PAGES = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, a=0x18, frame=s.MEMORY_PAGE)
OWN_MEMORY = action(Op.CLEAR, bytes=64, target=s.MEMORY_PAGE * PAGE)


def joint(gpu: str, *more: Action) -> Trace:
    """Two networks, each of which maps memory, does `more` and writes the mark."""
    rows = [joining.Joining(name, cases.sample(gpu, *more, START)) for name in "ab"]
    return joining.joint(rows, "small").trace


def good(*more: Action) -> Callable[[str], Attempt]:
    return lambda gpu: Attempt(s.signed(joint(gpu, *more)))


def hostile(own: Action, field: str, value: int) -> Callable[[str], Attempt]:
    """The last network does something several times, each with another value of a field."""

    def made(gpu: str) -> Attempt:
        trace = joint(gpu, *[own] * TIMES)
        parts, first = Parts.of(trace), trace.networks[B].first_action
        for index in range(first, trace.networks[B].end_action):
            if trace.actions[index]["op"] == own.op and index >= first + 2:
                parts = parts.action(index, **{field: value})
        return Attempt(parts.signed())

    return made


def overlapping(gpu: str) -> Attempt:
    """The last network's memory is that of the first, and as long as both."""
    parts = Parts.of(joint(gpu)).network(B, "first_page", FIRST_PAGE).network(B, "page_count", 2 * PAGES)
    return Attempt(parts.signed())


def of_one(gpu: str) -> Attempt:
    """The last network's actions are the first one's, too."""
    return Attempt(Parts.of(joint(gpu)).network(B, "first_action", 0).network(B, "replay_start", 2).signed())


def turns(gpu: str) -> Attempt:
    """Requests for both, in turns; each network starts its jobs with a value of its own."""
    begins, starts = (profile.load(gpu).register(f"core0.CSD_QUEUED_CFG{index}") for index in (1, 0))
    rows = []
    for number, name in enumerate("ab"):
        work = []
        for job in range(JOBS):
            work += [
                action(Op.REG_WRITE, register=begins.index, value=NOBODY, mask=ALL_BITS),
                action(Op.JOB, number=job),
                action(Op.REG_WRITE, register=starts.index, value=STARTS[number], mask=ALL_BITS),
                # So that a write under a mask of nothing does not find the other network's value.
                action(Op.REG_WRITE, register=starts.index, value=NOBODY, mask=ALL_BITS),
            ]
        trace = s.trace(
            *s.PROLOGUE[:2], START, *work, gpu=gpu, image=cases.IMAGE, slots=[], meta=cases.sample(gpu).meta
        )
        rows.append(joining.Joining(name, trace))
    trace = joining.joint(rows, "small").trace
    first = trace.carveout_bytes // PAGE
    roots = [first + number * TABLE_PAGES for number in range(NETWORKS)]
    return Attempt(
        s.signed(trace),
        trace=trace,
        turns=Turns(
            ORDER,
            starts.name,
            "hub.MMU_PT_PA_BASE",
            tuple(zip(STARTS, roots, strict=True)),
        ),
    )


def requests(order: tuple[int, ...]) -> list[Extra]:
    """Room for the answers to requests."""
    return [Extra(MAILBOX_REQUEST, bytes(packing.size_of("mailbox_answer")))] * len(order)


def ask(memory: bytearray, order: tuple[int, ...], places: tuple[int, ...]) -> None:
    """Make the mailbox's buffers requests for networks."""
    for index, (network, at) in enumerate(zip(order, places, strict=True)):
        fields = {"slot": MAILBOX_REQUEST, "step": network, "offset": at, "bytes": WHENEVER}
        row = packing.pack("mailbox_buffer", fields)
        start = packing.size_of("mailbox_request") + index * len(row)
        memory[start : start + len(row)] = row


def describe(attempt: Attempt, gpu: str, first_page: int) -> list[tuple[str, int, int, object]]:
    """Rows of a machine's description: what the driver writes besides, and whose tables go with whose jobs."""
    found = profile.load(gpu)
    rows: list[tuple[str, int, int, object]] = []
    if gpu == "v3d42":
        rows.append(("driver", found.register("hub.MMUC_CONTROL").offset, 0, ""))
    if attempt.turns:
        start, table = (found.register(name).offset for name in (attempt.turns.start, attempt.turns.table))
        for value, root in attempt.turns.roots:
            rows.append(("turn", start | table << 32, value | (first_page + root) << 32, ""))
    return rows


CASES = (
    Case("overlap", "signed: networks whose memory overlaps", "NETWORKS", overlapping, good()),
    Case("one-range", "signed: networks of the same actions", "NETWORKS", of_one, good()),
    Case(
        "others-pages",
        "signed: maps the other network's pages",
        "RANGE",
        hostile(OWN_PAGES, "b", FIRST_PAGE + s.MEMORY_PAGE),
        good(*[OWN_PAGES] * TIMES),
    ),
    Case(
        "others-memory",
        "signed: clears the other network's memory",
        "RANGE",
        hostile(OWN_MEMORY, "a", (FIRST_PAGE + s.MEMORY_PAGE) * PAGE),
        good(*[OWN_MEMORY] * TIMES),
    ),
    Case("turns", "good networks take turns", "OK", turns, good(), V3D),
)
# Functions that decide whose turn it is, and whose tables the GPU has.
TURNING: tuple[str, ...] = (
    *("gr_schedule_step", "gr_submit", "take_out", "put_back", "move", "place", "is_in_time", "left_us"),
    *("gr_step", "gr_take_over", "gr_prepare_network", "gr_leave", "has_started", "try_once"),
    *("gr_driver_switch", "gr_driver_set_table", "is_cleared", "execute_range", "is_checkpoint", "under_way"),
    *("write_register", "gr_bind", "serve_requests", "submit", "step", "answer", "gr_abandon", "gr_restart"),
)


def of(gpu: str) -> list[Case]:
    """The cases that a GPU has."""
    return [case for case in CASES if gpu in case.gpus]
