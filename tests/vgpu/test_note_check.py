# SPDX-License-Identifier: BSD-2-Clause
"""A recording whose note on its jobs' accesses is a lie: nothing is built of it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.accesses import noted_accesses
from host_tools.accesses.noted_accesses import NOTE, Noted
from host_tools.accesses.observe import random_inputs, watched
from host_tools.accesses.proof import Job
from host_tools.demo.digits import load
from host_tools.model.interpreter import interpreter
from host_tools.passes.note_check import LEFT_OUT, NOT_CHECKED, check_note
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from tests.support.networks import COMMITTED
from tests.support.observation import before_observation
from tests.support.signing_commands import run
from tests.support.small_jobs import CONSTANTS, INPUT, OUTPUT, small
from trace_format.errors import TraceError
from trace_format.trace import Trace

Note = list[dict[str, Any]]
Lie = Callable[[Note, Trace], None]
# The other GPU is the one that test_noted_accesses.py reads notes of.
V3D = ("v3d42", pytest.param("v3d71", marks=pytest.mark.exhaustive))
WEIGHTS = "param5"  # of the last layer: one page, so that nothing faults
LAYER = 8  # which job that is
DIGITS = 10
REFUSED = "the note 'accesses' does not say what its jobs do: "


@pytest.fixture(scope="module", params=V3D)
def raw(request: pytest.FixtureRequest) -> Trace:
    return Trace.read(COMMITTED[request.param])


def lying(trace: Trace, lie: Lie) -> Trace:
    """The recording with a changed note."""
    note = copy.deepcopy(trace.notes[NOTE])
    lie(note, trace)
    return trace.with_(notes={**trace.notes, NOTE: note})


def _shorten(note: Note, address: int, size: int) -> None:
    """Jobs read so much of what they read from an address on."""
    found = [entry["memory"] for entry in note if any(_reads(text, address) for text in entry["memory"])]
    assert found
    for texts in found:
        texts[:] = [f"fr {address:#010x} {size}" if _reads(text, address) else text for text in texts]


def _reads(text: str, address: int) -> bool:
    return text.startswith(f"fr {address:#010x} ")


def shorter_read(note: Note, trace: Trace) -> None:
    """Of the last layer's weights only the first is read."""
    _shorten(note, trace.slot(WEIGHTS).address, 4)


def fewer_pages(note: Note, trace: Trace) -> None:
    """Of a larger layer's weights only the first page is read."""
    _shorten(note, trace.slot("param4").address, 4096)


def more_reads(note: Note, trace: Trace) -> None:
    """A job reads a byte that it does not: outputs stay the same."""
    note[LAYER]["memory"].append(f"fr {trace.slot(WEIGHTS).address + 4092:#010x} 4")


def written_first(note: Note, trace: Trace) -> None:
    """A job before writes the weights, so that their first values do not matter."""
    note[0]["memory"].append(f"w {trace.slot(WEIGHTS).address:#010x} {trace.slot(WEIGHTS).span}")


def nothing_decides(note: Note, trace: Trace) -> None:
    """No job has bytes that decide, so that all are proved, and ids are of registers alone."""
    for entry in note:
        entry["proved"] = True
        entry["memory"] = [text.replace("c ", " ", 1) for text in entry["memory"]]
    memory = before_observation(trace).memory
    starts = noted_accesses._starts(memory)
    assert starts is not None
    for entry, start in zip(note, starts, strict=True):
        assert start is not None
        entry["id"] = noted_accesses._identity(memory, Job({}, False), start, {})


@pytest.mark.parametrize(
    ("lie", "what"),
    [
        (
            shorter_read,
            rf"of \d+ bytes .* job {LAYER} does; the first is at GPU address 0x[0-9a-f]+ \(parameter {WEIGHTS}, "
            rf"element \[1\]\), which the job reads, and by the note does not access; largest difference of a "
            rf"replay with random inputs: output prob, element \[\d\]: [-.e\d]+ instead of [-.e\d]+; nothing was",
        ),
        (fewer_pages, r"a replay of what was built by it ends early: action \d+ \(\w+\): .*; nothing was written"),
        (more_reads, rf"of 4 bytes .* job {LAYER} does; .* does not access, and by the note reads; outputs of a"),
        (written_first, r"of 2560 bytes .* job 0 does; .* does not access, and by the note writes; largest"),
        (
            nothing_decides,
            r"(what job \d+ accesses is not proved|of \d+ bytes .* is decided by, and by the note reads); outputs",
        ),
    ],
    ids=["shorter", "pages", "more", "written", "nothing decides"],
)
def test_a_lie_is_refused(lie: Lie, what: str, raw: Trace) -> None:
    with pytest.raises(TraceError, match=re.escape(REFUSED) + what):
        build(lying(raw, lie))


def test_a_note_may_say_that_more_decides(raw: Trace) -> None:
    """As the notes of recorders do that cannot tell that a spilled register is its thread's own."""
    note = copy.deepcopy(raw.notes[NOTE])
    memory = before_observation(raw).memory
    note[LAYER]["memory"] = [text.replace("fr ", "frc ", 1) for text in note[LAYER]["memory"]]
    jobs, start = noted_accesses._read(note, memory.mappings), (noted_accesses._starts(memory) or [])[LAYER]
    assert jobs is not None
    assert start is not None
    addresses = noted_accesses._addresses(memory.mappings)
    note[LAYER]["id"] = noted_accesses._identity(memory, jobs[LAYER], start, addresses)
    assert build(raw.with_(notes={**raw.notes, NOTE: note})).jobs == raw.jobs


@pytest.mark.parametrize("shader", ["gather", "far", "branch"])
def test_what_a_caller_s_data_decides_is_not_proved(shader: str) -> None:
    """Each byte is as the note says in this replay, and would be another with another input."""
    built = small((shader, INPUT, CONSTANTS, OUTPUT))
    memory = before_observation(built).memory
    note = noted_accesses.noted(memory, watched(built, random_inputs(built, 1)).jobs, proved=False)
    assert note is not None
    check_note(built, memory.mappings, Noted(note), built.slots, None, {})
    note[0]["proved"] = True
    with pytest.raises(TraceError, match=re.escape(f"{REFUSED}what job 0 accesses is not proved; nothing was")):
        check_note(built, memory.mappings, Noted(note), built.slots, None, {})


def test_what_the_lie_would_do(raw: Trace) -> None:
    """The recording classifies as before, and what is built of it gives one answer to all digits."""
    digits = load()[:DIGITS]
    lie = lying(raw, shorter_read)
    answers = []
    for trace in (lie, build(lie, trust_note=True)):
        with interpreter(trace) as replay:
            answers.append([int(np.argmax(replay.run({"data": data})["prob"])) for data in digits.inputs()])
    assert answers[0] == digits.labels.tolist()
    assert len(set(answers[1])) == 1
    program = Program(lie)
    program.forget_accesses()
    assert build(program).build() == build(raw).build(), "without the note it is the same recording"


def test_the_check_changes_nothing(raw: Trace) -> None:
    assert build(raw).build() == build(raw, trust_note=True).build()


def test_a_mali_believes_no_note() -> None:
    """Its passes look at chains in memory: neither a V3D's note nor a damaged one is looked at."""
    raw = Trace.read(COMMITTED["mali_g71"])
    expected = build(raw).build()
    note: Note = Trace.read(COMMITTED["v3d42"]).notes[NOTE]
    planted: Note
    for planted in (note, note[:1], []):
        assert build(raw.with_(notes={**raw.notes, NOTE: planted})).build() == expected


def test_build_writes_nothing(tmp_path: Path, raw: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.gtr").write_bytes(lying(raw, shorter_read).build())
    found = run("build", "raw.gtr", "-o", "net.gtr", status=2)
    assert found.stderr.startswith(f"error: raw.gtr: {REFUSED}"), found.stderr
    assert "largest difference" in found.stderr
    assert not Path("net.gtr").exists()
    assert "not checked" not in run("build", "raw.gtr", "-o", "net.gtr", "--observe").stdout
    assert NOT_CHECKED not in Trace.read("net.gtr").notes
    assert "access was not checked" in run("build", "raw.gtr", "-o", "net.gtr", "--trust-note").stdout
    assert Trace.read("net.gtr").notes[NOT_CHECKED] == LEFT_OUT
    assert "--trust-note" in run("build", "raw.gtr", "-o", "n.gtr", "--trust-note", "--observe", status=2).stderr


def test_a_recording_from_standard_input_cannot_be_replayed_for_the_error(raw: Trace) -> None:
    with pytest.raises(TraceError, match=r"by the note does not access; nothing was written"):
        build(Program(lying(raw, shorter_read)))


def test_trust_where_nothing_is_believed_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("build", str(COMMITTED["mali_g71"]), "-o", "net.gtr", "--trust-note")
    assert NOT_CHECKED not in Trace.read("net.gtr").notes
