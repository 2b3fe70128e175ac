# SPDX-License-Identifier: BSD-2-Clause
"""The inputs of a recording: two for which all outputs differ, or a refusal by name; and a third."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.record.inputs import (
    Tensors,
    held_out,
    normal_inputs,
    recorded_inputs,
    telling_inputs,
)
from host_tools.record.ncnn.cpu import run_files
from host_tools.record.preflight import NetworkError
from tests.support import ncnn_text

SHAPES = {"x": (2, 6, 5)}
# Each output, and what makes it of x.
LAYERS = {
    "plain": "TanH f 1 1 x y",
    "mask": "HardSigmoid f 1 1 x y 0=1000 1=-500",  # 1 above one half, 0 below
    "clamp": "Clip f 1 1 x y 0=0.2 1=0.7",
    "negative only": "ReLU f 1 1 m y",  # of -x: dead for inputs from 0 to 1
    "far only": "Clip f 1 1 x y 0=6 1=7",
    "constant": "BinaryOp f 1 1 x y 0=2 1=1 2=0",  # times 0
    "saturated": "Sigmoid f 1 1 far y",  # of x + 100
}
BEFORE = {"m": "UnaryOp m 1 1 x m 0=1", "far": "BinaryOp far 1 1 x far 0=0 1=1 2=100"}


def network(name: str) -> bytes:
    last = LAYERS[name]
    layers = ["Input x 0 1 x 0=5 1=6 2=2", *(line for top, line in BEFORE.items() if f" {top} y" in last), last]
    return ncnn_text.param(layers)


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_differ_or_are_refused(name: str) -> None:
    def compute(inputs: Tensors) -> Tensors:
        return run_files((network(name), b""), inputs)

    if name in ("constant", "saturated"):
        with pytest.raises(NetworkError, match="output y: the same for all 15 random inputs that were tried"):
            telling_inputs(SHAPES, compute)
        assert telling_inputs(SHAPES, compute, constant={"y"})
        return
    first, second = telling_inputs(SHAPES, compute)
    assert not np.array_equal(compute(first)["y"], compute(second)["y"])
    assert np.array_equal(first["x"], recorded_inputs(SHAPES)[0]["x"])
    assert np.array_equal(second["x"], normal_inputs(SHAPES, 2)["x"]) == (name != "far only")


def test_the_one_that_is_refused_is_named() -> None:
    def compute(inputs: Tensors) -> Tensors:
        return {"good": inputs["x"], "dead": np.zeros(3, np.float32), "none": np.zeros(0, np.float32)}

    with pytest.raises(NetworkError, match="output dead, none: the same"):
        telling_inputs(SHAPES, compute)


def test_the_third_input_has_both_signs_where_the_network_takes_them() -> None:
    ((inputs, expected),) = held_out(SHAPES, lambda given: {"y": np.abs(given["x"])})
    assert (inputs["x"] < 0).any()
    assert np.array_equal(expected["y"], np.abs(inputs["x"]))
    with np.errstate(invalid="ignore"):
        ((inputs, expected),) = held_out(SHAPES, lambda given: {"y": np.sqrt(given["x"])})
    assert (inputs["x"] >= 0).all()
    assert np.isfinite(expected["y"]).all()
    assert not any(np.array_equal(inputs["x"], other["x"]) for other in recorded_inputs(SHAPES))


def test_outputs_that_say_little_are_compared_more_often() -> None:
    """A mask of one element is right by chance every second time."""
    cases = held_out(SHAPES, lambda given: {"y": (given["x"][:1, 0, 0] > 0).astype(np.float32), **given})
    assert len(cases) == 8
    assert {float(expected["y"][0]) for _, expected in cases} == {0.0, 1.0}


def test_outputs_that_do_not_differ_together() -> None:
    """One for every second input, one for the others: it is not said that any of them is always the same."""
    calls = iter(range(100))

    def compute(inputs: Tensors) -> Tensors:
        number = next(calls)
        return {name: np.full(3, number % 2 == odd and number, np.float32) for odd, name in enumerate(("a", "b"))}

    with pytest.raises(NetworkError, match="outputs a, b: each differs for some of the 15 random inputs"):
        telling_inputs(SHAPES, compute)
