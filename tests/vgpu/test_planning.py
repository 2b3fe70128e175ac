# SPDX-License-Identifier: BSD-2-Clause
"""Working memory of a V3D: pages share a place while jobs never use two of them, and only where that is proved."""

from __future__ import annotations

import itertools

import numpy as np

from host_tools.gpus.v3d.planning import written_back
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from tests.support.small_jobs import CLEAR, IN, INPUT, OUT, OUTPUT, UPLOAD, Job, settled, slot, small
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action, actions_of, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

WORK = [OUTPUT + PAGE_BYTES * (2 + 2 * i) for i in range(3)]  # of a page each, none beside another
MAPS = tuple(
    action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, va_page=va // PAGE_BYTES, frame=5 + i)
    for i, va in enumerate(WORK)
)
IN_A_ROW: tuple[Job, ...] = tuple(
    ("add", a, a, b) for a, b in itertools.pairwise([INPUT, *WORK, OUTPUT])
)  # 16 times the input


def network(*jobs: Job, first: tuple[Action, ...] = (UPLOAD, CLEAR), **options: object) -> Trace:
    return settled(small(*(jobs or IN_A_ROW), once=MAPS, first=first, **options))  # type: ignore[arg-type]


def sharing(trace: Trace) -> set[tuple[int, int]]:
    """Pairs of pages of WORK that lie in one place, by number."""
    mappings = Memory.of(trace).mappings
    at = {page: m.frame for (_, page), m in mappings.items()}
    pairs = itertools.combinations(range(len(WORK)), 2)
    return {(a, b) for a, b in pairs if at[WORK[a] // PAGE_BYTES] == at[WORK[b] // PAGE_BYTES]}


def test_pages_share_that_no_job_uses_at_the_same_time() -> None:
    raw = network()
    built = build(raw)
    built.check()
    assert sharing(built) == {(0, 2)}
    assert built.carveout_bytes == build(raw, skip=["plan-memory"]).carveout_bytes - PAGE_BYTES
    values = {"in": np.arange(16, dtype=np.int32) * 1000 - 7}
    assert difference(raw, built, values, replays=2) == ""
    with interpreter(built) as run:
        assert np.array_equal(run.run(values)["out"], values["in"] * 16)


def test_a_page_is_free_while_it_holds_nothing() -> None:
    """The first one is written again before it is read again, as where an allocator gives an address twice."""
    a, b, c = WORK
    places = [INPUT, a, b, c, b, a, OUTPUT]
    raw = network(*(("add", one, one, other) for one, other in itertools.pairwise(places)))
    built = build(raw)
    built.check()
    assert sharing(built) == {(0, 2)}
    values = {"in": np.arange(16, dtype=np.int32) * 1000 - 7}
    assert difference(raw, built, values, replays=2) == ""


def test_what_saves_little_is_left_as_it_is() -> None:
    """Slots of eight pages more: one page of so many is not worth its actions."""
    raw = network()
    more = [action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=8, va_page=0x30, frame=8)]
    large = Slot("large", SlotKind.INPUT, DType.INT32, (8 * PAGE_BYTES // 4,), (4,), 0x30 * PAGE_BYTES)
    start = int(np.flatnonzero(raw.actions["op"] == Op.MAP_GPU_MEM)[0])
    actions = np.concatenate([raw.actions[:start], array_of(more), raw.actions[start:]])
    raw = raw.with_(actions=actions, slots=[*raw.slots, large], carveout_bytes=16 * PAGE_BYTES)
    assert sharing(build(raw)) == set()


def test_a_trace_is_planned_once() -> None:
    once = build(network())
    assert build(once).build() == once.build()


def test_nothing_shares_where_writes_are_not_waited_for() -> None:
    """What the first page's job wrote could still come out of a cache."""
    raw = small(*IN_A_ROW, once=MAPS)
    assert sharing(build(raw)) == set()


def test_each_step_of_the_writing_back_counts() -> None:
    raw = network()
    rows = list(actions_of(raw.actions))
    assert written_back(rows, raw.profile) == len(IN_A_ROW)
    last = max(at for at, row in enumerate(rows) if row.op == Op.WAIT_IRQ)
    needed = [last, last + 4, last + 5]  # the interrupt, the command, its end
    for at in needed:
        assert written_back(rows[:at] + rows[at + 1 :], raw.profile) == 0
    assert written_back(rows[:last], raw.profile) == 0


def test_content_shares_with_none() -> None:
    """A page of which a job reads what was there before: zeros that the recording has."""
    clear = action(Op.CLEAR, bytes=64, target=7 * PAGE_BYTES)
    jobs = (*IN_A_ROW[:2], ("add", WORK[1], WORK[2], WORK[2]), ("add", WORK[2], WORK[2], OUTPUT))
    assert sharing(build(network(*jobs, first=(UPLOAD, CLEAR, clear)))) == set()
    assert sharing(build(network(first=(UPLOAD, CLEAR, clear)))) == {(0, 2)}, "nothing reads it"


def test_slots_share_with_none() -> None:
    middle = slot("middle", SlotKind.OUTPUT, WORK[2])
    assert sharing(build(network(slots=(IN, middle, OUT)))) == set()


def test_what_jobs_may_access_that_are_not_proved_shares_with_none() -> None:
    """A table is read where data says."""
    jobs = (*IN_A_ROW[:3], ("gather", INPUT, WORK[2], OUTPUT))
    assert sharing(build(network(*jobs))) == set()
    jobs = (*IN_A_ROW[:2], ("gather", INPUT, WORK[1], WORK[2]), IN_A_ROW[3])
    assert sharing(build(network(*jobs))) == set()


def test_relocation_keeps_the_plan() -> None:
    raw = network()
    planned = raw
    for name in ("read-only", "dead-memory", "plan-memory"):
        planned = PASSES[name](planned)
    assert sharing(planned) == {(0, 2)}
    assert sharing(PASSES["relocate"](planned)) == {(0, 2)}
