# SPDX-License-Identifier: BSD-2-Clause
"""The pass `cut-jobs`: jobs that take longer than wanted become several, which do the same to the bit."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools import runners
from host_tools.accesses.observe import random_inputs, watched
from host_tools.accesses.pieces import alike, why_not
from host_tools.accesses.proof import Job
from host_tools.audit.lint import lint
from host_tools.demo import RAW
from host_tools.families.cutting import NotCutError
from host_tools.gpus.v3d import cutting as of_v3d
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import interpreter
from host_tools.model.job_names import NOTE, job_names
from host_tools.model.memory import Memory
from host_tools.passes import cutting
from host_tools.passes.cut_actions import jobs_in
from host_tools.passes.cut_report import Cut
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import chips as no_chip
from tests.support.left_behind import unread_difference
from tests.support.places import CHECKOUT
from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import DATA, END, ONE_SECTION, STORE_RF30, counted_items, dispatch
from tests.support.replayer_samples import ES256
from trace_format import profile
from trace_format.actions import ALL_BITS, Action, Op, actions_of, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.trace import Trace

RECORDINGS = {
    "lenet": (RAW, 100.0),
    "lenet.v3d71": (CHECKOUT / "tests/support/lenet.v3d71.raw.gtr", 60.0),
    "detector": (CHECKOUT / "tests/support/detector.raw.gtr", 400.0),
    "mixed": (CHECKOUT / "tests/support/mixed.raw.gtr", 60.0),
}
recordings = pytest.mark.parametrize(
    "name",  # the detector is the largest, and its jobs are of the same kinds
    [pytest.param(name, marks=[pytest.mark.exhaustive] if name == "detector" else []) for name in RECORDINGS],
)


@functools.cache
def lenet() -> Trace:
    """As it is built without wishes."""
    made: Trace = build(Trace.read(RAW))
    return made


CFG = [f"core0.CSD_QUEUED_CFG{index}" for index in range(7)]


def cut(trace: Trace, longest_us: float) -> tuple[Trace, Cut]:
    """A trace after the pass, and what it has done."""
    program = Program(trace)
    program.asked = {"cut-jobs": longest_us}
    assert cutting.cut_jobs(program) == ""
    report = program.reports["cut-jobs"]
    assert isinstance(report, Cut)
    return program.trace(), report


# ---- registers ----


def supergroups(words: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """The workgroups of each supergroup of a dispatch, by their places."""
    together = words[3] >> 8 & 15 or 16
    places = [
        ((words[0] & 0xFFFF) + x, (words[1] & 0xFFFF) + y, (words[2] & 0xFFFF) + z)
        for z in range(words[2] >> 16)
        for y in range(words[1] >> 16)
        for x in range(words[0] >> 16)
    ]
    for first in range(0, len(places), together):
        yield places[first : first + together]


def described(
    gpu: str, groups: Sequence[int], size: int, together: int, offset: Sequence[int] = (0, 0, 0)
) -> list[int]:
    total = math.prod(groups)
    words = [count << 16 | first for count, first in zip(groups, offset, strict=True)]
    words += [(-(-together * size // 16) - 1) << 12 | (together & 15) << 8 | size & 0xFF]
    full, rest = divmod(total, together)
    batches = full * -(-together * size // 16) + -(-rest * size // 16)
    return [*words, batches - (gpu == "v3d42"), 0x10005, 0x20000]


def pieces(gpu: str, words: Sequence[int], wanted: int) -> list[list[int]]:
    """The configuration words of each piece, in order of the words; the one that starts it is written last."""
    registers = dict(zip(CFG, words, strict=True))
    found = of_v3d.pieces(profile.load(gpu), registers.__getitem__, wanted)
    assert all(piece[-1][0] == CFG[0] for piece in found)
    return [[dict(piece)[name] for name in CFG] for piece in found]


@settings(deadline=None)
@given(
    gpu=st.sampled_from(["v3d42", "v3d71"]),
    groups=st.tuples(*[st.integers(1, 9)] * 3),
    offset=st.tuples(*[st.integers(0, 3)] * 3),
    size=st.integers(1, 256),
    together=st.integers(1, 16),
    wanted=st.integers(2, 40),
)
def test_pieces_have_the_supergroups_of_the_whole(
    gpu: str, groups: tuple[int, ...], offset: tuple[int, ...], size: int, together: int, wanted: int
) -> None:
    words = described(gpu, groups, size, together, offset)
    axis = max((axis for axis in range(3) if groups[axis] > 1), default=0)
    layer = math.prod(groups[:axis])
    if all(number * layer % together for number in range(1, groups[axis])):
        with pytest.raises(NotCutError, match="its workgroups cannot be divided"):
            pieces(gpu, words, wanted)
        return
    found = pieces(gpu, words, wanted)
    assert len(found) >= 2
    assert [group for piece in found for group in supergroups(piece)] == list(supergroups(words))
    counts = [[word >> 16 for word in piece[:3]] for piece in found]
    for piece, count in zip(found, counts, strict=True):
        assert piece[3:] == described(gpu, count, size, together)[3:]
    if len(found) < wanted:  # none has two places where supergroups begin, one of them inside
        assert all(math.prod(count) < 2 * math.lcm(layer, together) for count in counts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "together"), [(5, 3), (16, 1), (64, 2), (100, 1), (1, 16)])
@pytest.mark.parametrize("wanted", [2, 5, 30])
def test_every_item_of_every_workgroup_runs_once(size: int, together: int, wanted: int) -> None:
    """Each adds one to a word of its own, which it finds by the payload that it starts with."""
    groups = (3, 4, 8)
    bits = max(6, (size - 1).bit_length())
    code = counted_items(per_z=12)
    total = size * math.prod(groups)
    found = np.zeros(total, np.uint32)
    parts = pieces("v3d42", described("v3d42", groups, size, together), wanted)
    for words in parts:
        outcome = dispatch(
            code + STORE_RF30 + END,
            [0xFFFF, 16, 32 - bits, size, DATA],
            flags=ONE_SECTION,
            cfg=dict(enumerate(words[:5])),
        )
        assert (outcome.error, outcome.fault) == ("", None)
        found += outcome.words(DATA, total)
    assert len(parts) >= 2
    assert (found == 1).all()


def test_what_cannot_be_cut_says_why() -> None:
    def reason(words: list[int]) -> str:
        with pytest.raises(NotCutError) as error:
            pieces("v3d42", words, 2)
        return str(error.value)

    words = described("v3d42", (4, 4, 1), 64, 1)
    assert len(pieces("v3d42", words, 2)) == 2
    assert "may overlap" in reason([*words[:3], words[3] | 1 << 26, *words[4:]])
    assert reason([*words[:4], words[4] + 1, *words[5:]]) == "it runs 65 batches, and its workgroups fill 64"
    assert "16 bits" in reason([words[0] | 0xFFFE, *words[1:]])
    assert "cannot be divided" in reason(described("v3d42", (1, 1, 1), 256, 1))
    assert "cannot be divided" in reason(described("v3d42", (4, 4, 1), 8, 16))


# ---- recordings ----


@recordings
def test_outputs_and_memory_are_the_same_to_the_bit(name: str) -> None:
    """But for bytes that jobs write before they read them, in all replays: spilled registers, which lie where the
    number of the thread says that runs a batch. `build` has compared accesses with what the recording notes."""
    file, longest = RECORDINGS[name]
    before = build(Trace.read(file), skip=["plan-memory"])
    after = build(Trace.read(file), skip=["plan-memory"], asked={"cut-jobs": longest})
    assert after.jobs > before.jobs
    assert bytes(after.image) == bytes(before.image)
    assert (after.notes["passes"][-2:], after.carveout_bytes) == (["cut-jobs", "timeouts"], before.carveout_bytes)
    inputs = random_inputs(before, 7)
    apart = unread_difference(before, after, inputs)
    assert apart < 2 * PAGE_BYTES
    if name == "lenet.v3d71":  # where the virtual GPU does not say in which order threads have their numbers
        assert difference(before, after, inputs) == ""


@recordings
def test_with_memory_that_is_used_again(name: str) -> None:
    """The whole of `build`: outputs are the same, replay after replay; the rules find nothing new."""
    file, longest = RECORDINGS[name]
    before, after = build(Trace.read(file)), build(Trace.read(file), asked={"cut-jobs": longest})
    inputs = random_inputs(before, 3)
    with interpreter(before) as one, interpreter(after) as two:
        for _ in range(3):
            expected, found = one.run(inputs), two.run(inputs)
            assert all(np.array_equal(expected[of], found[of]) for of in expected)
    assert [finding.rule.id for finding in lint(after)] == [finding.rule.id for finding in lint(before)]
    assert [row.number for row in actions_of(after.actions) if row.op == Op.JOB] == list(range(after.jobs))


def test_the_core_runs_a_signed_one() -> None:
    before, after = lenet(), build(Trace.read(RAW), asked={"cut-jobs": 100})
    inputs = random_inputs(before, 5)
    results = [
        runners.run("vgpu", Delivery(sign_trace(trace.build(), ES256)), ES256.public, inputs)
        for trace in (before, after)
    ]
    assert [result.error for result in results] == ["", ""]
    assert (results[0].jobs, results[1].jobs) == (before.jobs, after.jobs)
    assert results[1].outputs["prob"].tobytes() == results[0].outputs["prob"].tobytes()


def test_the_longest_job_is_as_short_as_wanted() -> None:
    trace = build(Trace.read(RECORDINGS["mixed"][0]))
    _, report = cut(trace, 60.0)
    assert report.job_us[0] > 60 >= report.job_us[1]
    assert not report.kept
    assert report.jobs[1] - report.jobs[0] == sum(report.cut.values()) - len(report.cut)
    assert report.more == pytest.approx(report.replay_us[1] / report.replay_us[0] - 1)
    assert set(report.seen) <= report.cut.keys()
    assert [str(jobs) in report.lines()[0] for jobs in report.jobs] == [True, True]


def test_what_is_said_of_jobs_that_stay_longer() -> None:
    """Those of one reason together."""
    trace = lenet()
    _, report = cut(trace, 100)
    assert report.lines()[-2:] == [
        "longer still, as its workgroups cannot be divided further: "
        "job 2 (conv1 and 1 more (Convolution)) with 124 us",
        "longer still, as its workgroups cannot be divided: job 4 (conv2 (Convolution)) with 158 us",
    ]
    assert [job.why for job in report.facts().kept] == [job.why for job in report.kept]
    _, none = cut(trace, 10)
    assert none.lines()[-1].endswith("job 6 (fc1 (InnerProduct)) with 25 us and 8 others")


def test_a_trace_that_is_built_is_cut_again() -> None:
    first = build(Trace.read(RAW), asked={"cut-jobs": 200})
    assert build(first, asked={"cut-jobs": 100}).jobs > first.jobs


def test_nothing_is_cut_that_is_short_enough() -> None:
    trace = lenet()
    after, report = cut(trace, 1e6)
    assert after.trace_id == trace.trace_id
    assert (report.cut, report.kept, report.more) == ({}, [], 0)
    assert "cut-jobs" not in trace.notes["passes"]


def test_pieces_have_the_name_of_the_job() -> None:
    trace = lenet()
    names = [f"layer{number}" for number in range(trace.jobs)]
    after, report = cut(trace.with_(notes={**trace.notes, NOTE: names}), 100)
    expected = [name for number, name in enumerate(names, 1) for _ in range(report.cut.get(number, 1))]
    assert job_names(after) == expected
    assert report.kept[0].name == "layer1"
    other, _ = cut(trace.with_(notes={**trace.notes, NOTE: names[:-1]}), 100)
    assert other.notes[NOTE] == names[:-1]


# ---- what stays whole ----


def reasons(trace: Trace, longest_us: float) -> dict[int, str]:
    _, report = cut(trace, longest_us)
    assert all(job.us > longest_us for job in report.kept)
    return {job.number: job.why for job in report.kept}


def test_a_malis_jobs_stay_whole() -> None:
    trace = build(Trace.read(CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr"))
    why = reasons(trace, 60)
    assert why
    assert all("no first workgroup" in reason for reason in why.values())


def test_a_start_alone_may_be_too_long() -> None:
    trace = lenet()
    why = reasons(trace, 10)
    assert len(why) == trace.jobs
    assert set(why.values()) == {"to start a job alone takes 20.0 us"}


def test_gpus_without_constants_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = build(Trace.read(CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr"))
    program = Program(trace.with_(gpu=no_chip.GPU))
    no_chip.forget(monkeypatch)
    program.asked = {"cut-jobs": 10}
    assert no_chip.REFUSED in cutting.cut_jobs(program)
    assert not program.reports


def without(trace: Trace, index: int) -> Trace:
    return trace.with_(actions=np.delete(trace.actions, index))


def test_jobs_that_do_not_stand_by_themselves() -> None:
    """Markers, registers that are written before, and the end of a job, are as the pass expects them, or it says
    what is not."""
    trace = lenet()
    rows = list(actions_of(trace.actions))
    found = jobs_in(trace)
    second = found[1]
    assert not isinstance(second, str)
    assert not any(isinstance(job, str) for job in found)
    assert rows[second.marker].op == Op.JOB
    kept = jobs_in(without(trace, second.described[0]))
    assert "relies on registers" in str(kept[0])
    assert "relies on registers" in str(kept[1])
    assert not isinstance(kept[2], str)
    assert "not announced by itself" in str(jobs_in(without(trace, second.marker))[0])
    assert "wait for its interrupt" in str(jobs_in(without(trace, second.start + 1))[1])
    partly = rows.copy()
    partly[second.described[0]] = partly[second.described[0]].with_(mask=0xFF)
    assert "relies on registers" in str(jobs_in(trace.with_(actions=array_of(partly)))[1])


BASE = "eidx r0; nop; ldunifrf.rf9\nshl r0, r0, 2\nadd rf10, r0, rf9\n"
TWO_SECTIONS = (
    "nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\nnop; nop\nnop; nop; thrsw\nnop; nop\nnop; nop\nnop; nop\n"
)
ATOMIC_ADD = 0xFFFFFF87
SCRATCH = 0x320000  # pages of LeNet's that only one job uses, for spilled registers
PATCHED = 1  # the job whose program is replaced; it has nine workgroups


def patched(lines: str, *uniforms: int) -> Trace:
    """LeNet with another program and other uniforms in a job; what the network computes then, nobody asks."""
    trace = lenet()
    job = jobs_in(trace)[PATCHED]
    assert not isinstance(job, str)
    registers = {name: job.registers[trace.profile.register(name).index] for name in CFG}
    image = bytearray(trace.image)
    mappings = Memory.of(trace).mappings

    def put(va: int, data: bytes) -> None:
        at = mappings[0, va // PAGE_BYTES].frame * PAGE_BYTES + va % PAGE_BYTES
        assert at + len(data) <= len(image)
        image[at : at + len(data)] = data

    put(registers[CFG[5]] & ~7, assemble(lines + TWO_SECTIONS))
    put(registers[CFG[6]], np.array(uniforms, "<u4").tobytes())
    return trace.with_(image=bytes(image))


def why_patched(trace: Trace) -> str:
    """Why the patched job stays whole; "": it does not. It takes little more than its start."""
    _, report = cut(trace, 20.0001)
    return "" if PATCHED + 1 in report.cut else {job.number: job.why for job in report.kept}[PATCHED + 1]


def test_threads_that_count_together_stay_in_one_job() -> None:
    lines = BASE + "nop; mov tmud, 1\nnop; mov tmuau, rf10\n"
    assert why_patched(patched(lines, SCRATCH, ATOMIC_ADD)) == "a part of it reads what another writes"


STORE = BASE + "nop; mov tmud, 1\nnop; mov tmua, rf10\n"


def test_parts_may_write_the_same_bytes_if_nobody_reads_them() -> None:
    trace = lenet()
    assert why_patched(patched(STORE, SCRATCH)) == ""
    output = next(slot for slot in trace.slots if slot.kind == SlotKind.OUTPUT)
    assert "callers or operators may read them" in why_patched(patched(STORE, output.address))
    addresses = {frame: page for page, frame in zip(*_pages(trace), strict=True)}
    own = {place // PAGE_BYTES for slot in trace.slots for place in (addresses_of(trace, slot.address),)}
    job = watched(trace, random_inputs(trace, 1)).jobs[PATCHED + 1]
    frame, at = next(
        (frame, int(np.argmax(flags & ACCESS_READ_FIRST != 0)))
        for frame, flags in job.accesses.items()
        if (flags & ACCESS_READ_FIRST).any() and frame not in own and frame * PAGE_BYTES >= len(trace.image)
    )
    assert "another job reads them" in why_patched(patched(STORE, addresses[frame] * PAGE_BYTES + at // 64 * 64))


def _pages(trace: Trace) -> tuple[list[int], list[int]]:
    mappings = Memory.of(trace).mappings
    return mappings.pages.tolist(), mappings.frames.tolist()


def addresses_of(trace: Trace, va: int) -> int:
    return Memory.of(trace).mappings[0, va // PAGE_BYTES].frame * PAGE_BYTES + va % PAGE_BYTES


def test_addresses_that_depend_on_data() -> None:
    """The place of a store is a bit of an input."""
    data = next(slot for slot in lenet().slots if slot.kind == SlotKind.INPUT)
    lines = (
        BASE
        + "nop; mov tmua, rf10\nnop; nop; ldunifrf.rf11\nnop; nop; ldtmu.r1\nnop; nop; ldunifrf.rf12\n"
        + "and r1, r1, rf11\nadd r1, r1, rf12\nnop; mov tmud, 1\nnop; mov tmua, r1\n"
    )
    assert why_patched(patched(lines, data.address, 0x3FC, SCRATCH)) == "what it accesses depends on data"


# ---- accesses ----

FIRST, SECOND, OTHER = 900, 901, 902  # frames that hold no slot


def job(**flags: dict[int, int]) -> Job:
    """A job by the flags of single bytes, by frame."""
    made = {}
    for frame, bytes_ in flags.items():
        page = np.zeros(PAGE_BYTES, np.uint8)
        for at, flag in bytes_.items():
            page[at] = flag
        made[int(frame[1:])] = page
    return Job(made, varies=False)


R, F, W = ACCESS_READ, ACCESS_READ | ACCESS_READ_FIRST, ACCESS_WRITTEN


@pytest.mark.parametrize(
    ("parts", "others", "expected"),
    [
        ([{0: W}, {1: W}], [], ""),
        ([{0: F, 1: W}, {0: F, 2: W}], [], ""),
        ([{0: W}, {0: F}], [], "reads what another writes"),
        ([{0: F}, {0: W}], [], "reads what another writes"),
        ([{0: F | W}, {0: F | W}], [], "reads what another writes"),
        ([{0: F | W}, {1: F | W}], [], ""),
        ([{0: W | R}, {0: W | R}], [], ""),
        ([{0: W}, {0: W}], [{0: F}], "another job reads"),
        ([{0: W}, {0: W}], [{0: W}, {0: F}], ""),
        ([{0: W}, {0: W}], [{1: W}, {0: F}], "another job reads"),
        ([{0: W}, {1: W}], [{0: F}], ""),
        ([{0: W}, {1: W}, {0: W}], [{0: R | W}], ""),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_rules_on_accesses(
    parts: list[dict[int, int]], others: list[dict[int, int]], expected: str, before: bool
) -> None:
    """What other jobs do counts after the pieces: in this replay, or in the next one."""
    made, rest = [job(f900=flags) for flags in parts], [job(f900=flags) for flags in others]
    place = slice(len(rest), len(rest) + len(made)) if before else slice(0, len(made))
    jobs = [*rest, *made] if before else [*made, *rest]
    found = why_not(lenet(), jobs, place)
    assert (expected in found) if expected else not found


def test_jobs_are_alike_by_all_that_they_access() -> None:
    one = [job(f900={0: W}), job(f901={1: R})]
    assert alike(one, [job(f900={0: W}), job(f901={1: R})])
    assert not alike(one, [job(f900={0: W}), job(f901={2: R})])
    assert not alike(one, [job(f900={0: W}), job(f901={1: R}, f902={0: R})])


def test_nothing_but_registers_and_markers_is_new() -> None:
    """A piece differs from another in the words of its workgroups and batches only."""
    trace = lenet()
    after, report = cut(trace, 100)
    names = {register.index: name for name, register in trace.profile.registers.items()}

    def words(rows: Sequence[Action]) -> list[tuple[str, int]]:
        return [(names[row.register], row.value) for row in rows if row.op == Op.REG_WRITE]

    written = {(name, value) for name, value in words(list(actions_of(after.actions)))}
    old = {(name, value) for name, value in words(list(actions_of(trace.actions)))}
    assert {name for name, _ in written - old} <= {CFG[0], CFG[1], CFG[2], CFG[4]}
    assert all(row.mask == ALL_BITS for row in actions_of(after.actions) if row.op == Op.REG_WRITE)
    waits = [sum(row.op == op for row in actions_of(after.actions)) for op in (Op.JOB, Op.WAIT_IRQ)]
    assert waits == [report.jobs[1], report.jobs[1]]


def test_floats_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is not proved stays whole where an input has whole numbers."""
    trace = lenet()
    slots = [
        dataclasses.replace(slot, dtype=DType.INT32) if slot.kind == SlotKind.INPUT else slot
        for slot in trace.slots
    ]
    why = reasons(trace.with_(slots=slots), 100)
    assert why[2] == "what it accesses may depend on data, and not all inputs are floats"
    assert 7 not in why  # it is proved


def test_the_file(tmp_path: Path) -> None:
    trace = build(Trace.read(RAW), asked={"cut-jobs": 100})
    path = tmp_path / "net.gtr"
    path.write_bytes(trace.build())
    assert Trace.read(path).jobs == trace.jobs
