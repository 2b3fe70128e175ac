# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone diff` of traces: each kind of difference is named, and only that one; nothing goes unnoticed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.audit.compare import Change, ChangedJob, Difference, JobChanges, compare
from host_tools.audit.compare_words import IDENTICAL, sentences
from host_tools.audit.jobs import Jobs, jobs_of
from host_tools.cli import main
from host_tools.demo import RAW
from tests.support import mali_chains as mali
from tests.support import replayer_samples as s
from tests.support.chain_samples import job_page
from trace_format.actions import FLAG_IGNORE, MAP_WRITE, Action, Op, action, array_of
from trace_format.trace import Trace

PAGE = 4096
VALUES = ("manifest", "slots", "registers", "actions")  # lists of changes


@functools.cache
def recording() -> Trace:
    """The demo's, without most of its actions, which clear memory: it is compared often."""
    found = Trace.read(RAW)
    return found.with_(actions=found.actions[found.actions["op"] != Op.CLEAR])


@functools.cache
def its_jobs() -> Jobs:
    return jobs_of(recording())


def frame_at(va: int) -> int:
    return next(epoch[0, va // PAGE].frame for epoch in reversed(its_jobs().epochs) if (0, va // PAGE) in epoch)


def in_image(va: int) -> int:
    """Where in the image the byte lies that is uploaded to a GPU address, last of all."""
    place = frame_at(va) * PAGE + va % PAGE
    rows = [Action.of(row) for row in recording().actions if row["op"] == Op.UPLOAD]
    return next(row.source + place - row.target for row in reversed(rows) if 0 <= place - row.target < row.bytes)


def flipped(*addresses: int) -> Trace:
    image = bytearray(recording().image)
    for va in addresses:
        image[in_image(va)] ^= 1
    return recording().with_(image=bytes(image))


def edited(index: int, **fields: int) -> Trace:
    actions = recording().actions.copy()
    row = Action.of(actions[index])
    actions[index : index + 1] = array_of([row._replace(**fields)])
    return recording().with_(actions=actions)


def index_of(op: Op, register: str = "", nth: int = 0) -> int:
    wanted = s.GPU.register(register).index if register else None
    rows = [Action.of(row) for row in recording().actions]
    found = [i for i, row in enumerate(rows) if row.op == op and (wanted is None or row.register == wanted)]
    return found[nth]


def without(*indices: int) -> Trace:
    kept = [row for i, row in enumerate(recording().actions) if i not in indices]
    actions = recording().actions[: len(kept)].copy()
    for i, row in enumerate(kept):
        actions[i] = row
    return recording().with_(actions=actions)


def swapped(first: int) -> Trace:
    actions = recording().actions.copy()
    actions[[first, first + 1]] = actions[[first + 1, first]]
    return recording().with_(actions=actions)


def renamed() -> Trace:
    first, *others = recording().slots
    return recording().with_(slots=[replace(first, name="x"), *others])


def parts(found: Difference) -> set[str]:
    """Kinds of differences."""
    memory, jobs, shaders = found.memory, found.jobs, found.shaders
    return {
        *(name for name in VALUES if getattr(found, name)),
        *({"jobs"} if jobs.changed or jobs.moved or jobs.removed or jobs.added else ()),
        *({"shaders"} if shaders.changed or shaders.removed or shaders.added else ()),
        *({"content"} if memory.content else ()),
        *({"mapped"} if memory.only_old or memory.only_new else ()),
        *({"access"} if memory.access else ()),
        *({"moved"} if memory.moved else ()),
        *({"notes"} if found.notes else ()),
        *({"diff"} if found.diff else ()),
        *(() if found.same_actions else {"actions' bits"}),
        *(() if found.same_image else {"image"}),
    }


def weights() -> int:
    return recording().slot("param0").address + 100


def code() -> int:
    return its_jobs().jobs[6].codes[0].va + 8 * 10


CFG0 = functools.partial(index_of, Op.REG_WRITE, "core0.CSD_QUEUED_CFG0")
CACHE = functools.partial(index_of, Op.REG_WRITE, "core0.CTL_SLCACTL")
ACTIONS = {"diff", "actions' bits"}
CASES: dict[str, tuple[Callable[[], Trace], set[str]]] = {
    "a text": (lambda: recording().with_(meta=recording().meta | {"driver": "another"}), {"manifest"}),
    "a counter": (lambda: recording().with_(meta=recording().meta | {"security_version": 9}), {"manifest"}),
    "a size": (lambda: recording().with_(carveout_bytes=recording().carveout_bytes + PAGE), {"manifest"}),
    "notes": (lambda: recording().with_(notes={}), {"notes"}),
    "a slot's name": (renamed, {"slots", "diff"}),
    "a weight": (lambda: flipped(weights()), {"content", "image"}),
    "an instruction": (lambda: flipped(code()), {"content", "image", "jobs", "shaders"}),
    "size of a dispatch": (lambda: edited(CFG0(), value=2 << 16), {"jobs", "registers", *ACTIONS}),
    "a job less": (lambda: without(CFG0(nth=-1)), {"jobs", "registers", "actions", *ACTIONS}),
    "a value": (lambda: edited(CACHE(), value=0x0F0F0F0E), {"registers", *ACTIONS}),
    "what is expected": (lambda: edited(index_of(Op.REG_READ_ONCE, "core0.INT_STS"), value=1), ACTIONS),
    "the order": (lambda: swapped(index_of(Op.REG_WRITE, "core0.CTL_L2TFLSTA")), ACTIONS),
    "a permission": (lambda: edited(index_of(Op.MAP_GPU_MEM), flags=1), {"access", *ACTIONS}),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", CASES)
def test_a_difference_is_named_and_nothing_else(case: str) -> None:
    make, expected = CASES[case]
    other = make()
    found = compare(recording(), other)
    assert parts(found) == expected
    assert not found.same
    lines = sentences(found)
    assert lines[-1] == "Nothing else differs."
    same = lines[-2]
    assert same.startswith("The same: ")
    heads = {line.rstrip(":") for line in lines if line.endswith(":") and not line.startswith(" ")}
    assert not heads & set(same.removeprefix("The same: ").rstrip(".").split(", "))
    back = compare(other, recording())
    assert parts(back) == expected
    assert [Change(c.name, c.new, c.old) for c in back.manifest] == found.manifest


def test_what_dump_does_not_show_is_a_difference_too() -> None:
    old, new = (
        s.trace(action(Op.REG_READ_ONCE, register=s.register("hub.IDENT1"), expected=value, flags=FLAG_IGNORE))
        for value in (1, 2)
    )
    found = compare(old, new)
    assert parts(found) == {"actions' bits"}
    assert not found.same
    assert "actions: operands differ, but only such as have no effect" in sentences(found)


def test_what_is_the_same() -> None:
    found = compare(recording(), Trace.parse(recording().build()))
    assert found.same
    assert parts(found) == set()
    assert sentences(found) == [IDENTICAL]
    assert found.jobs.same == len(its_jobs().jobs)


def test_a_weight_is_found_at_its_address() -> None:
    (region,) = compare(recording(), flipped(weights(), weights() + 1)).memory.content
    assert (region.first, region.last, region.bytes) == (weights(), weights() + 1, 2)
    assert "slot param0" in region.purpose


def test_an_instruction_is_shown() -> None:
    found = compare(recording(), flipped(code()))
    (shader,) = found.shaders.changed
    before = its_jobs().jobs[6].codes[0].lines
    assert f"-{before[10]}" in shader.lines
    assert sum(line.startswith("-") for line in shader.lines[2:]) == 1
    assert shader.jobs == [job.number for job in its_jobs().jobs if job.codes == its_jobs().jobs[6].codes]
    assert any("1 of 55 instructions replaced by 1, now 55" in line for line in sentences(found))


def dispatch(*rows: int) -> Trace:
    """Jobs of so many groups, one after the other."""
    actions = [s.write("core0.CSD_QUEUED_CFG0", count << 16) for count in rows]
    return s.trace(*(row for start in actions for row in (action(Op.JOB), start)))


JOBS: dict[str, tuple[tuple[int, ...], tuple[int, ...], JobChanges]] = {
    "one in front": ((2, 3), (1, 2, 3), JobChanges(2, [], [], [], [0])),
    "one less": ((1, 2, 3), (1, 3), JobChanges(2, [], [], [1], [])),
    "another order": ((1, 2, 3), (2, 3, 1), JobChanges(2, [(0, 2)], [], [], [])),
    "another one": (
        (1, 2, 3),
        (1, 4, 3),
        JobChanges(2, [], [ChangedJob(1, 1, ["core0.CSD_QUEUED_CFG0 0x20000 -> 0x40000",
                                             "2 x 0 x 0 groups of 256 -> 4 x 0 x 0 groups of 256"])], [], []),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", JOBS)
def test_jobs_are_matched_by_content(case: str) -> None:
    old, new, expected = JOBS[case]
    assert compare(dispatch(*old), dispatch(*new)).jobs == expected


def test_addresses_of_code_do_not_count() -> None:
    """Two recordings may differ in where the driver has put things."""
    maps = [action(Op.MAP_GPU_MEM, flags=1, pages=1, va_page=page, frame=0) for page in (4, 5)]
    old, new = (
        s.trace(row, s.write("core0.CSD_QUEUED_CFG5", page * PAGE | 6), s.write("core0.CSD_QUEUED_CFG0", 1 << 16))
        for row, page in zip(maps, (4, 5), strict=True)
    )
    found = compare(old, new)
    assert found.jobs == JobChanges(1, [], [], [], [])
    assert found.shaders.same == 1
    assert parts(found) == {"registers", "mapped", *ACTIONS}


def test_a_mali_s_shaders_are_compared_by_their_bytes() -> None:
    code_at, jobs_at = 0xFFFF80000000, 0xFFFF80100000
    content = job_page(jobs_at, code_at)
    old, new = (
        mali.trace([mali.Area(code_at, 1, mali.RX, code), mali.Area(jobs_at, data=content)], mali.submit(jobs_at))
        for code in (b"code", b"cope")
    )
    found = compare(old, new)
    assert [change.instructions for change in found.shaders.changed] == [(0, 0)]
    assert any("their instructions cannot be shown" in line for line in sentences(found))


def run(tmp_path: Path, *options: str) -> tuple[int, str]:
    (tmp_path / "old.gtr").write_bytes(recording().build())
    (tmp_path / "new.gtr").write_bytes(edited(CFG0(), value=2 << 16).build())
    done = CliRunner().invoke(main, ["diff", str(tmp_path / "old.gtr"), str(tmp_path / "new.gtr"), *options])
    return done.exit_code, done.stdout


def test_the_command(tmp_path: Path) -> None:
    status, text = run(tmp_path)
    assert status == 1
    assert "  job 6 -> job 6: core0.CSD_QUEUED_CFG0 0xd0000 -> 0x20000; " in text
    assert "; --actions lists them" in text
    status, listed = run(tmp_path, "--actions")
    assert "-RegWrite core0.CSD_QUEUED_CFG0 = 0x000d0000\n" in listed
    found: dict[str, Any] = json.loads(run(tmp_path, "--json")[1])
    assert found["jobs"]["changed"][0]["new"] == 6
    assert "+RegWrite core0.CSD_QUEUED_CFG0 = 0x00020000" in found["diff"]


def test_signatures_are_named(tmp_path: Path) -> None:
    old, new = tmp_path / "net.gtr", tmp_path / "net.sgtr"
    old.write_bytes(s.trace().build())
    new.write_bytes(s.signed(s.trace()))
    done = CliRunner().invoke(main, ["diff", str(old), str(new)])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:] == [
        f"signature (not verified): none -> ES256 key {s.KEY.kid.hex()}",
        IDENTICAL,
    ]


def test_a_permission_in_words() -> None:
    index = index_of(Op.MAP_GPU_MEM)
    assert Action.of(recording().actions[index]).flags & MAP_WRITE
    assert any(" -> r: " in line for line in sentences(compare(recording(), edited(index, flags=1))))
