# SPDX-License-Identifier: BSD-2-Clause
"""Names of layers for jobs that run on the virtual GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.model.job_names import job_names
from host_tools.record.job_layers import Result, name_jobs, sums
from tests.support.small_jobs import DOUBLE_TWICE, small

# The jobs add integers; their sums are floats of finite value, too.
GIVEN = np.random.default_rng(3).integers(1 << 26, 1 << 28, 16, np.int32)
ONCE, TWICE = ((GIVEN * by).view(np.float32) for by in (2, 4))
OTHER = np.arange(16, dtype=np.float32)

Layer = tuple[str, str, str, str, NDArray[np.float32]]


def named(*layers: Layer, names: list[str] | None = None) -> list[str]:
    """Names of the two jobs, of layers: name, type, what it takes, what it makes, its values."""
    trace = small(*DOUBLE_TWICE).with_(notes={"calls": names or []})
    made = [Result(layer, kind, [takes], makes, sums(values)) for layer, kind, takes, makes, values in layers]
    name_jobs(trace, lambda: made, {"in": GIVEN})
    return job_names(trace)


def test_a_job_has_the_name_of_the_layer_that_it_computes() -> None:
    assert named(("a", "Relu", "x", "y", ONCE), ("b", "Mul", "y", "z", TWICE)) == ["a (Relu)", "b (Mul)"]


def test_a_job_of_several_layers_has_the_names_of_all() -> None:
    conv = ("conv", "Conv", "x", "a", OTHER)  # in registers only
    assert named(conv, ("relu", "Relu", "a", "b", ONCE), ("c", "Mul", "b", "c", TWICE)) == [
        "conv and 1 more (Conv)",
        "c (Mul)",
    ]


def test_a_layer_that_another_job_has_computed_gives_no_name_twice() -> None:
    conv = ("conv", "Conv", "x", "a", ONCE)
    assert named(conv, ("relu", "Relu", "a", "b", TWICE)) == ["conv (Conv)", "relu (Relu)"]


def test_several_jobs_before_a_known_result_are_nobodys_alone() -> None:
    """Convolutions that are computed in a way that is not known are not the recurrent layer's that follows."""
    unknown = [("0", "Conv", "x", "a", OTHER), ("1", "Conv", "a", "b", OTHER + 1)]
    assert named(*unknown, ("gru", "GRU", "b", "y", TWICE)) == ["0 and 2 more (Conv)"] * 2


def test_what_comes_after_the_last_known_result_has_the_names_of_what_is_left() -> None:
    left = [("gru", "GRU", "a", "b", OTHER), ("head", "Gemm", "b", "y", OTHER + 1)]
    assert named(("conv", "Conv", "x", "a", ONCE), *left) == ["conv (Conv)", "gru and 1 more (GRU)"]


def test_jobs_without_a_known_result_keep_their_names() -> None:
    assert named(("conv", "Conv", "x", "a", OTHER), names=["one", "two"]) == ["one", "two"]


def test_names_are_for_people_and_fail_no_recording() -> None:
    trace = small(*DOUBLE_TWICE)

    def refuse() -> list[Result]:
        raise RecordError("no results")

    name_jobs(trace, refuse, {"in": GIVEN})
    assert "calls" not in trace.notes
