# SPDX-License-Identifier: BSD-2-Clause
"""Benches at their smallest: each runs to its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support import benches
from tests.support.places import CHECKOUT

SPOTTER = CHECKOUT / "tests/support/torch_spotter.pt2"


@pytest.mark.parametrize("name", benches.of("qemu"))
def test_a_bench_runs(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if benches.SMOKE[name].guest:
        request.getfixturevalue("root")
    assert benches.run(name, tmp_path, monkeypatch) == 0


@pytest.mark.exhaustive
@pytest.mark.usefixtures("root")
def test_the_bench_of_pytorch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are those that tests/bench/torch_networks.py writes where PyTorch is installed."""
    shutil.copy(SPOTTER, tmp_path)
    with np.load(SPOTTER.with_suffix(".npz")) as made:
        np.savez(tmp_path / SPOTTER.with_suffix(".npz").name, input1_0=made["frames"], output1_0=made["out0"])
    assert benches.run("tests.bench.pytorch", tmp_path, monkeypatch) == 0
