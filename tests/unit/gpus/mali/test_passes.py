# SPDX-License-Identifier: BSD-2-Clause
"""Passes over register accesses of a Mali: power states, status words, flush ids, address spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.passes.listing import PASSES
from tests.support.mali_chains import GPU, POLL_US, Area, power_on, read, set_table, submit, trace, wait, write
from tests.support.mali_samples import job_header
from trace_format.actions import (
    ACTION_DTYPE,
    ALL_BITS,
    FLAG_IGNORE,
    MAP_READ,
    Action,
    Op,
    action,
    actions_of,
    array_of,
)
from trace_format.trace import Trace

START = action(Op.REPLAY_START)
READY, TRANSITION, REQUEST, OFF = (f"gpu.SHADER_{n}_LO" for n in ("READY", "PWRTRANS", "PWRON", "PWROFF"))
L2_READY, L2_REQUEST = "gpu.L2_READY_LO", "gpu.L2_PWRON_LO"
OTHER = write("job.IRQ_CLEAR", 2)
RESET = write("gpu.COMMAND", 1)
JOB = submit(0x1000)
JS1 = "js1.FLUSH_ID_NEXT"


def stream(*rows: Action) -> Trace:
    return Trace("mali_g71", np.array(list(rows), ACTION_DTYPE), b"", 4096, 1 << 48, raw=True)


def after(step: str, *rows: Action) -> list[Action]:
    found = PASSES[step](stream(*rows))
    assert not found.raw
    return list(actions_of(found.actions))


def keep(which: int = 0) -> Action:
    return action(Op.REG_READ_KEEP, register=GPU.register("gpu.LATEST_FLUSH").index, keep=which)


def kept(which: int = 0) -> Action:
    return action(Op.REG_WRITE_KEPT, register=GPU.register(JS1).index, keep=which)


def idle(space: int = 0) -> Action:
    return wait(f"as{space}.STATUS", 0, 1)


def test_other_gpus_are_left_alone() -> None:
    other = Trace("v3d42", array_of([action(Op.REG_READ_ONCE, register=3, flags=FLAG_IGNORE)]), b"", 4096, 1 << 20)
    for step in ("power-states", "reset-waits", "status-reads", "flush-ids", "address-spaces"):
        assert PASSES[step](other) is other


# power-states: rows before, rows after.
POWER = {
    "a request, a transition, the final value": (
        [write(REQUEST, 255), read(READY, 0), read(TRANSITION, 255), read(READY, 255), read(TRANSITION, 0)],
        [write(REQUEST, 255), wait(READY, 255), wait(TRANSITION, 0)],
    ),
    "where the final value was first seen": (
        [write(REQUEST, 1), read(READY, 1), OTHER, read(READY, 1), read(READY, 1), OTHER],
        [write(REQUEST, 1), wait(READY, 1), OTHER, OTHER],
    ),
    "a value that was left again is not final": (
        [write(REQUEST, 1), read(READY, 1), read(READY, 0), OTHER, read(READY, 1)],
        [write(REQUEST, 1), OTHER, wait(READY, 1)],
    ),
    "the first reads, without a request": ([read(READY, 0), OTHER, read(READY, 0)], [wait(READY, 0), OTHER]),
    "no request since: dropped": (
        [write(REQUEST, 1), read(READY, 1), write(L2_REQUEST, 1), read(READY, 1), read(READY, 1), OTHER],
        [write(REQUEST, 1), wait(READY, 1), write(L2_REQUEST, 1), OTHER],
    ),
    "a request of nothing is none": (
        [read(READY, 1), write(REQUEST, 0), OTHER, read(READY, 1)],
        [wait(READY, 1), write(REQUEST, 0), OTHER],
    ),
    "off and on": (
        [read(READY, 1), write(OFF, 1), read(READY, 0), write(REQUEST, 1), read(READY, 1)],
        [wait(READY, 1), write(OFF, 1), wait(READY, 0), write(REQUEST, 1), wait(READY, 1)],
    ),
    "a reset forgets": (
        [read(READY, 0), RESET, read(READY, 0), OTHER, read(READY, 0)],
        [wait(READY, 0), RESET, wait(READY, 0), OTHER],
    ),
    "a hard reset too, other commands do not": (
        [read(READY, 0), write("gpu.COMMAND", 2), read(READY, 0), write("gpu.COMMAND", 3), read(READY, 0)],
        [wait(READY, 0), write("gpu.COMMAND", 2), wait(READY, 0), write("gpu.COMMAND", 3)],
    ),
    "requests that overlap": (
        [
            write(L2_REQUEST, 1),
            write(REQUEST, 255),
            read(READY, 0),
            read(L2_READY, 1),
            read(TRANSITION, 255),
            read(READY, 255),
            read(TRANSITION, 0),
        ],
        [write(L2_REQUEST, 1), write(REQUEST, 255), wait(L2_READY, 1), wait(READY, 255), wait(TRANSITION, 0)],
    ),
    "waits as reads": (
        [write(REQUEST, 1), wait(TRANSITION, 0), OTHER, wait(TRANSITION, 0), read(READY, 1)],
        [write(REQUEST, 1), wait(TRANSITION, 0), OTHER, wait(READY, 1)],
    ),
    "between replays": (
        [read(READY, 1), START, OTHER, read(READY, 1), *JOB, read(READY, 1)],
        [wait(READY, 1), START, OTHER, *JOB],
    ),
    "all else stays": (
        [read("gpu.GPU_ID", 1), keep(), read("gpu.SHADER_PWRACTIVE_LO", 1), read("gpu.SHADER_PRESENT_LO", 255)],
        [read("gpu.GPU_ID", 1), keep(), read("gpu.SHADER_PWRACTIVE_LO", 1), read("gpu.SHADER_PRESENT_LO", 255)],
    ),
}


@pytest.mark.parametrize(("before", "expected"), POWER.values(), ids=POWER.keys())
def test_power_states(before: list[Action], expected: list[Action]) -> None:
    assert after("power-states", *before) == expected
    assert after("power-states", *expected) == expected, "again it changes nothing"


STATE = "gpu.IRQ_RAWSTAT"
DONE_RESET = wait(STATE, 0x100, 0x100)
RESETS_SEEN = {
    "at once": ([RESET, read(STATE, 0x700)], [RESET, DONE_RESET]),
    "after a while": (
        [RESET, read(STATE, 0), read(STATE, 0), read(STATE, 0x100), OTHER],
        [RESET, DONE_RESET, OTHER],
    ),
    "by an interrupt": ([RESET, OTHER, read(STATE, 0x100)], [RESET, OTHER, read(STATE, 0x100)]),
    "later": ([RESET, read(STATE, 0x100), read(STATE, 0x100)], [RESET, DONE_RESET, read(STATE, 0x100)]),
    "no reset": ([write("gpu.COMMAND", 7), read(STATE, 0)], [write("gpu.COMMAND", 7), read(STATE, 0)]),
}


@pytest.mark.parametrize(("before", "expected"), RESETS_SEEN.values(), ids=RESETS_SEEN.keys())
def test_resets(before: list[Action], expected: list[Action]) -> None:
    def long(row: Action) -> Action:
        return row.with_(timeout_us=10_000) if row.op == Op.REG_READ_WAIT else row

    expected = [long(row) for row in expected]
    assert after("reset-waits", *before) == expected
    assert after("reset-waits", *expected) == expected, "again it changes nothing"


EVENTS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from([READY, TRANSITION, L2_READY]), st.sampled_from([0, 1, 255])),
    st.tuples(
        st.just("write"), st.sampled_from([REQUEST, OFF, L2_REQUEST, "gpu.COMMAND"]), st.sampled_from([0, 1])
    ),
    st.tuples(st.just("write"), st.just("job.IRQ_CLEAR"), st.just(2)),
)


@given(st.lists(EVENTS, max_size=40))
def test_between_two_requests_the_last_recorded_value_is_waited_for_once(
    events: list[tuple[str, str, int]],
) -> None:
    """Unless it is known since before: a request is a border, a reset is one that forgets."""
    rows = [(read if kind == "read" else write)(name, value) for kind, name, value in events]
    found = after("power-states", *rows)
    assert [r for r in found if r.op == Op.REG_WRITE] == [r for r in rows if r.op == Op.REG_WRITE]
    waits = list(_sections(found, Op.REG_READ_WAIT))
    known: dict[int, int] = {}
    for (last, forgets), got in zip(_sections(rows, Op.REG_READ_ONCE), waits, strict=True):
        if forgets:
            known = {}
        finals = {row.register: row.expected for row in last}
        expected = {index: value for index, value in finals.items() if known.get(index) != value}
        assert Counter(row.register for row in got[0]) == Counter(list(expected))
        assert {row.register: row.expected for row in got[0]} == expected
        assert all((row.mask, row.timeout_us) == (ALL_BITS, POLL_US) for row in got[0])
        known |= finals


def _sections(rows: list[Action], op: Op) -> Iterator[tuple[list[Action], bool]]:
    """Actions of a kind between requests and resets, and whether the section begins with a reset."""
    requests = {GPU.register(name).index for name in (REQUEST, OFF, L2_REQUEST)}
    section: list[Action] = []
    forgets = False
    for row in rows:
        if row.op == op:
            section.append(row)
        reset = row.op == Op.REG_WRITE and row.register == GPU.register("gpu.COMMAND").index and row.value == 1
        if reset or (row.op == Op.REG_WRITE and row.register in requests and row.value):
            yield section, forgets
            section, forgets = [], bool(reset)
    yield section, forgets


def test_of_an_interrupts_service_wait_status_and_clear_stay() -> None:
    service = [
        action(Op.WAIT_IRQ, line=0, timeout_us=1),
        read("job.IRQ_STATUS", 2),
        write("job.IRQ_CLEAR", 2),
        read("job.JS_STATE", 0),
        read("job.IRQ_RAWSTAT", 0),
    ]
    ignored = action(Op.REG_READ_ONCE, register=GPU.register("js1.TAIL_LO").index, flags=FLAG_IGNORE)
    others = [wait("job.IRQ_RAWSTAT", 2), read("gpu.GPU_ID", 5), read("js1.STATUS", 1), keep(), kept()]
    writes = [write("job.IRQ_MASK", FLAG_IGNORE)]
    assert after("status-reads", *service, ignored, *others, *writes) == [*service[:3], *others, *writes]


KEPT = {
    "read again before it is used": ([keep(), OTHER, keep(), kept()], [OTHER, keep(), kept()]),
    "used twice": ([keep(), kept(), OTHER, kept()], [keep(), kept(), OTHER, kept()]),
    "never used": ([OTHER, keep(), OTHER], [OTHER, OTHER]),
    "each for itself": ([keep(0), keep(1), kept(0)], [keep(0), kept(0)]),
    "used by the replays, read in the prologue": (
        [keep(), START, kept(), OTHER],
        [keep(), START, kept(), OTHER],
    ),
    "read in the prologue, and in the replay": (
        [keep(), START, keep(), keep(), kept()],
        [keep(), START, keep(), kept()],
    ),
    "read at the end, used by the next replay": (
        [keep(), START, kept(), OTHER, keep()],
        [keep(), START, kept(), OTHER, keep()],
    ),
    "of two at the end the next replay has the last": (
        [keep(), START, kept(), keep(), OTHER, keep()],
        [keep(), START, kept(), OTHER, keep()],
    ),
    "read at the end, and again by the next replay": (
        [START, keep(), kept(), kept(), keep()],
        [START, keep(), kept(), kept()],
    ),
}


@pytest.mark.parametrize(("before", "expected"), KEPT.values(), ids=KEPT.keys())
def test_flush_ids(before: list[Action], expected: list[Action]) -> None:
    assert after("flush-ids", *before) == expected


KEEPS = st.tuples(st.booleans(), st.integers(0, 1)).map(lambda x: (keep if x[0] else kept)(x[1]))


@given(st.lists(KEEPS, max_size=8), st.lists(KEEPS, max_size=12))
def test_every_use_has_the_value_that_it_had(prologue: list[Action], replayed: list[Action]) -> None:
    """The values written in three replays, a value being the number of the read that it is of."""

    def used(rows: list[Action], names: dict[int, int]) -> list[int | None]:
        at = rows.index(START)
        values: dict[int, int] = {}
        found = []
        for run in range(3):
            for i in range(0 if run == 0 else at, len(rows)):
                if rows[i].op == Op.REG_READ_KEEP:
                    values[rows[i].keep] = run << 16 | names[i]
                elif rows[i].op == Op.REG_WRITE_KEPT:
                    found.append(values.get(rows[i].keep))
        return found

    rows = [*prologue, START, *replayed]
    # numbers the pass carries along, where reads have no operand
    rows = [row._replace(value=i if row.op == Op.REG_READ_KEEP else 0) for i, row in enumerate(rows)]
    found = after("flush-ids", *rows)
    names = [{i: row.value for i, row in enumerate(x)} for x in (rows, found)]
    assert used(found, names[1]) == used(rows, names[0])


# address-spaces: prologue and replayed part before, and after.
SET0, SET3 = set_table(0), set_table(3)
UPDATE0, UPDATE3 = [idle(), SET0[1], idle()], [idle(3), SET3[1], idle(3)]
LOCK = [write("as0.LOCKADDR_LO", 0x3F), write("as0.LOCKADDR_HI", 0), write("as0.COMMAND", 2)]
FLUSH_PT, FLUSH_MEM = write("as0.COMMAND", 4), write("as0.COMMAND", 5)
SPACES = {
    "set in the replay": ([OTHER], [*SET0, idle(), OTHER], [OTHER, SET0[0], *UPDATE0], [OTHER]),
    "set again in the replay": ([*SET0], [*SET0, idle(), OTHER], [*SET0], [OTHER]),
    "set in the prologue, updated in the replay": ([SET0[0]], [SET0[1], OTHER], [SET0[0], *UPDATE0], [OTHER]),
    "set twice in the replay": ([], [*SET0, OTHER, *SET0, *JOB], [SET0[0], *UPDATE0], [OTHER, *JOB]),
    "two spaces": (
        [*SET3],
        [*SET0, *SET3, OTHER, write("as3.COMMAND", 2), idle(3)],
        [*SET3, SET0[0], *UPDATE0],
        [OTHER],
    ),
    "two spaces in the replay": ([], [*SET3, *SET0, OTHER], [SET3[0], *UPDATE3, SET0[0], *UPDATE0], [OTHER]),
    "TLB maintenance": ([*SET0], [idle(), *LOCK, idle(), FLUSH_PT, idle(), OTHER], [*SET0], [OTHER]),
    "a flush of caches stays with its wait": (
        [*SET0],
        [idle(), *LOCK, idle(), FLUSH_MEM, OTHER, idle(), *LOCK, idle()],
        [*SET0],
        [FLUSH_MEM, OTHER, idle()],
    ),
    "a flush whose end was polled": (
        [*SET0],
        [FLUSH_MEM, read("as0.STATUS", 1), read("as0.STATUS", 1), read("as0.STATUS", 0), OTHER],
        [*SET0],
        [FLUSH_MEM, idle(), OTHER],
    ),
    "a flush in another space": (
        [*SET0, *SET3],
        [write("as3.COMMAND", 5), idle(0), idle(3), FLUSH_MEM, idle(0)],
        [*SET0, *SET3],
        [write("as3.COMMAND", 5), idle(3), FLUSH_MEM, idle(0)],
    ),
    "other registers": (
        [*SET0],
        [keep(), kept(), read("gpu.GPU_ID", 4), read("as0.FAULTSTATUS", 0), *JOB],
        [*SET0],
        [keep(), kept(), read("gpu.GPU_ID", 4), *JOB],
    ),
}


@pytest.mark.parametrize(("prologue", "replayed", "first", "rest"), SPACES.values(), ids=SPACES.keys())
def test_address_spaces(
    prologue: list[Action], replayed: list[Action], first: list[Action], rest: list[Action]
) -> None:
    expected = [*first, START, *rest]
    assert after("address-spaces", *prologue, START, *replayed) == expected
    assert after("address-spaces", *expected) == expected, "again it changes nothing"


MAP = action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, address_space=0, va_page=1)
UNMAP = action(Op.UNMAP_GPU_MEM, pages=1, address_space=0, va_page=1)


@pytest.mark.parametrize("row", [MAP, UNMAP, RESET, write("gpu.COMMAND", 2)], ids=["map", "unmap", "soft", "hard"])
def test_where_address_spaces_change_between_jobs_they_stay_as_they_are(row: Action) -> None:
    """A reset switches them off, too."""
    source = stream(MAP, *SET0, START, *JOB, row, *SET0, FLUSH_PT, idle(), *JOB)
    assert PASSES["address-spaces"](source).actions.tolist() == source.actions.tolist()
    source = stream(MAP, RESET, *SET0, START, *JOB, write("gpu.COMMAND", 3), *SET0, *JOB)
    assert len(PASSES["address-spaces"](source).actions) < len(source.actions)


def test_a_trace_that_is_replayed_whole_is_left_alone() -> None:
    source = stream(MAP, *SET0, *JOB, *LOCK, idle(), FLUSH_PT, idle(), *JOB)
    assert PASSES["address-spaces"](source) is source


def test_making_mappings_once_keeps_a_malis_commands() -> None:
    """What flushes its caches are commands of the same register as what flushes its TLBs."""
    jobs = Area(0x1000, data=job_header(kind=1))
    source = trace([jobs], submit(0x1000), [FLUSH_MEM, idle()], submit(0x1000), prologue=power_on() + SET0)

    def commands(found: Trace) -> list[Action]:
        return [row for row in actions_of(found.actions) if row.op <= Op.REG_WRITE]

    assert commands(PASSES["map-once"](source)) == commands(source)


def test_repeated_flushes_of_an_address_space_are_one() -> None:
    """With no job in between the second has nothing to flush; flushes of other spaces are other ones."""
    flush = [write("as0.COMMAND", 5), idle()]
    other = [write("as1.COMMAND", 5), idle(1)]
    assert after("cache-maintenance", *flush, *flush, *flush) == flush
    assert after("cache-maintenance", *flush, *other, *flush) == flush + other + flush
    job = [action(Op.JOB)]
    assert after("cache-maintenance", *flush, *job, *flush, *flush) == flush + job + flush
    unlike = [write("as0.COMMAND", 4), idle()]
    assert after("cache-maintenance", *flush, *unlike, *flush) == flush + unlike + flush
