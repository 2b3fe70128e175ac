# SPDX-License-Identifier: BSD-2-Clause
"""Programs that free and allocate memory between jobs: jobs find the same where each GPU page has one frame."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.model.memory import Conflict, Memory
from host_tools.model.remapping import one_frame_each
from host_tools.passes.listing import PASSES
from host_tools.passes.program import Program
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

FRAMES, PAGES, IMAGE_PAGES = 12, 6, 3
BASE = 40  # the recorded machine's memory begins there
IMAGE = np.random.default_rng(1).integers(0, 256, IMAGE_PAGES * PAGE_BYTES, np.uint8).tobytes()


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """What our recorder gives: before each job unmappings, mappings, what new pages hold, changes of others."""
    rows = [action(Op.SET_GPU_PGTABLE)]
    mapped: dict[int, int] = {}
    for job in range(draw(st.integers(1, 5))):
        before = []
        for page in draw(st.sets(st.sampled_from(sorted(mapped)))) if mapped else ():
            del mapped[page]
            before.append(action(Op.UNMAP_GPU_MEM, address_space=0, va_page=page, pages=1))
        free = sorted(set(range(BASE, BASE + FRAMES)) - set(mapped.values()))
        fresh = draw(st.dictionaries(st.integers(1, PAGES), st.sampled_from(free), max_size=4)) if free else {}
        fresh = {page: frame for page, frame in fresh.items() if list(fresh.values()).count(frame) == 1}
        fills = []
        for page, frame in fresh.items():
            mapped[page] = frame
            flags = MAP_READ | draw(st.sampled_from([0, MAP_WRITE]))
            before.append(action(Op.MAP_GPU_MEM, flags=flags, address_space=0, va_page=page, pages=1, frame=frame))
            target = frame * PAGE_BYTES
            source = draw(st.integers(-1, IMAGE_PAGES - 1)) * PAGE_BYTES
            where = {"bytes": PAGE_BYTES, "target": target}
            fills.append(action(Op.CLEAR, **where) if source < 0 else action(Op.UPLOAD, source=source, **where))
        for page in draw(st.sets(st.sampled_from(sorted(mapped)))) if mapped else ():
            at = draw(st.integers(0, PAGE_BYTES - 16))
            fills.append(action(Op.UPLOAD, bytes=16, target=mapped[page] * PAGE_BYTES + at, source=at))
        start = [action(Op.REPLAY_START)] if job == 0 else []
        rows += [*before, *start, *fills, action(Op.JOB, number=job)]
    return Trace("v3d42", array_of(rows), IMAGE, (BASE + FRAMES) * PAGE_BYTES, 1 << 20)


def what_jobs_find(trace: Trace) -> list[dict[int, bytes]]:
    """For each job, the content of each page that is mapped, as far as the trace says."""
    memory = np.zeros(trace.carveout_bytes, np.uint8)
    image = np.frombuffer(trace.image, np.uint8)
    memory[: len(image)] = image
    mapped: dict[int, int] = {}
    found = []
    for row in map(Action.of, trace.actions):
        match row.op:
            case Op.MAP_GPU_MEM:
                mapped |= {row.va_page + i: row.frame + i for i in range(row.pages)}
            case Op.UNMAP_GPU_MEM:
                for i in range(row.pages):
                    mapped.pop(row.va_page + i, None)
            case Op.CLEAR:
                memory[row.target : row.target + row.bytes] = 0
            case Op.UPLOAD:
                memory[row.target : row.target + row.bytes] = image[row.source : row.source + row.bytes]
            case Op.JOB:
                found.append(
                    {p: memory[f * PAGE_BYTES : (f + 1) * PAGE_BYTES].tobytes() for p, f in mapped.items()}
                )
    return found


@given(traces())
def test_jobs_find_the_same(trace: Trace) -> None:
    settled = one_frame_each(trace)
    assert settled is not None
    settled.check()
    Memory.of(settled)
    assert settled.carveout_bytes <= (IMAGE_PAGES + PAGES) * PAGE_BYTES
    assert what_jobs_find(settled) == what_jobs_find(trace)


@given(traces())
def test_passes_take_them(trace: Trace) -> None:
    """Built, more may stay mapped than was; what was mapped has its content."""
    program = Program(trace)
    for name in ("map-once", "duplicate-pages", "relocate", "trim-address-space"):
        assert PASSES[name].edit(program) == ""
    built = program.trace()
    built.check()
    for old, new in zip(what_jobs_find(trace), what_jobs_find(built), strict=True):
        assert old.items() <= new.items()


def remapped(*fills: Action, second: int = 1) -> Trace:
    """One page, mapped to one frame and then to another, with these fills before the second job."""
    where = {"flags": MAP_READ, "pages": 1, "address_space": 0}
    rows = [
        action(Op.MAP_GPU_MEM, frame=BASE, va_page=1, **where),
        action(Op.SET_GPU_PGTABLE),
        action(Op.REPLAY_START),
        action(Op.JOB, number=0),
        action(Op.MAP_GPU_MEM, frame=BASE + 1, va_page=1, **where),
        action(Op.MAP_GPU_MEM, frame=BASE + second, va_page=2, **where),
        *fills,
        action(Op.JOB, number=1),
    ]
    return Trace("v3d42", array_of(rows), IMAGE, (BASE + 4) * PAGE_BYTES, 1 << 20)


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(remapped(second=2), id="content is not said"),
        pytest.param(
            remapped(action(Op.UPLOAD, bytes=100, target=(BASE + 1) * PAGE_BYTES, source=0), second=2),
            id="a part of it is said",
        ),
        pytest.param(
            remapped(action(Op.CLEAR, bytes=PAGE_BYTES, target=(BASE + 1) * PAGE_BYTES)), id="two addresses"
        ),
        pytest.param(
            remapped(
                action(Op.CLEAR, bytes=PAGE_BYTES, target=(BASE + 1) * PAGE_BYTES),
                action(Op.CLEAR, bytes=PAGE_BYTES, target=(BASE + 3) * PAGE_BYTES),
                second=2,
            ),
            id="memory that is not mapped is filled",
        ),
    ],
)
def test_what_is_not_clear_stays_a_conflict(trace: Trace) -> None:
    assert one_frame_each(trace) is None
    with pytest.raises(Conflict):
        _ = Program(trace).memory
    assert "is mapped twice" in PASSES["relocate"].edit(Program(trace))


def test_build_says_which_passes_were_not_done(tmp_path: Path) -> None:
    raw, built = tmp_path / "raw.gtr", tmp_path / "built.gtr"
    raw.write_bytes(remapped(second=2).build())
    words = ["build", str(raw), "-o", str(built)]
    result = CliRunner().invoke(main, [*words, "--json"], catch_exceptions=False)
    said = {item["name"]: item["not_done"] for item in json.loads(result.stdout)["passes"]}
    why = "virtual page 0x1 of address space 0 is mapped twice"
    assert said["relocate"] == said["dead-memory"] == why
    assert said["polls"] == ""
    assert [name for name, reason in said.items() if not reason] == Trace.read(built).notes["passes"]
    assert f"{'relocate':20} not done: {why}\n" in CliRunner().invoke(main, words).stdout
