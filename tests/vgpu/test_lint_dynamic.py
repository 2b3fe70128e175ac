# SPDX-License-Identifier: BSD-2-Clause
"""`lint --dynamic`: leaks that are planted in good traces are found, and nothing in the good ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.accesses.observe import random_inputs
from host_tools.audit import draws
from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.findings import counts_of, fails
from host_tools.audit.flow import Edge, Flow, Part, follow
from host_tools.audit.follower import SLOT_LABELS, Names, Range
from host_tools.audit.lint import lint
from host_tools.audit.rules import RULES
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import KEEP_INPUTS, build
from tests.support.beside import copying
from tests.support.qpu_asm import assemble
from tests.support.replayer_samples import read
from tests.support.small_jobs import (
    ADD_TO_SCRATCH,
    BINARIES,
    BYTES,
    CLEAR,
    CODE,
    CONSTANTS,
    DOUBLE_TWICE,
    IMAGE_PAGES,
    IN,
    INPUT,
    OUT,
    OUTPUT,
    RECORDED,
    SCRATCH,
    STARTS,
    UPLOAD,
    slot,
    small,
)
from trace_format.actions import Action, Op, action, actions_of, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace


def ids(found: Trace) -> set[str]:
    found.check()
    return {finding.rule.id for finding in lint_dynamic(found)[0]}


def also(*slots: Slot) -> tuple[Slot, ...]:
    return (IN, OUT, *slots)


SAMPLES = Path(__file__).parents[1] / "support"
COPY_OUT = action(Op.COPY_FROM_GPU, slot=1)


def over_uniforms() -> Trace:
    """Uniforms are uploaded; a slot lies over one byte of the address of `a`, so that 0 and 1 name the image."""
    place = 0x400
    at = (IMAGE_PAGES + 1) * PAGE_BYTES + place
    byte = Slot("where", SlotKind.INPUT, DType.UINT8, (1,), (1,), SCRATCH + place + 1, bound=True)
    return small(
        ("add", INPUT, INPUT, OUTPUT),
        first=(UPLOAD, action(Op.UPLOAD, bytes=12, target=at, source=PAGE_BYTES)),
        slots=also(byte),
        uniforms_at=SCRATCH + place,
    )


def copied_once() -> Trace:
    """Its only copy is before the first replay."""
    found = small(*DOUBLE_TWICE, once=(COPY_OUT,))
    return found.with_(actions=found.actions[:-1])


GOOD = {
    "two jobs": lambda: small(*DOUBLE_TWICE),
    "scratch that is not cleared but written": lambda: small(*DOUBLE_TWICE, first=(UPLOAD,)),
    "scratch that is cleared and added to": lambda: small(*ADD_TO_SCRATCH),
    "a result that is read, and nobody uses what comes of it": lambda: small(
        *DOUBLE_TWICE, ("add", OUTPUT, OUTPUT, SCRATCH)
    ),
    "an input that has to be given": lambda: small(
        *DOUBLE_TWICE, first=(CLEAR,), slots=(Slot(**(vars(IN) | {"bound": False})), OUT)
    ),
    "a parameter": lambda: small(
        ("add", INPUT, SCRATCH, OUTPUT),
        first=(UPLOAD,),
        once=(action(Op.COPY_TO_GPU, slot=2),),
        slots=also(slot("weights", SlotKind.PARAMETER, SCRATCH)),
    ),
}
LEAKS: dict[str, tuple[Callable[[], Trace], set[str]]] = {
    # Whoever leaves the input out gets the result of somebody else's.
    "an upload that keeps an input": (
        lambda: small(*DOUBLE_TWICE, first=(CLEAR,), once=(UPLOAD,)), {"GR701", "GR702"},
    ),
    "an upload that keeps a part of it": (
        lambda: small(*DOUBLE_TWICE, first=(UPLOAD._replace(value=BYTES - 1), CLEAR), once=(UPLOAD,)),
        {"GR701", "GR702"},
    ),
    "scratch that is cleared once": (
        lambda: small(*ADD_TO_SCRATCH, first=(UPLOAD,), once=(CLEAR,)), {"GR701", "GR702"},
    ),
    "scratch that is cleared once, as state": (
        lambda: small(*ADD_TO_SCRATCH, first=(UPLOAD,), once=(CLEAR,), retry_limit=0), {"GR709"},
    ),
    "scratch that is never cleared": (
        lambda: small(*ADD_TO_SCRATCH, first=(UPLOAD,)), {"GR701", "GR702", "GR706"},
    ),
    "scratch of which the last byte is not cleared": (
        lambda: small(*ADD_TO_SCRATCH, first=(UPLOAD, CLEAR._replace(value=BYTES - 1)), once=(CLEAR,)),
        {"GR701", "GR702"},
    ),
    "what reads old memory, with no effect on the result": (
        lambda: small(*DOUBLE_TWICE, ("add", SCRATCH + 64, SCRATCH + 64, SCRATCH + 128),
                      ("add", INPUT, INPUT, SCRATCH + 64), first=(UPLOAD, CLEAR)), {"GR702"},
    ),
    "an output over scratch": (
        lambda: small(*DOUBLE_TWICE, slots=also(slot("more", SlotKind.OUTPUT, SCRATCH))), {"GR703"},
    ),
    "an output that begins in scratch": (
        lambda: small(*DOUBLE_TWICE, slots=also(slot("more", SlotKind.OUTPUT, SCRATCH + 60, 1))), {"GR703"},
    ),
    "an output over the input": (
        lambda: small(*DOUBLE_TWICE, slots=also(slot("more", SlotKind.OUTPUT, INPUT))), {"GR703"},
    ),
    "an output that is longer than the result": (
        lambda: small(*DOUBLE_TWICE, slots=(IN, slot("out", SlotKind.OUTPUT, OUTPUT, 17))),
        {"GR703", "GR704", "GR706"},
    ),
    "an input that nothing depends on": (
        lambda: small(("add", SCRATCH, SCRATCH, OUTPUT)), {"GR704"},
    ),
    "an address that the input decides": (lambda: small(("gather", INPUT, CONSTANTS, OUTPUT)), {"GR705"}),
    "a branch that the input decides": (lambda: small(("branch", INPUT, INPUT, OUTPUT)), {"GR705", "GR710"}),
    "a stash that a value opens": (
        lambda: small(
            ("select", INPUT, SCRATCH, OUTPUT), ("add", INPUT, INPUT, SCRATCH), first=(UPLOAD,), once=(CLEAR,)
        ),
        {"GR701", "GR702"},
    ),
    "a stash that one value fills and opens, by a branch": (
        lambda: small(
            ("hide", INPUT, SCRATCH, OUTPUT), ("keep", INPUT, INPUT, SCRATCH), first=(UPLOAD,), once=(CLEAR,)
        ),
        {"GR705", "GR710"},
    ),
    "an address that large inputs decide": (lambda: small(("far", INPUT, CONSTANTS, OUTPUT)), {"GR705"}),
    "a caller's byte of an address among the uniforms": (over_uniforms, {"GR401", "GR705"}),
    "an output that is copied twice, first what is left": (
        lambda: small(*DOUBLE_TWICE, first=(UPLOAD, CLEAR, COPY_OUT)), {"GR701", "GR703", "GR706"},
    ),
    "an output that is copied in the prologue only": (copied_once, {"GR703", "GR704", "GR706"}),
    "a place that the input decides": (
        lambda: small(("scatter", INPUT, INPUT, SCRATCH + 256), ("add", INPUT, INPUT, OUTPUT)), {"GR702", "GR705"},
    ),
    "memory that nobody has written": (lambda: small(("add", INPUT, SCRATCH + 64, OUTPUT)), {"GR706"}),
    "a register that nobody has written": (lambda: small(("register", INPUT, INPUT, OUTPUT)), {"GR707"}),
    "an operator that reads what the job beside it writes": (lambda: copying(SCRATCH, OUTPUT), {"GR711"}),
    "a replay that does not come to its end": (
        lambda: small(*DOUBLE_TWICE, last=(read("hub.IDENT3", 1),)), {"GR708"},
    ),
    "a job that faults": (lambda: small(("add", INPUT, INPUT, 0x30000)), {"GR708"}),
    "a GPU whose data cannot be followed": (
        lambda: Trace("mali_g71", array_of([action(Op.REPLAY_START)]), b"", 16 * PAGE_BYTES, 32 * PAGE_BYTES),
        {"GR700"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_nothing_is_found_in_what_is_good(case: str) -> None:
    assert ids(GOOD[case]()) == set()


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_is_found(case: str) -> None:
    make, expected = LEAKS[case]
    assert ids(make()) == expected


def test_every_rule_has_a_case() -> None:
    assert set().union(*(rules for _, rules in LEAKS.values())) >= {rule for rule in RULES if rule >= "GR700"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", LEAKS)
def test_no_leak_passes_where_warnings_count(case: str) -> None:
    found = LEAKS[case][0]()
    assert fails(counts_of([*lint(found), *lint_dynamic(found)[0]], {}), strict=True)


def test_what_decides_is_named_and_what_was_not_shown() -> None:
    (far,) = lint_dynamic(small(("far", INPUT, CONSTANTS, OUTPUT)))[0]
    assert far.text == "job 0: in decides addresses; with some values the job faults"
    found, flow = lint_dynamic(LEAKS["a stash that one value fills and opens, by a branch"][0]())
    texts = [str(item.text) for item in found]
    assert texts[0] == "job 0: in decides branches"
    where = CODE + STARTS["hide"] + BINARIES["hide"].index(assemble("b.anyna 16"))
    assert texts[1] == f"job 0: of a branch that data decides one side has not run, GPU address {where:#x}"
    assert flow is not None
    assert [draw.values for draw in flow.draws] == ["usual", "left out", "whole range", "special"]
    (over,) = [item for item in lint_dynamic(over_uniforms())[0] if item.rule.id == "GR401"]
    assert over.text == "job 0: its code, uniforms or lists depend on where"


@pytest.fixture(scope="module")
def lenet() -> Trace:
    return build(Trace.read(RAW), skip=KEEP_INPUTS)


@pytest.fixture(scope="module")
def lenet_flow(lenet: Trace) -> Flow:
    return follow(lenet)


def rows_of(trace: Trace) -> list[Action]:
    return list(actions_of(trace.actions))


def va_of(trace: Trace, offset: int) -> int:
    """A GPU address of a byte of the carve-out."""
    for row in rows_of(trace):
        if row.op == Op.MAP_GPU_MEM and row.frame <= offset // PAGE_BYTES < row.frame + row.pages:
            return row.va_page * PAGE_BYTES + offset - row.frame * PAGE_BYTES
    raise ValueError(offset)


RECORDED_NETWORKS = (
    RAW,
    SAMPLES / "lenet.v3d71.raw.gtr",
    pytest.param(SAMPLES / "detector.raw.gtr", marks=pytest.mark.exhaustive),
)


@pytest.mark.parametrize("file", RECORDED_NETWORKS, ids=lambda file: file.name)
def test_nothing_is_found_in_what_was_recorded(file: Path) -> None:
    """Nor does a replay stop, whatever the values."""
    findings, flow = lint_dynamic(build(Trace.read(file), skip=KEEP_INPUTS))
    assert findings == []
    assert flow is not None
    assert [draw.stopped for draw in flow.draws] == [""] * len(draws.KINDS)


def test_lenet_with_an_upload_that_keeps_the_input(lenet: Trace) -> None:
    rows = rows_of(lenet)
    start = next(i for i, row in enumerate(rows) if row.op == Op.REPLAY_START)
    (upload,) = (row for row in rows if row.op == Op.UPLOAD)
    rows.remove(upload)
    rows.insert(start, upload)
    planted = lenet.with_(actions=array_of(rows))
    assert ids(planted) == {"GR701", "GR702"}
    # That is so: the digit of before comes again.
    inputs = random_inputs(lenet, 5)
    for trace, same in ((planted, True), (lenet, False)):
        with interpreter(trace) as run:
            before = run.run(inputs)["prob"].copy()
            assert np.array_equal(before, run.run()["prob"]) == same


@pytest.mark.sampled(2)
@pytest.mark.parametrize("job", [2, 4, 6, 9])  # whose results are in memory until the end
def test_lenet_with_its_output_over_scratch(job: int, lenet: Trace, lenet_flow: Flow) -> None:
    address = va_of(lenet, lenet_flow.jobs[job].written[-1].first)
    slots = [Slot(**(vars(item) | {"address": address})) if item.name == "prob" else item for item in lenet.slots]
    assert "GR703" in ids(lenet.with_(slots=slots))


def test_what_lenet_shows_to_depend_on_its_input_has_its_label(lenet: Trace, lenet_flow: Flow) -> None:
    """Memory that differs after replays of other pictures; scratch and output."""
    memories = []
    for seed in range(3):
        with interpreter(lenet) as run:
            run.run(random_inputs(lenet, seed))
            memories.append(run.memory.copy())
    differs = (memories[0] != memories[1]) | (memories[0] != memories[2])
    labelled = np.zeros(differs.shape, np.bool_)
    for job in lenet_flow.jobs:
        for part in job.written if "data" in job.slots else ():
            labelled[part.first : part.first + part.bytes] = True
    data = lenet.slot("data")
    at = next(
        row.frame for row in rows_of(lenet) if row.op == Op.MAP_GPU_MEM and row.va_page == data.address >> 12
    )
    labelled[at * PAGE_BYTES :][: data.span] = True
    assert differs.sum() > 10000
    assert not (differs & ~labelled).any()


def test_the_flow_of_a_small_trace() -> None:
    flow = follow(small(*ADD_TO_SCRATCH))
    scratch, output, uniforms = (page * PAGE_BYTES for page in (IMAGE_PAGES + 1, IMAGE_PAGES + 2, 1))
    first, second = flow.jobs
    assert (first.slots, first.addresses, first.control, first.kind) == (("in",), (), (), "compute")
    assert first.written == (Range(scratch, BYTES),)
    code = Range(STARTS["add"], len(BINARIES["add"]))
    assert first.read == (code, Range(uniforms, 12), Range(scratch - PAGE_BYTES, BYTES), Range(scratch, BYTES))
    assert second.written == (Range(output, BYTES),)
    assert set(flow.edges) >= {
        Edge("slot:in", "job:0", BYTES),
        Edge("trace", "job:0", BYTES + 12 + code.bytes),  # cleared scratch, uniforms
        Edge("job:0", "job:1", BYTES),
        Edge("job:1", "slot:out", BYTES),
    }
    (out,) = flow.outputs
    assert out.parts == (Part(0, BYTES, ("in",), trace=True, nobody=False, registers=False),)
    assert flow.through("out") == {"job:0", "job:1"}
    assert flow.left == ()


def test_bytes_of_an_output_that_depend_on_different_inputs() -> None:
    more = slot("more", SlotKind.INPUT, SCRATCH, 8)
    upload = action(Op.UPLOAD, bytes=32, target=CLEAR.a, source=RECORDED)
    flow = follow(small(("add", INPUT, SCRATCH, OUTPUT), first=(CLEAR, upload, UPLOAD), slots=also(more)))
    assert [(part.first, part.bytes, part.slots) for part in flow.outputs[0].parts] == [
        (0, 32, ("in", "more")),
        (32, 32, ("in",)),
    ]


def test_names_of_more_slots_than_there_are_labels() -> None:
    """The last label stands for several: what has it may depend on each of them."""
    slots = [slot(f"p{i}", SlotKind.PARAMETER, 4 * i) for i in range(40)] + [IN]
    names = Names.of(slots)
    assert names.slots(names.label("in")) == ("in",)
    assert names.inputs == names.label("in")
    assert names.slots(names.label("p3")) == ("p3",)
    assert names.slots(names.label("p39")) == tuple(f"p{i}" for i in range(SLOT_LABELS - 2, 40))
    assert max(names.label(item.name) for item in slots) < 1 << 32


def run(*arguments: object, command: str = "lint") -> tuple[int, str]:
    result = CliRunner().invoke(main, [command, *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "net.gtr"
    file.write_bytes(small(*ADD_TO_SCRATCH, first=(UPLOAD,)).build())
    assert run(file)[0] == 0
    status, text = run(file, "--dynamic")
    assert status == 1
    assert "error    GR701 trace: 64 bytes of the output out depend on inputs of an earlier replay" in text
    assert "flow     out: 64 bytes of in, through 2 jobs" in text
    found: dict[str, Any] = json.loads(run(file, "--dynamic", "--json")[1])
    assert [edge for edge in found["flow"]["edges"] if edge["target"] == "slot:out"] == [
        {"source": "job:1", "target": "slot:out", "bytes": BYTES}
    ]
    assert json.loads(run(file, "--json")[1])["flow"] is None


def test_the_command_says_where_it_cannot_follow_data(tmp_path: Path) -> None:
    file = tmp_path / "mali.gtr"
    file.write_bytes(LEAKS["a GPU whose data cannot be followed"][0]().build())
    status, text = run(file, "--dynamic", "--strict")
    assert status == 1
    assert "warning  GR700 trace: the virtual mali_g71 does not follow data" in text


STASH, OVER = (
    "a stash that one value fills and opens, by a branch",
    "a caller's byte of an address among the uniforms",
)
BY_BOTH: dict[
    str, tuple[Callable[[], Trace], tuple[str, ...], bool]
] = {  # a trace, rules that are accepted, whether it passes
    "what is good": (GOOD["two jobs"], (), True),
    "a leak": (LEAKS["an output over scratch"][0], (), False),
    "a stash that opens for values that are never drawn": (LEAKS[STASH][0], (), False),
    "a stash that somebody has accepted": (LEAKS[STASH][0], ("GR705", "GR710"), True),
    "a stash of which one rule is accepted": (LEAKS[STASH][0], ("GR710",), False),
    "a caller's slot over uniforms": (over_uniforms, (), False),
    "an address that large inputs decide": (LEAKS["an address that large inputs decide"][0], (), False),
    "a GPU whose data cannot be followed": (LEAKS["a GPU whose data cannot be followed"][0], (), False),
}


@pytest.mark.parametrize("case", BY_BOTH)
def test_lint_and_report_have_one_verdict(case: str, tmp_path: Path) -> None:
    make, rules, passes = BY_BOTH[case]
    file, allow = tmp_path / "net.gtr", tmp_path / "accepted.toml"
    file.write_bytes(make().build())
    allow.write_text("".join(f'[[allow]]\nrule = "{rule}"\nreason = "seen"\n' for rule in rules))
    status, text = run(file, "--strict", "--dynamic", "--json", "--allow", allow)
    other, page = run(file, "--json", "--allow", allow, command="report")
    assert (status, other) == (1 - passes,) * 2
    found, told = json.loads(text), json.loads(page)
    assert told["passes"] == passes
    assert told["counts"] == found["counts"]
    key = ("rule", "text", "allowed")
    said = [sorted([str(item[name]) for name in key] for item in one["findings"]) for one in (found, told)]
    assert said[0] == said[1]
