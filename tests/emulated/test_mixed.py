# SPDX-License-Identifier: BSD-2-Clause
"""A network with layers on the CPU between those on the GPU, without a machine around the firmware.

Its recording is committed (`python -m tests.support.mixed` makes it anew); tests/qemu/test_mixed.py records.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.model.interpreter import interpreter
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import mixed
from tests.support.bare_metal import COMPILER, require
from tests.support.signing_samples import ES256
from trace_format.actions import Columns, Op
from trace_format.operators import Operator, operations, used
from trace_format.trace import Trace

SEEDS = (21, 22)
NEAR = 1e-5


@pytest.fixture(scope="module")
def raw() -> Trace:
    return Trace.read(mixed.RAW)


@pytest.fixture(scope="module")
def built(raw: Trace) -> Trace:
    return build(raw)


def check(found: dict[str, np.ndarray], seed: int) -> None:
    for name, tensor in mixed.by_ncnn(seed).items():
        assert relative_difference(found[name].reshape(tensor.shape), tensor) <= NEAR


def test_operators_stand_between_jobs_and_at_the_end(raw: Trace) -> None:
    markers = np.flatnonzero(Columns(raw.actions).is_op(Op.JOB))
    places = {row.operator: int(np.searchsorted(markers, at)) for at, row in operations(raw.actions)}
    assert 0 < places[Operator.GLU] <= places[Operator.MATMUL] < len(markers)
    assert places[Operator.FLIP] <= places[Operator.MATMUL]
    assert places[Operator.CUMULATIVE_SUM] == len(markers)
    assert set(used(raw.actions)) == {
        Operator.COPY,
        Operator.MATMUL,
        Operator.GLU,
        Operator.CUMULATIVE_SUM,
        Operator.FLIP,
    }


@pytest.mark.parametrize("name", ["vgpu", "unicorn"])
def test_replays_give_what_ncnn_does(built: Trace, name: str) -> None:
    if name == "unicorn":
        require(COMPILER, "gcc-aarch64-linux-gnu")
    delivery = Delivery(sign_trace(built.build(), ES256))
    for seed in SEEDS:
        result = runners.run(name, delivery, ES256.public, {"data": mixed.given(seed)})
        assert result.ok, result.error
        check(result.outputs, seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PASSES)
def test_each_pass_keeps_what_is_computed(raw: Trace, name: str) -> None:
    with interpreter(build(raw, skip=[name])) as run:
        check(run.run({"data": mixed.given(SEEDS[0])}), SEEDS[0])


def test_data_is_followed_through_the_operators(built: Trace, tmp_path: Path) -> None:
    """Each output depends on the input, by way of the jobs that lead to it, and on no earlier replay."""
    path = tmp_path / "mixed.gtr"
    path.write_bytes(built.build())
    result = CliRunner().invoke(main, ["lint", "--dynamic", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for name, tensor in mixed.by_ncnn(SEEDS[0]).items():
        assert f"flow     {name}: {tensor.nbytes:,} bytes of data, through " in result.stdout
