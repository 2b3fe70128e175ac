# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks of a firmware that takes joint traces: networks that reach what is another's, and two
good ones that take turns, of which none may do anything while the GPU has the other's page tables.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.extras.sharing import joining
from host_tools.families.family import family_of
from host_tools.runners.mailbox import Extra
from tests.campaign import cases
from tests.campaign.cases import MALI, TIMES, V3D, Attempt, Case, Turns
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, Parts
from trace_format import packing, profile
from trace_format.actions import ALL_BITS, FLAG_RESUME, MAP_READ, MAP_WRITE, Action, Op, action
from trace_format.schema.mailbox import MAILBOX_REQUEST
from trace_format.trace import Trace

A, B = range(2)
FIRST_PAGE, PAGES = 1, 15  # working memory of a, which follows the image, and of b, which follows that
ORDER = (A, B, A, B)  # who asks for a replay
JOBS = 2  # of each replay
OWNERS = (0x00510000, 0x00A20000)  # of jobs: a value for each network
NOBODY = 0x70  # a value that is neither's
READS = {"mali_g71": {"js0.COMMAND_NEXT": 0}}  # a job starts at once
WHENEVER, SOON = (1 << 64) - 1, 1_000_000  # us
PREDICTED = 100_000  # us, of a replay
# Registers of a job: whose value tells whose it is, which starts it, and which has the tables' place.
JOB = {
    "v3d42": ("core0.CSD_QUEUED_CFG0", "core0.CSD_QUEUED_CFG0", "hub.MMU_PT_PA_BASE"),
    "mali_g71": ("js0.HEAD_NEXT_LO", "js0.COMMAND_NEXT", "as0.TRANSTAB_LO"),
}
BEGINS = "core0.CSD_QUEUED_CFG1"  # of a V3D: before it a step ends; a Mali's ends before Job
GO = 1  # js0.COMMAND_NEXT
# What registers have before: a hostile kernel's tables. And those with which a job reaches no memory.
BEGUN = {
    "v3d42": {"hub.MMU_PT_PA_BASE": cases.TABLE_BASE, "hub.MMU_CTL": cases.MMU_ON},
    "mali_g71": {"as0.TRANSTAB_LO": cases.TABLE_BASE, "as0.TRANSCFG_LO": 6},
}
OFF: dict[str, dict[str, int]] = {"v3d42": {}, "mali_g71": {"as0.TRANSCFG_LO": 1}}
START, RESUME = action(Op.REPLAY_START), action(Op.REPLAY_START, flags=FLAG_RESUME)
# Actions of a network that do what is edited to be another's.
OWN_PAGES = action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, a=0x18, frame=s.MEMORY_PAGE)
OWN_MEMORY = action(Op.CLEAR, bytes=64, target=s.MEMORY_PAGE * PAGE)
OWN_IMAGE = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, a=0x18, frame=1)
OWN_SOURCE = action(Op.UPLOAD, bytes=64, target=s.MEMORY_PAGE * PAGE, source=PAGE)


def joint(gpu: str, *more: Action) -> Trace:
    """Two networks, each of which maps memory, does `more` and writes the mark."""
    rows = [joining.Joining(name, cases.sample(gpu, *more, START)) for name in "ab"]
    return joining.joint(rows, "small").trace


def apart(gpu: str, *more: Action) -> Trace:
    """The same, each with a page of the image to itself: page 0 is of both, 1 is a's, 2 is b's."""
    rows = []
    for name in "ab":
        sample = cases.sample(gpu, *more, START)
        image = bytes(sample.image).ljust(PAGE, b"\0") + name.encode() * PAGE
        rows.append(joining.Joining(name, sample.with_(image=image)))
    return joining.joint(rows, "small").trace


def good(*more: Action, joined: Callable[..., Trace] = joint) -> Callable[[str], Attempt]:
    return lambda gpu: Attempt(s.signed(joined(gpu, *more)))


def hostile(
    own: Action, field: str, value: int, joined: Callable[..., Trace] = joint, network: int = B
) -> Callable[[str], Attempt]:
    """A network does something several times, each with another value of a field; the first one runs."""

    def made(gpu: str) -> Attempt:
        trace = joined(gpu, *[own] * TIMES)
        parts, first = Parts.of(trace), trace.networks[network].first_action
        for index in range(first, trace.networks[network].end_action):
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


def work(gpu: str, owner: int) -> list[Action]:
    """Jobs of a network, each of which says by a value whose it is."""

    def write(name: str, value: int) -> Action:
        return action(Op.REG_WRITE, register=profile.load(gpu).register(name).index, value=value, mask=ALL_BITS)

    whose, starts, _ = JOB[gpu]
    found = []
    for number in range(JOBS):
        found += [write(BEGINS, NOBODY)] if gpu in V3D else []
        found += [action(Op.JOB, number=number), write(whose, owner)]
        found += [write(starts, GO)] if starts != whose else []
        # So that a write under a mask of nothing does not find the other network's value.
        found.append(write(whose, NOBODY))
    return found


def part(gpu: str, start: Action, owner: int) -> Trace:
    """A trace that maps memory and does the jobs of a network."""
    actions = (*s.PROLOGUE[:2], start, *work(gpu, owner))
    return s.trace(*actions, gpu=gpu, image=cases.IMAGE, slots=[], meta=cases.sample(gpu).meta)


def alone(gpu: str) -> Attempt:
    """One network, after a kernel that has left its page tables in the GPU."""
    trace = part(gpu, START, OWNERS[A])
    found = Turns((), (), *JOB[gpu], ((OWNERS[A], trace.carveout_bytes // PAGE),))
    return Attempt(s.signed(trace), reads=READS.get(gpu, {}), trace=trace, turns=found)


def taking_turns(start: Action, within: tuple[int, ...]) -> Callable[[str], Attempt]:
    """Requests for both, in turns."""

    def made(gpu: str) -> Attempt:
        parts = [part(gpu, start, owner) for owner in OWNERS]
        rows = [joining.Joining(name, one, PREDICTED) for name, one in zip("ab", parts, strict=True)]
        trace = joining.joint(rows, "small").trace
        tables = family_of(trace.profile).page_tables
        roots, at = [], trace.carveout_bytes
        for one in parts:
            roots.append(at // PAGE)
            at += tables.device_bytes(one)
        found = Turns(ORDER, within, *JOB[gpu], tuple(zip(OWNERS, roots, strict=True)))
        return Attempt(s.signed(trace), reads=READS.get(gpu, {}), trace=trace, turns=found)

    return made


def requests(order: tuple[int, ...]) -> list[Extra]:
    """Room for the answers to requests."""
    return [Extra(MAILBOX_REQUEST, bytes(packing.size_of("mailbox_answer")))] * len(order)


def ask(memory: bytearray, turns: Turns, places: tuple[int, ...]) -> None:
    """Make the mailbox's buffers requests for networks."""
    for index, (network, at) in enumerate(zip(turns.order, places, strict=True)):
        fields = {"slot": MAILBOX_REQUEST + network, "step": 0, "offset": at, "bytes": turns.within[network]}
        row = packing.pack("mailbox_buffer", fields)
        start = packing.size_of("mailbox_request") + index * len(row)
        memory[start : start + len(row)] = row


def describe(attempt: Attempt, gpu: str, first_page: int) -> list[tuple[str, int, int, object]]:
    """Rows of a machine's description: what the driver writes besides, and whose tables go with whose jobs."""
    found = profile.load(gpu)
    rows: list[tuple[str, int, int, object]] = []
    if gpu == "v3d42":
        for name in (
            "hub.MMUC_CONTROL",
            *(f"core0.CTL_{name}" for name in ("L2TFLSTA", "L2TFLEND", "L2TCACTL", "SLCACTL")),
        ):
            rows.append(("driver", found.register(name).offset, 0, ""))
    if attempt.turns:
        turns = attempt.turns
        whose, start, table = (found.register(name).offset for name in (turns.whose, turns.start, turns.table))
        rows.append(("start", start, 0, ""))
        for kind, values in (("begin", BEGUN[gpu]), ("off", OFF[gpu])):
            rows += [(kind, found.register(name).offset, value, "") for name, value in values.items()]
        for value, root in turns.roots:
            place = first_page + root
            if gpu in MALI:
                place = place * PAGE & ALL_BITS  # the lower half of an address; a V3D has the page
            rows.append(("turn", whose | table << 32, value | place << 32, ""))
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
    Case(
        "others-image",
        "signed: maps the other network's page of the image",
        "RANGE",
        hostile(OWN_IMAGE, "b", 2, apart, A),
        good(*[OWN_IMAGE] * TIMES, joined=apart),
    ),
    Case(
        "others-source",
        "signed: uploads the other network's page of the image",
        "RANGE",
        hostile(OWN_SOURCE, "b", 2 * PAGE, apart, A),
        good(*[OWN_SOURCE] * TIMES, joined=apart),
    ),
    Case("turns", "good networks take turns", "OK", taking_turns(START, (WHENEVER, WHENEVER)), good(), V3D),
    # Here a change of networks is a reset, after which registers are set again.
    Case(
        "away", "a good network goes on after another", "OK", taking_turns(RESUME, (WHENEVER, SOON)), good(), MALI
    ),
)
# Of firmware for one network.
ALONE = (Case("left-tables", "a good trace after a kernel that has left page tables", "OK", alone, cases.good),)
# Functions that decide whose turn it is, and whose tables the GPU has.
TURNING: tuple[str, ...] = (
    *("gr_schedule_step", "gr_submit", "take_out", "put_back", "move", "place", "is_in_time"),
    *("set_registers", "is_of_memory", "gr_driver_begins_job", "gr_resumes", "gr_driver_reset"),
    *("gr_step", "gr_take_over", "gr_prepare", "gr_needs_reset", "gr_leave", "gr_goes_away", "has_started"),
    *("gr_try_once", "run_prologue", "gr_attempt_begins", "gr_come_back", "gr_goes_on_with", "gr_may_try_again"),
    *("gr_driver_switch", "gr_driver_set_table", "is_cleared", "execute_range", "gr_step_ends", "gr_job_begins"),
    *("write_register", "gr_bind", "gr_progress_of", "read_buffers", "replay", "submit", "step", "answer"),
    *("gr_abandon", "gr_restart"),
)


def of(gpu: str) -> list[Case]:
    """The cases that a GPU has."""
    return [case for case in CASES if gpu in case.gpus]
