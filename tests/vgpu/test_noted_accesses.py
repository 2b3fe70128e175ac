# SPDX-License-Identifier: BSD-2-Clause
"""What a recording says of its jobs' accesses: what running them shows, and nothing once they are others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.accesses import noted_accesses, observe
from host_tools.accesses.noted_accesses import NOTE, Noted, Run, computing, noted
from host_tools.accesses.proof import Job
from host_tools.model.memory import Memory
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.vgpu.binding import ACCESS_COMMAND
from tests.support.networks import COMMITTED
from tests.support.observation import before_observation
from tests.support.sampling import few
from trace_format.actions import Columns, Op, actions_of, array_of
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

# The other GPU is the one whose notes test_note_check.py changes.
V3D = (pytest.param("v3d42", marks=pytest.mark.exhaustive), "v3d71")


@pytest.fixture(scope="module", params=V3D)
def raw(request: pytest.FixtureRequest) -> Trace:
    return Trace.read(COMMITTED[request.param])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """GPUs on which a recording is run from now on."""
    found: list[str] = []
    watched = observe._replayed

    def counted(trace: Trace, *rest: Any) -> observe.Watched:
        found.append(trace.gpu)
        return watched(trace, *rest)

    monkeypatch.setattr(observe, "_replayed", counted)
    return found


def test_a_build_without_a_run_is_the_same(raw: Trace, runs: list[str]) -> None:
    noted_build = build(raw, trust_note=True)
    assert runs == []
    observed = build(raw.with_(notes={k: v for k, v in raw.notes.items() if k != NOTE}))
    assert runs
    assert noted_build.build() == observed.build()
    assert NOTE not in noted_build.notes


def test_a_run_can_be_asked_for(raw: Trace, runs: list[str]) -> None:
    program = Program(raw)
    program.forget_accesses()
    build(program)
    assert runs


def test_other_parameters_are_tried_where_a_job_is_not_proved(raw: Trace, runs: list[str]) -> None:
    slot = next(slot for slot in raw.slots if slot.kind == SlotKind.PARAMETER)
    assert not all(entry["proved"] for entry in raw.notes[NOTE])
    build(raw, parameters={slot.name: np.ones(slot.shape, np.float32)})
    assert runs


def test_the_note_is_what_a_run_shows(raw: Trace) -> None:
    """By page and byte, of the program that passes look at; what the code proves is said to be proved."""
    program = before_observation(raw)
    jobs = Noted(raw.notes[NOTE]).jobs(program.memory)
    assert jobs is not None
    seen = observe.watched(program.trace())
    assert len(jobs) == len(seen.jobs) == 14
    for job, expected in zip(jobs, seen.jobs, strict=True):
        assert job.varies == (expected.varies or seen.changes_commands)
        assert job.accesses.keys() == expected.accesses.keys()
        for frame, flags in job.accesses.items():
            np.testing.assert_array_equal(flags, expected.accesses[frame])


def _other_code(trace: Trace) -> Trace:
    """A byte that decides what a proved job does is another one."""
    jobs = Noted(trace.notes[NOTE]).jobs(before_observation(trace).memory)
    assert jobs
    frame, mask = next(iter(jobs[-1].commands))
    at = frame * PAGE_BYTES + int(np.argmax(mask))
    columns = Columns(trace.actions)
    which = columns.is_op(Op.UPLOAD) & (columns.target <= at) & (columns.target + columns.bytes > at)
    row = int(np.flatnonzero(which)[-1])
    image = bytearray(trace.image)
    image[columns.source[row] + at - columns.target[row]] ^= 1
    return trace.with_(image=bytes(image))


def _other_registers(trace: Trace) -> Trace:
    """The last job has another number of workgroups."""
    index = trace.profile.register("core0.CSD_QUEUED_CFG1").index
    columns = Columns(trace.actions)
    row = np.flatnonzero(columns.is_op(Op.REG_WRITE) & (columns.register == index))[-1]
    actions = list(actions_of(trace.actions))
    actions[row] = actions[row].with_(value=actions[row].value ^ 0x20000)
    return trace.with_(actions=array_of(actions))


def _job_less(trace: Trace) -> Trace:
    note = copy.deepcopy(trace.notes[NOTE])
    return trace.with_(notes={**trace.notes, NOTE: note[:-1]})


def _elsewhere(trace: Trace) -> Trace:
    """A job accesses what is not mapped."""
    note = copy.deepcopy(trace.notes[NOTE])
    note[3]["memory"].append("w 0xfffff000 4096")
    return trace.with_(notes={**trace.notes, NOTE: note})


def _input_over_code(trace: Trace) -> Trace:
    """An input lies over what decides."""
    memory = before_observation(trace).memory
    jobs = Noted(trace.notes[NOTE]).jobs(memory)
    assert jobs
    pages = dict(zip(memory.mappings.frames.tolist(), memory.mappings.pages.tolist(), strict=True))
    frame, mask = next(iter(jobs[-1].commands))
    address = pages[frame] * PAGE_BYTES + int(np.argmax(mask)) // 4 * 4
    over = [replace(s, address=address) if s.kind == SlotKind.INPUT else s for s in trace.slots]
    return trace.with_(slots=over)


@pytest.mark.parametrize("change", [_other_code, _other_registers, _job_less, _elsewhere, _input_over_code])
def test_a_note_of_other_jobs_is_not_believed(raw: Trace, change: Callable[[Trace], Trace]) -> None:
    assert before_observation(change(raw))._noted() is None
    assert before_observation(raw)._noted() is not None


def test_lists_that_stay_are_no_compute_jobs(raw: Trace) -> None:
    assert Noted(raw.notes[NOTE]).jobs(Memory.of(raw)) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: None,
        lambda _: {},
        lambda note: [*note, 5],
        lambda note: [{**note[0], "proved": 1}],
        lambda note: [{**note[0], "more": 1}],
        lambda note: [{"id": note[0]["id"], "proved": True}],
        lambda note: _with_runs(note, 7),
        *(
            lambda note, text=text: _with_runs(note, text)
            for text in (
                "",
                "fr",
                "x 0x0 4",
                " 0x0 4",
                "fr 0x0 0",
                "fr -4 4",
                "fr 0x0 4 2",
                "fr 0x0 4 1 8",
                "fr 0x0 4 2 3",
                "fr 0x0 4 2 8 2 8",
                "fr 0x0 4 2 8 2 16 2 32 2 64",
                "fr zero 4",
            )
        ),
    ],
)
def test_damaged_notes(damage: Callable[[Any], Any]) -> None:
    raw = Trace.read(COMMITTED["v3d42"])
    memory = before_observation(raw).memory
    note = damage(raw.notes[NOTE])
    if isinstance(note, list) and len(note) == 1:
        note += raw.notes[NOTE][1:]
    with pytest.raises(TraceError, match="the note 'accesses' is damaged"):
        Noted(note).jobs(memory)


def _with_runs(note: Any, text: object) -> Any:
    return [{**note[0], "memory": [text]}]


def test_a_run_of_absurd_size_takes_no_memory() -> None:
    raw = Trace.read(COMMITTED["v3d42"])
    memory = before_observation(raw).memory
    for text in (f"w 0x0 {1 << 80}", f"w 0x0 4 {1 << 60} 8", f"w 0x0 1 {1 << 31} 1"):
        assert Noted([*_with_runs(raw.notes[NOTE], text), *raw.notes[NOTE][1:]]).jobs(memory) is None


PAGES = 6
flags_of_pages = st.lists(
    st.tuples(st.integers(0, PAGES * PAGE_BYTES - 1), st.integers(1, 300), st.integers(1, 40), st.integers(1, 15)),
    max_size=8,
)


@few(40, 150, deadline=None)
@given(flags_of_pages, st.permutations(range(PAGES)))
def test_runs_say_every_byte(parts: list[tuple[int, int, int, int]], order: list[int]) -> None:
    """Runs, joined ones among them, bring back what they were made of, wherever pages lie."""
    flat = np.zeros(PAGES * PAGE_BYTES, np.uint8)
    for start, step, size, flags in parts:
        for at in range(start, min(start + 20 * step, len(flat)), step):
            flat[at : at + min(size, step)] = flags
    frames = {100 + page: order[page] for page in range(PAGES)}
    addresses = {frame: page * PAGE_BYTES for page, frame in frames.items()}
    pages = flat.reshape(-1, PAGE_BYTES)
    accesses = {frames[100 + page]: pages[page] for page in range(PAGES) if pages[page].any()}
    runs = noted_accesses._joined(noted_accesses._runs(Job(accesses, False), addresses))
    assert [noted_accesses._run(noted_accesses._text(run)) for run in runs] == runs
    found = noted_accesses._accesses(runs, frames, {})
    assert found is not None
    assert found.keys() == accesses.keys()
    for frame, expected in accesses.items():
        np.testing.assert_array_equal(found[frame], expected)


def test_a_tensor_is_one_run() -> None:
    """Every second column of every second row of some channels."""
    flat = np.zeros((4, 7, 8, 2, 4), np.uint8)
    flat[:, 0:6:2, :, 0] = ACCESS_COMMAND
    accesses = {7: np.pad(flat.reshape(-1), (0, PAGE_BYTES - flat.size))}
    [run] = noted_accesses._joined(noted_accesses._runs(Job(accesses, False), {7: 0x5000}))
    assert run == Run(ACCESS_COMMAND, 0x5000, 4, ((8, 8), (3, 128), (4, 448)))


def test_of_other_gpus_nothing_is_noted() -> None:
    raw = Trace.read(COMMITTED["mali_g71"])
    assert computing(Memory.of(raw)) is None
    assert NOTE not in raw.notes


def test_what_is_noted_of_a_recording_is_what_it_has(raw: Trace) -> None:
    """It says the same of the raw recording, in which lists signal fences, and of the program that passes made."""
    for trace in (raw, before_observation(raw).trace()):
        jobs = observe.watched(trace).jobs
        computes = computing(Memory.of(trace))
        assert computes is not None
        assert sum(computes) == 14
        proved = not observe.Watched(
            [j for j, is_one in zip(jobs, computes, strict=True) if is_one], []
        ).changes_commands
        assert noted(Memory.of(trace), jobs, proved=proved) == raw.notes[NOTE]
