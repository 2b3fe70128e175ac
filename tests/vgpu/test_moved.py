# SPDX-License-Identifier: BSD-2-Clause
"""LeNet of a Mali G71 on the other Malis: the same bits. `python -m tests.bench.moved` has all pairs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.families.page_tables import DivergenceError
from host_tools.gpus.mali.rules import retarget
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from tests.support.networks import COMMITTED
from trace_format.trace import Trace


@pytest.mark.parametrize("target", ["mali_g72", "mali_g52r1", "mali_g31"])
def test_the_same_bits_on_another_mali(target: str) -> None:
    raw = Trace.read(COMMITTED["mali_g71"])
    given = {"data": np.random.default_rng(5).random((1, 28, 28), np.float32)}
    found = []
    for trace in (raw, retarget(raw, target)[0]):
        with interpreter(build(trace)) as run:
            found.append(run.run(given)["prob"])
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].sum() == pytest.approx(1, abs=1e-5)


def test_without_rules_it_is_refused() -> None:
    raw = Trace.read(COMMITTED["mali_g71"])
    with (
        interpreter(raw.with_(gpu="mali_g72")) as run,
        pytest.raises(DivergenceError, match=r"gpu\.\w+: expected"),
    ):
        run.run({"data": np.zeros((1, 28, 28), np.float32)})


def test_the_command(tmp_path: Path) -> None:
    """It says which rule applied where; a trace for the GPU itself needs none."""
    out = tmp_path / "out.gtr"

    def build_command(*arguments: object) -> str:
        result = CliRunner().invoke(main, ["build", *map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stdout

    text = build_command(COMMITTED["mali_g71"], "-o", out, "--gpu", "mali_g72")
    assert re.search(r"^identity +26$", text, re.MULTILINE)
    assert Trace.read(out).gpu == "mali_g72"
    assert "rule" not in build_command(out, "-o", tmp_path / "again.gtr", "--gpu", "mali_g72")
