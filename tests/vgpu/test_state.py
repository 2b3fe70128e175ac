# SPDX-License-Identifier: BSD-2-Clause
"""State: memory that outlasts a replay, in plain Python, on the replayer's core and in its firmware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools import runners
from host_tools.accesses.observe import proved, watched
from host_tools.audit.dynamic import lint_dynamic
from host_tools.model.frames import Page
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.runners.replay import InputError, ReplayResult, RunnerError
from host_tools.vgpu.binding import ACCESS_COMMAND
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.sampling import few
from tests.support.small_jobs import CLEAR, IN, INPUT, OUTPUT, SCRATCH, UPLOAD, slot, small
from trace_format.actions import Columns, Op
from trace_format.errors import SectionError, SlotError
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Ints = NDArray[np.int32]
Spans = list[tuple[int, int]]
WORDS = IN.shape[0]
SUM = slot("sum", SlotKind.INPUT, SCRATCH)
X = replace(IN, name="x")
FIRST = np.arange(100, 100 + WORDS, dtype=np.int32)
BATCHES = np.random.default_rng(5).integers(-1000, 1000, (6, WORDS), np.int32)
BOTH = ("sum", "sum_next")
in_two_places = pytest.mark.parametrize("in_place", [True, False], ids=["in place", "copied"])


def sums(in_place: bool) -> Trace:
    """sum_next = sum + x, where sum is zeros; in place there is another output, of its double."""
    left = slot("sum_next", SlotKind.OUTPUT, SCRATCH if in_place else OUTPUT)
    double = slot("double", SlotKind.OUTPUT, OUTPUT)
    if in_place:
        jobs = ("add", INPUT, SCRATCH, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT)
        return small(*jobs, first=(UPLOAD, CLEAR), slots=(X, SUM, left, double))
    return small(("add", INPUT, SCRATCH, OUTPUT), first=(UPLOAD, CLEAR), slots=(X, SUM, left))


def kept(in_place: bool, *open_slots: str) -> Trace:
    return build(sums(in_place), states={"sum": "sum_next"}, open_slots=open_slots)


def run(on: str, trace: Trace, batches: Ints = BATCHES, each: Sequence[str] = (), **inputs: Ints) -> ReplayResult:
    options = {"repeat": len(batches), "series": {"x": batches}, "each": frozenset(each)}
    result = runners.run(on, Delivery(s.signed(trace)), s.KEY, inputs, **options)
    assert result.ok, result.error
    return result


def test_what_a_replay_leaves_is_given_to_the_next() -> None:
    """One replay does not prove what a job accesses that state decides (host_tools/accesses/proof.py)."""
    trace = kept(in_place=True)
    state = {frame: page.state for frame, page in Memory.of(trace).pages.items() if page.has_state}
    given = [(frame, part) for frame, part in watched(trace).given if frame in state]
    assert state
    masks = [part for _, part in given if not isinstance(part, slice)]
    assert all(any(np.array_equal(part, mask) for part in masks) for mask in state.values())
    jobs = watched(sums(in_place=True)).jobs
    decided = [
        replace(job, varies=False, accesses={min(state): np.full(PAGE_BYTES, ACCESS_COMMAND, np.uint8)})
        for job in jobs
    ]
    assert proved(decided, ()) == [True] * len(jobs)
    assert proved(decided, given) == [False] * len(jobs)


@pytest.mark.sampled(2)
@in_two_places
@pytest.mark.parametrize("on", ["vgpu", "unicorn"])
def test_replays_add_up(on: str, in_place: bool) -> None:
    trace = kept(in_place, *BOTH)
    assert trace.meta["retry_limit"] == 0
    callers = [slot for slot in trace.slots if slot.kind != SlotKind.INTERNAL]
    assert {(slot.name, slot.kind) for slot in callers if slot.name in BOTH} == {
        ("sum", SlotKind.PARAMETER),
        ("sum_next", SlotKind.OUTPUT),
    }
    assert np.array_equal(run(on, trace).outputs["sum_next"], BATCHES.sum(0))
    found = run(on, trace, sum=FIRST, each=("sum_next",)).outputs["sum_next"]
    assert np.array_equal(found, FIRST + BATCHES.cumsum(0))


@in_two_places
def test_the_second_opinion(in_place: bool) -> None:
    """The interpreter goes on in the same way, and begins anew when another value is given."""
    with interpreter(kept(in_place, *BOTH)) as device:
        for first in (FIRST, FIRST * 2):
            for number, batch in enumerate(BATCHES, 1):
                outputs = device.run({"x": batch, "sum": first})
                assert np.array_equal(outputs["sum_next"], first + BATCHES[:number].sum(0))


@pytest.mark.parametrize("on", ["vgpu", "unicorn"])
def test_state_that_callers_neither_set_nor_see(on: str) -> None:
    """Only what the program makes of it comes out."""
    trace = kept(True)
    assert [(slot.name, slot.kind) for slot in trace.slots] == [("x", SlotKind.INPUT), ("double", SlotKind.OUTPUT)]
    assert np.array_equal(run(on, trace, each=("double",)).outputs["double"], 2 * BATCHES.cumsum(0))
    assert [slot.kind for slot in kept(False).slots] == [SlotKind.INPUT, SlotKind.INTERNAL, SlotKind.INTERNAL]
    with pytest.raises(InputError, match="no input 'sum'; there are: x"):
        run(on, trace, sum=FIRST)


@in_two_places
def test_a_first_value_that_is_not_the_recorded_one(in_place: bool) -> None:
    trace = build(sums(in_place), states={"sum": "sum_next"}, open_slots=BOTH[1:], first={"sum": FIRST})
    found = run("vgpu", trace, each=("sum_next",)).outputs["sum_next"]
    assert np.array_equal(found, FIRST + BATCHES.cumsum(0))
    with pytest.raises(SlotError, match="slot x belongs to no state, so it has no first value; there are: sum"):
        build(sums(in_place), states={"sum": "sum_next"}, first={"x": FIRST})


@pytest.mark.sampled(4)
@in_two_places
@pytest.mark.parametrize("left_out", [None, *PASSES])
def test_every_pass_leaves_it(left_out: str | None, in_place: bool) -> None:
    """With each pass left out, and all others after one another."""
    trace = build(
        sums(in_place), states={"sum": "sum_next"}, open_slots=BOTH, skip=(left_out,) if left_out else ()
    )
    with interpreter(trace) as device:
        found = [device.run({"x": batch})["sum_next"].copy() for batch in BATCHES[:3]]
    assert np.array_equal(found, BATCHES[:3].cumsum(0))


def test_nothing_fills_it_in_a_replay() -> None:
    """Only where the state is; what lies beside it is filled as before."""
    trace = kept(True)
    page = Memory.of(trace).mappings[0, SCRATCH // PAGE_BYTES].frame * PAGE_BYTES
    state = range(page, page + SUM.dense_bytes)
    columns = Columns(trace.actions)
    fills = columns.is_op(Op.UPLOAD, Op.CLEAR) & (columns.target < state.stop)
    fills &= columns.target + columns.bytes > state.start
    start = int(np.flatnonzero(columns.is_op(Op.REPLAY_START))[0])
    assert np.count_nonzero(fills[:start]) == 1
    assert not fills[start:].any()


def test_what_is_bound_sets_it_anew() -> None:
    """A parameter that is bound again, and users that follow one another: nothing of the earlier ones is left."""
    with s.virtual(kept(True, *BOTH)) as device:
        total = device.bind("sum_next", np.zeros(WORDS, np.int32))
        device.bind("x", BATCHES[0].copy())
        for _ in range(2):
            device.replayer.run()
        assert np.array_equal(total, 2 * BATCHES[0])
        device.bind("sum", FIRST.copy())
        device.replayer.run()
        assert np.array_equal(total, FIRST + BATCHES[0])
        device.replayer.restart()
        device.replayer.run()
        assert np.array_equal(total, FIRST + BATCHES[0])
        device.replayer.unload()
        assert not any(device.memory[:])


A, B = slot("a", SlotKind.INPUT, SCRATCH), slot("b", SlotKind.INPUT, OUTPUT)
TWO_SUMS = {"b": "b_next", "a": "a_next"}


def two_sums(b_next: int) -> Trace:
    """a_next = a + x, left where b was, and b_next = b + x."""
    jobs = ("add", INPUT, OUTPUT, b_next), ("add", INPUT, SCRATCH, OUTPUT)
    left = slot("a_next", SlotKind.OUTPUT, OUTPUT), slot("b_next", SlotKind.OUTPUT, b_next)
    return small(*jobs, first=(UPLOAD, CLEAR), slots=(X, A, B, *left))


@pytest.mark.parametrize("on", ["vgpu", "unicorn"])
def test_a_value_that_lies_where_another_goes_is_copied_first(on: str) -> None:
    trace = build(two_sums(OUTPUT + 0x100), states=TWO_SUMS, open_slots=TWO_SUMS.values())
    outputs = run(on, trace, each=("a_next", "b_next")).outputs
    for name in ("a_next", "b_next"):
        assert np.array_equal(outputs[name], BATCHES.cumsum(0))


masks = st.lists(st.tuples(st.integers(0, PAGE_BYTES - 1), st.integers(1, 900)), max_size=4)


@few(40, 100)
@given(masks, masks, st.integers(0, 2**32))
def test_a_model_with_state_is_read_again(state: Spans, more: Spans, seed: int) -> None:
    """Which bytes the prologue fills, and with what, comes back from the trace."""
    memory = Memory.of(sums(True))
    frame = memory.mappings[0, SCRATCH // PAGE_BYTES].frame
    page = memory.pages[frame] = Page.blank(frame)
    generator = np.random.default_rng(seed)
    for spans, keeps in ((more, False), (state, True)):
        for at, size in spans:
            part = slice(at, min(at + size, PAGE_BYTES))
            page.put(part, generator.integers(0, 2, part.stop - at, np.uint8))
            page.keep(part, keeps)
    wanted, live = page.state.copy(), page.live.copy()
    content = page.content.copy()
    read = Memory.of(memory.emit())
    again = read.pages[read.mappings[0, SCRATCH // PAGE_BYTES].frame]  # it moves where the image grows over it
    assert np.array_equal(again.state, wanted)
    assert again.live[live].all()
    assert np.array_equal(again.content[live], content[live])


def test_lint_says_that_there_is_state() -> None:
    """By its own rule, where no retry can undo it; otherwise it is a leak, as any memory that is not cleared."""
    trace = kept(True, *BOTH)
    found = {finding.rule.id for finding in lint_dynamic(trace)[0]}
    assert "GR709" in found
    assert not found & {"GR701", "GR702"}
    found = {finding.rule.id for finding in lint_dynamic(trace.with_(meta={**trace.meta, "retry_limit": 1}))[0]}
    assert {"GR701", "GR702"} <= found
    assert "GR709" not in found


def changed(*slots: Slot) -> Trace:
    return replace(sums(False), slots=list(slots))


LEFT, TWO = sums(False).slots[2], two_sums(OUTPUT + 0x100)
REFUSED = {
    "no such input": (sums(False), {"nothing": "sum_next"}, (), "no slot 'nothing'; there are: x, sum, sum_next"),
    "no such output": (sums(False), {"sum": "y"}, (), "no slot 'y'"),
    "an output goes in": (sums(False), {"sum_next": "x"}, (), "an input or parameter, found output"),
    "an input comes out": (sums(False), {"sum": "x"}, (), "expected an output, found input"),
    "in each other's place": (
        two_sums(SCRATCH),
        TWO_SUMS,
        (),
        "state: of b, a, each overlaps the next value of another",
    ),
    "two in one place": (
        replace(TWO, slots=[X, A, replace(B, address=SCRATCH), *TWO.slots[3:]]),
        TWO_SUMS,
        (),
        "slots b and a overlap",
    ),
    "used twice": (sums(False), {"sum": "sum_next", "x": "sum_next"}, (), "slot sum_next is used twice"),
    "of another size": (
        changed(X, SUM, replace(LEFT, shape=(8,))),
        {"sum": "sum_next"},
        (),
        r"slot sum_next cannot be the next value of sum: expected int32 \[16\], found int32 \[8\]",
    ),
    "overlapping": (
        changed(X, SUM, replace(LEFT, address=SCRATCH + 4)),
        {"sum": "sum_next"},
        (),
        "slots sum and sum_next overlap",
    ),
    "without a value": (changed(X, replace(SUM, bound=False), LEFT), {"sum": "sum_next"}, (), "no value to begin"),
    "open, but no state": (sums(False), {"sum": "sum_next"}, ("x",), "slot x belongs to no state"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept(case: str) -> None:
    trace, states, open_slots, said = REFUSED[case]
    with pytest.raises(SlotError, match=said):
        build(trace, states=states, open_slots=open_slots)


def test_what_is_kept_already() -> None:
    trace = kept(False, *BOTH)
    with pytest.raises(SlotError, match="slot sum is state already"):
        build(trace, states={"sum": "sum_next"})


def test_series_that_do_not_fit() -> None:
    trace = kept(True)
    with pytest.raises(InputError, match=r"shape \(6, 16\), found int32 of shape \(5, 16\)"):
        runners.run("vgpu", Delivery(s.signed(trace)), s.KEY, repeat=6, series={"x": BATCHES[:5]})
    with pytest.raises(InputError, match="no output 'x'; there are: double"):
        run("vgpu", trace, each=("x",))
    with pytest.raises(InputError, match="input x: one value for all replays, or one for each, not both"):
        run("vgpu", trace, x=FIRST)
    with pytest.raises(RunnerError, match="series cannot be used on optee-linux: all replays of a boot"):
        run("optee-linux", trace)


def test_states_that_a_recording_notes() -> None:
    """`build` keeps them without being asked, and the trace does not say it again."""
    raw = sums(True)
    raw = raw.with_(notes={**raw.notes, "states": {"sum": "sum_next"}})
    trace = build(raw)
    assert np.array_equal(run("vgpu", trace, each=("double",)).outputs["double"], 2 * BATCHES.cumsum(0))
    assert "states" not in trace.notes
    wrong: object
    for wrong in ([], {"sum": 5}, "x"):
        with pytest.raises(SectionError, match="notes: states: expected names of slots, found"):
            build(raw.with_(notes={"states": wrong}))


def test_open_slots_without_state() -> None:
    with pytest.raises(SlotError, match="slot x belongs to no state, and the recording has none"):
        build(sums(True), open_slots=["x"])
