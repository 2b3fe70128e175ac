# SPDX-License-Identifier: BSD-2-Clause
"""LeNet of a Mali G71 on the other Malis: the same bits. `python -m tests.bench.moved` has all pairs."""

from __future__ import annotations

import numpy as np
import pytest

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
