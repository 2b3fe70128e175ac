# SPDX-License-Identifier: BSD-2-Clause
"""The operators conv1x1 and dense: the C core against NumPy, bit by bit; what rounding does to their sums."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.families.page_tables import DivergenceError
from host_tools.model.fused import conv1x1, fused
from tee_replayer.generator.status import ReplayError
from tests.support.operator_samples import both, empty, on_core, on_host, slots_of, trace_of
from tests.vgpu.test_operators import ODD, Array, same
from trace_format.operators import Operator

RELU6, NO_CLAMP = (np.array(pair, np.float32) for pair in ((0, 6), (-np.inf, np.inf)))
sizes = st.integers(1, 40)
some = settings(max_examples=40, deadline=None)


def conv(generator: np.random.Generator, out: int, into: int, pixels: int, clamp: Array = RELU6) -> list[Array]:
    shapes = ((out, into), (into, pixels), (out,))
    return [empty(out, pixels), *(generator.normal(0, 1, s).astype(np.float32) for s in shapes), clamp]


def dense(generator: np.random.Generator, out: int, into: int, clamp: Array = RELU6) -> list[Array]:
    shapes = ((out, into), (into,), (out,))
    return [empty(out), *(generator.normal(0, 1, s).astype(np.float32) for s in shapes), clamp]


@some
@given(seed=st.integers(0, 2**32 - 1), out=sizes, into=sizes, pixels=sizes)
def test_pointwise_convolutions(seed: int, out: int, into: int, pixels: int) -> None:
    _, weights, x, bias, clamp = operands = conv(np.random.default_rng(seed), out, into, pixels)
    (found,) = same(Operator.CONV1X1, operands)
    exact = np.clip(weights.astype(np.float64) @ x + bias[:, None], *clamp)
    np.testing.assert_allclose(found, exact, atol=2e-5)


@pytest.mark.parametrize("pixels", [1, 3, 4, 5, 7, 12, 13, 48, 49, 50, 51, 53])
@pytest.mark.parametrize("out", [8, 11])
def test_pictures_without_gaps(pixels: int, out: int) -> None:
    """Of 7 by 7 and others, whose rows begin at any number: each number is that of the plain sum."""
    _, weights, x, bias, clamp = operands = conv(np.random.default_rng(pixels), out, 23, pixels)
    (found,) = same(Operator.CONV1X1, operands, gap=0)
    np.testing.assert_array_equal(found, conv1x1(weights, x, bias, clamp))


@some
@given(seed=st.integers(0, 2**32 - 1), out=sizes, into=sizes)
def test_dense_layers(seed: int, out: int, into: int) -> None:
    _, weights, x, bias, clamp = operands = dense(np.random.default_rng(seed), out, into)
    (found,) = same(Operator.DENSE, operands)
    np.testing.assert_allclose(found, np.clip(weights.astype(np.float64) @ x + bias, *clamp), atol=2e-5)


@pytest.mark.parametrize("out", [1, 9])
def test_long_sums_look_at_the_clock_on_the_way(out: int) -> None:
    generator = np.random.default_rng(3)
    for gap in (0, 3):
        same(Operator.CONV1X1, conv(generator, out, 5003, 5, NO_CLAMP), gap=gap)
    same(Operator.DENSE, dense(generator, out, 9001, NO_CLAMP))


@some
@given(seed=st.integers(0, 2**32 - 1))
def test_no_number_is_too_odd(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for operator, operands in (
        (Operator.CONV1X1, conv(generator, 9, 6, 13)),
        (Operator.DENSE, dense(generator, 9, 6)),
    ):
        odd = [np.where(generator.random(a.shape) < 0.2, generator.choice(ODD, a.shape), a) for a in operands]
        for gap in (0, 3):
            same(operator, [operands[0], *odd[1:]], gap=gap)


@some
@given(seed=st.integers(0, 2**32 - 1))
def test_a_fused_sum_is_rounded_once(seed: int) -> None:
    """Against the C library's, with numbers of all sizes, so that both roundings would matter."""
    fmaf = ctypes.CDLL(ctypes.util.find_library("m")).fmaf
    fmaf.restype, fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    generator = np.random.default_rng(seed)
    a, b = (generator.integers(0, 2**32, 200, np.uint32).view(np.float32) for _ in range(2))
    # Halves of a last bit, with something far below them: where rounding twice goes wrong.
    with np.errstate(all="ignore"):
        near = (a * b) * np.float32(2) ** generator.integers(-26, 27, 200)
        for total in (near.astype(np.float32), np.float32(1) + near.astype(np.float32)):
            expected = np.array([fmaf(x, y, z) for x, y, z in zip(a, b, total, strict=True)], np.float32)
            np.testing.assert_array_equal(fused(total, a, b), expected)


@pytest.mark.parametrize("operator", [Operator.CONV1X1, Operator.DENSE])
def test_pages_that_do_not_follow_one_another(operator: Operator) -> None:
    """Device and interpreter have such an operand at once, or not at all."""
    generator = np.random.default_rng(4)
    operands = conv(generator, 8, 300, 16) if operator is Operator.CONV1X1 else dense(generator, 8, 300)
    both(operator, operands)
    trace = trace_of(operator, slots_of(operator, operands), scattered=True)
    inputs = {s.name: a for s, a in zip(trace.slots, operands, strict=True) if s.kind.is_given}
    with pytest.raises(ReplayError, match="outside what the trace may use"):
        on_core(trace, inputs)
    with pytest.raises(DivergenceError, match="do not follow one another"):
        on_host(trace, inputs)
