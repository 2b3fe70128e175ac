# SPDX-License-Identifier: BSD-2-Clause
"""Candidates measured in the recording guest, and a searched network replayed against ONNX Runtime.

The first takes half a minute, the second minutes, with `--exhaustive`. With `make test`, candidates are made, run
and judged without a guest by tests/unit/record/compiled/test_search.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_tools.accesses.job_times import replay_time
from host_tools.extras.speed.kernels import candidates, found, space
from host_tools.extras.speed.kernels.candidates import Asked
from host_tools.extras.speed.kernels.measuring import Bench, measure
from host_tools.extras.speed.kernels.search import SearchedKernels, made
from host_tools.machine.root import RecordRoot
from host_tools.model.interpreter import interpreter
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.differences import relative_difference
from host_tools.record.frontends import record_onnx
from tests.support.searches import convolutions, cost, searched

GPU = "v3d42"
LIMIT = 1e-5


@pytest.mark.exhaustive
def test_candidates_are_timed_and_judged(root: RecordRoot, tmp_path: Path) -> None:
    """In one boot: two schedules, one of which is planted with a wrong value; and one that is no code."""
    net = searched(tmp_path)
    kernel = net.kernels[0]
    assert kernel.nest is not None
    points = space.promising(kernel.nest, cost)[:3]
    (((plain, *made_of)),) = made(net.folder / candidates.KERNELS, [Asked(kernel.key, points, True)])
    bench = Bench(kernel, net.plan.calls[kernel.calls[0]], plain)
    good, wrong, broken = made_of
    planted = re.sub(r"^(\s*data0\w*\[.*\]) = (.*);$", r"\1 = 1.001*(\2);", wrong.source, count=1, flags=re.M)
    assert planted != wrong.source
    trials = [
        (bench, good),
        (bench, replace(wrong, source=planted)),
        (bench, replace(broken, source=broken.source.replace("void main", "no code"))),
    ]
    first, second, third = measure(trials, chip_of(GPU), timeout=600, snapshot="", what="candidates")
    assert first.us is not None
    assert first.us > 0
    assert first.instructions > 0
    assert first.registers in (16, 32, 64) or first.registers <= 64
    assert second.us is None
    assert "differ by" in second.why
    assert third.us is None
    assert "refuses a kernel" in third.why


@pytest.mark.exhaustive
def test_a_searched_network_is_right_and_not_slower(
    root: RecordRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "kept"
    cache.mkdir()
    monkeypatch.setattr(found, "cache_dir", lambda *_: cache)
    path = convolutions(tmp_path / "net.onnx")
    own = record_onnx(path, {}, compiler=TINYGRAD, name="net", gpu=GPU, timeout=900)
    raw = record_onnx(
        path, {}, compiler=TINYGRAD, name="net", gpu=GPU, timeout=900, kernels=SearchedKernels(1, rounds=1)
    )
    notes = raw.notes["search"]
    assert notes["rounds"] == 1
    assert notes["candidates"] > 0
    assert notes["us"] <= notes["us_before"]
    chip = chip_of(GPU)
    built = build(raw)
    assert replay_time(built, chip).us <= replay_time(build(own), chip).us * 1.01
    given = np.random.default_rng(5).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    expected = onnx_model.run(onnx_model.read(path), {"x": given})["y"]
    with interpreter(built) as replay:
        left = replay.run({"x": given})["y"]
    assert relative_difference(left.reshape(expected.shape), expected) <= LIMIT
