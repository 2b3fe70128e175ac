# SPDX-License-Identifier: BSD-2-Clause
"""The pass `co-execute`: the CPU computes some channels of products beside the GPU, and claims are checked."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.accesses.beside_jobs import why_not_beside
from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import random_inputs
from host_tools.audit.dynamic import lint_dynamic
from host_tools.audit.lint import lint
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.extras.speed import co_execution
from host_tools.extras.speed.co_report import CoExecuted
from host_tools.extras.speed.co_shares import LeftError, chosen, cpu_us, divisions
from host_tools.families.speed import speed_of
from host_tools.model.interpreter import interpreter
from host_tools.model.products import BLOCKS, COLUMNS, LAYOUTS, NOTE, ROWS, Product, laid_out, noted
from host_tools.model.timing import chip_of, estimate
from host_tools.passes.cut_actions import jobs_in, named, with_pieces
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import json_schemas, pointwise
from tests.support.places import CHECKOUT
from tests.support.replayer_samples import ES256
from trace_format.actions import FLAG_BESIDE
from trace_format.operators import Operator, operations, used
from trace_format.schema import SlotKind
from trace_format.trace import Trace

NEAR = 1e-5
SHARE = co_execution.PASS.name
SEED = 5


@pytest.fixture(scope="module")
def raw() -> Trace:
    return Trace.read(pointwise.RAW)


@pytest.fixture(scope="module")
def shared(raw: Trace) -> tuple[Trace, CoExecuted]:
    return built(raw)


def built(raw: Trace, gflops: float = pointwise.GFLOPS, **also: float) -> tuple[Trace, CoExecuted]:
    """A recording's trace with the CPU's shares, and what was done."""
    program = Program(raw)
    trace = build(program, asked={SHARE: gflops, **also})
    report = program.reports[SHARE]
    assert isinstance(report, CoExecuted)
    return Trace.parse(trace.build()), report


def asked(program: Program) -> Program:
    """A program of which the CPU is to compute a part."""
    program.asked = {SHARE: 1.0}
    return program


def claiming(raw: Trace, number: int, **changes: Any) -> Trace:
    """The recording with another claim of a product."""
    note = copy.deepcopy(raw.notes[NOTE])
    note["of"][number] |= changes
    return raw.with_(notes={**raw.notes, NOTE: note})


def test_outputs_are_those_of_onnx_runtime(shared: tuple[Trace, CoExecuted]) -> None:
    trace, report = shared
    assert [(job.number, job.operator) for job in report.shared] == [(1, "conv1x1"), (2, "conv1x1"), (4, "dense")]
    assert report.left == []
    assert report.difference <= NEAR
    assert all(row.flags & FLAG_BESIDE for _, row in operations(trace.actions))
    assert used(trace.actions) == [Operator.CONV1X1, Operator.DENSE]
    expected = pointwise.by_onnx(SEED)
    with interpreter(trace) as run:
        found = run.run(pointwise.given(SEED))["classes"]
    delivery = Delivery(sign_trace(trace.build(), ES256))
    result = runners.run("vgpu", delivery, ES256.public, pointwise.given(SEED))
    assert result.error == ""
    for one in (found, result.outputs["classes"]):
        assert relative_difference(one.reshape(expected.shape), expected) <= NEAR


def test_nothing_is_found_in_it(shared: tuple[Trace, CoExecuted]) -> None:
    trace, _ = shared
    assert lint(trace) == []
    assert lint_dynamic(trace)[0] == []
    assert set(why_not_beside(trace).values()) == {""}


def test_the_gpu_does_less_and_the_report_adds_up(shared: tuple[Trace, CoExecuted], raw: Trace) -> None:
    _, report = shared
    assert report.replay_us[1] < report.replay_us[0]
    gained = sum(job.before_us - job.us for job in report.shared)
    assert np.isclose(report.replay_us[0] - report.replay_us[1], gained)
    assert all(job.gpu_us < job.before_us for job in report.shared)
    assert [sum(job.rows) for job in report.shared] == [claim.rows for claim in noted(raw)]
    assert [job.proved for job in report.facts().shared] == [True] * 3
    assert "the CPU computes a part of 3 jobs" in report.lines()[0]


def test_without_it_nothing_changes(raw: Trace) -> None:
    assert build(raw).build() == build(raw.with_(notes={k: v for k, v in raw.notes.items() if k != NOTE})).build()


def test_a_cpu_that_is_too_slow_computes_nothing(raw: Trace) -> None:
    trace, report = built(raw, 0.001)
    assert report.shared == []
    assert all("with the CPU it would take" in job.why for job in report.left)
    assert np.array_equal(trace.actions, build(raw).actions)


def test_the_command_says_what_it_has_done(tmp_path: Path) -> None:
    words = ["build", str(pointwise.RAW), "-o", str(tmp_path / "net.gtr"), "--co-execute", "9.2"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    assert "the CPU computes a part of 3 jobs" in said.output
    assert 'operators = ["conv1x1", "dense"]' in said.output
    found = CliRunner().invoke(main, [*words, "--json"])
    data = json.loads(found.stdout)
    json_schemas.check("build", data)
    assert [job["number"] for job in data["co_executed"]["shared"]] == [1, 2, 4]


def test_with_checkpoints_and_with_jobs_that_are_cut(raw: Trace) -> None:
    """A job that the CPU shares can be done again, and is not cut."""
    trace, report = built(raw, 2.0, **{"checkpoints": True, "cut-jobs": 100.0})
    assert report.shared
    assert [*lint(trace), *lint_dynamic(trace)[0]] == []
    expected = pointwise.by_onnx(SEED)
    with interpreter(trace) as run:
        found = run.run(pointwise.given(SEED))["classes"]
    assert relative_difference(found.reshape(expected.shape), expected) <= NEAR


LIES: dict[str, tuple[Mapping[str, Any], str]] = {
    "other weights": ({"weights": 917504 + 4}, "differs from the product"),
    "another input": ({"given": 1052672 + 64}, "differs from the product"),
    "another result": ({"out": 1310720 + 64}, "differs from the product"),
    "no clamp": ({"low": None}, "differs from the product"),
    "another clamp": ({"high": 0.5}, "differs from the product"),
    "no bias": ({"bias": None}, "differs from the product"),
    "another layout": ({"layout": COLUMNS}, "differs from the product"),
    "weights where nothing is": ({"weights": 1 << 40}, "its tensors do not lie where the recording says"),
    "fewer rows": ({"rows": 60}, ""),
    "fewer pixels": ({"columns": 252}, "differs from the product"),
    "another job": ({"job": 2}, "differs from the product"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_claim_is_checked(lie: str, raw: Trace) -> None:
    """A job that is not what its note says stays the GPU's, by name, and the result is right."""
    changes, why = LIES[lie]
    trace, report = built(claiming(raw, 0, **changes))
    assert [job.number for job in report.shared] == [2, 4]
    (left,) = report.left
    assert why in left.why
    with interpreter(trace) as run:
        found = run.run(pointwise.given(SEED))["classes"]
    expected = pointwise.by_onnx(SEED)
    assert relative_difference(found.reshape(expected.shape), expected) <= NEAR


@pytest.mark.parametrize(
    "note",
    [
        None,
        [],
        {},
        {"jobs": 4},
        {"jobs": 3, "of": []},
        {"jobs": 4, "of": {}},
        {"jobs": 4, "of": [None, 1, "x", {}]},
        {"jobs": 4, "of": [{"job": 0}]},
    ],
)
def test_notes_that_claim_nothing(note: Any, raw: Trace) -> None:
    other = raw.with_(notes={**raw.notes, NOTE: note})
    program, said = Program(other), dict[str, str]()
    build(program, asked={SHARE: 1.0}, progress=lambda step: said.update({step.name: step.not_done}))
    assert said[co_execution.PASS.name] == co_execution.NO_CLAIM
    assert SHARE not in program.reports


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Product)])
def test_a_claim_with_a_field_of_another_type_is_none(field: str, raw: Trace) -> None:
    for value in ("x", -1, True, [1], 1 << 50) if field not in ("low", "high") else ("x", [1]):
        assert len(noted(claiming(raw, 1, **{field: value}))) == 2, value


def test_recordings_without_claims_and_of_other_gpus_say_so() -> None:
    for path, why in (
        (RAW, co_execution.NO_CLAIM),
        (CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr", "Mali"),
    ):
        assert why in co_execution.PASS.edit(asked(Program(build(Trace.read(path)))))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(8, 12), (6, 5), (7, 8)])
def test_layouts_of_weights(layout: str, sizes: tuple[int, int]) -> None:
    rows, inner = sizes
    weights = np.random.default_rng(1).normal(0, 1, sizes).astype(np.float32)
    claim = Product(0, rows, inner, 4, 0, 0, 0, layout, None, None, None)
    packed = laid_out(weights, layout)
    assert packed.size == claim.weights_size
    assert np.array_equal(claim.in_rows(packed.reshape(-1)), weights)


def test_weights_in_another_layout_get_a_place_of_their_own(raw: Trace) -> None:
    """The image has them twice then; here by a claim that hides that they lie in rows already."""
    first, second = noted(raw)[:2]
    assert (first.layout, second.layout) == (ROWS, ROWS)
    square = dataclasses.replace(first, layout=BLOCKS)
    assert square.weights_size == first.weights_size


# ---- predicted shares ----


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gflops", [2.0, 5.0, 9.2, 20.0])
def test_the_predicted_share_is_within_5_percent_of_the_best(gflops: float, raw: Trace) -> None:
    """Of all divisions, with the GPU's part counted and estimated each by itself."""
    trace = build(raw)
    trace.notes[NOTE] = raw.notes[NOTE]
    found, chip = jobs_in(trace), chip_of(trace.gpu)
    cutting = speed_of(trace.profile).cutting
    assert not isinstance(cutting, str)
    inputs = random_inputs(trace, 1, (SlotKind.INPUT,))
    whole = [estimate(job.dispatches, chip) for job in job_work(trace, inputs)]
    judged = 0
    for claim in noted(trace):
        job = found[claim.job]
        assert not isinstance(job, str)
        prefixes = cutting.prefixes(trace.profile, named(trace, job))
        time = whole[claim.job]
        real = {}
        for share in divisions(claim, prefixes, time.us, time.parts["start"], gflops):
            parts = {claim.job: [share.prefix.first, share.prefix.others]}
            work = job_work(with_pieces(trace, cutting, found, parts), inputs)
            gpu = estimate(work[claim.job].dispatches, chip).us
            real[share.rows] = max(gpu, cpu_us(claim, claim.rows - share.rows, gflops))
        try:
            best = chosen(claim, prefixes, time.us, time.parts["start"], gflops)
        except LeftError:
            assert min(real.values()) > 0.95 * time.us
            continue
        assert real[best.rows] <= 1.05 * min(real.values())
        judged += 1
    assert judged or gflops < 5
