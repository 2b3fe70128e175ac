# SPDX-License-Identifier: BSD-2-Clause
"""Operators that work beside a job: what they may share with it, and that every replayer runs them there."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools import runners
from host_tools.accesses.beside_jobs import LINE_BYTES, why_not_beside
from host_tools.audit.lint import lint
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.beside import WORDS, copying
from tests.support.operator_samples import Array, on_host
from tests.support.replayer_samples import ES256
from tests.support.small_jobs import BYTES, INPUT, OUTPUT, SCRATCH
from trace_format import policy
from trace_format.trace import Trace

GIVEN = {"in": np.arange(16, dtype=np.int32)}
FREE = SCRATCH + 0x800
# Source, target, job; what is said of it.
CASES = {
    "it reads what the job reads": (INPUT, FREE, 0, ""),
    "it writes in the line behind the job's": (INPUT, SCRATCH + BYTES, 0, ""),
    "it reads what the job before has written": (SCRATCH, FREE, 1, ""),
    "it reads what the job writes": (SCRATCH, FREE, 0, "operand from shares a line of 64 bytes with what"),
    "it writes what the job reads": (SCRATCH + 0x400, INPUT, 0, "operand to shares a line"),
    "it writes what the job writes": (INPUT, OUTPUT + 32, 1, "operand to shares a line"),
    "it writes the uniforms' page": (INPUT, OUTPUT - 4, 1, "operand to shares a line"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_an_operator_and_a_job_share(case: str) -> None:
    source, to, job, expected = CASES[case]
    trace = copying(source, to, job)
    trace.check()
    policy.check(trace)
    (why,) = why_not_beside(trace).values()
    assert why.startswith(expected)
    assert bool(why) == bool(expected)
    assert [finding.rule.id for finding in lint(trace) if finding.rule.id.startswith("GR6")] == []


def test_lines_are_compared_and_not_bytes() -> None:
    assert LINE_BYTES == BYTES
    for word in range(0, LINE_BYTES, 4):
        (why,) = why_not_beside(copying(INPUT, SCRATCH + LINE_BYTES - 4 * WORDS - word, 0)).values()
        assert why or word > LINE_BYTES - 4 * WORDS


def test_core_and_interpreter_do_the_same() -> None:
    trace = copying(INPUT, FREE, 1)
    one, two = on_core(trace, GIVEN), on_host(trace, GIVEN)
    assert np.array_equal(one["out"], 4 * GIVEN["in"])
    assert np.array_equal(one["out"], two["out"])


def on_core(trace: Trace, inputs: dict[str, Array]) -> dict[str, Array]:
    delivery = Delivery(sign_trace(trace.build(), ES256))
    found = runners.run("vgpu", delivery, ES256.public, inputs, gpu=trace.gpu)
    assert found.error == ""
    return found.outputs
