# SPDX-License-Identifier: BSD-2-Clause
"""Layers in NumPy against loops over single numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from docs.examples.reference import forward
from host_tools.extras.importers.networks import file

Numbers = NDArray[Any]
SIDES, COUNTS = st.integers(4, 7), st.integers(1, 3)


def network(layers: str, shape: tuple[int, ...], *slots: tuple[str, str, tuple[int, ...]]) -> file.Network:
    """A description with these layers; slots of parameters: name, axes, shape."""
    given = [*slots, ("input", "y x channel", shape), ("output", "out", (1,))]
    rows = [
        f'{{ bytes = {4 * math.prod(shape)}, name = "{name}", axes = "{axes}", shape = {list(shape)} }}'
        for name, axes, shape in given
    ]
    return file.parse("made", f'title = "made"\nslots = [{", ".join(rows)}]\nlayers = [{layers}]'.encode())


def random(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def places(*sizes: int) -> Iterator[tuple[int, ...]]:
    return product(*map(range, sizes))


@given(
    st.integers(0, 99),
    COUNTS,
    SIDES,
    SIDES,
    COUNTS,
    COUNTS,
    COUNTS,
    st.integers(1, 4),
    COUNTS,
    *[st.integers(0, 2)] * 2,
)
def test_convolution(
    seed: int,
    n: int,
    h: int,
    w: int,
    groups: int,
    ins: int,
    outs: int,
    kernel: int,
    stride: int,
    before: int,
    after: int,
) -> None:
    made = network(
        f'{{ kind = "convolution", name = "c", stride = {stride}, groups = {groups}, '
        f"pad_before = {before}, pad_after = {after} }}",
        (h, w, groups * ins),
        ("c.weight", "y out in x", (kernel, groups * outs, ins, kernel)),
        ("c.bias", "out", (groups * outs,)),
    )
    x, weight, bias = (
        random(seed, n, h, w, groups * ins),
        random(seed + 1, kernel, groups * outs, ins, kernel),
        random(seed + 2, groups * outs),
    )
    found = forward(made, {"c.weight": weight, "c.bias": bias}, x)
    high, wide = ((side + before + after - kernel) // stride + 1 for side in (h, w))
    expected = np.zeros((n, groups * outs, high, wide))
    for b, out, row, column in places(*expected.shape):
        total = float(bias[out])
        for i, ky, kx in places(ins, kernel, kernel):
            y, at = row * stride + ky - before, column * stride + kx - before
            if 0 <= y < h and 0 <= at < w:
                total += float(x[b, y, at, out // outs * ins + i]) * float(weight[ky, out, i, kx])
        expected[b, out, row, column] = total
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 99), COUNTS, SIDES, SIDES, COUNTS, st.integers(1, 4), COUNTS)
def test_max_pool(seed: int, n: int, h: int, w: int, channels: int, size: int, stride: int) -> None:
    made = network(f'{{ kind = "max-pool", size = {size}, stride = {stride} }}', (h, w, channels))
    x = random(seed, n, h, w, channels)
    found = forward(made, {}, x)
    expected = np.zeros((n, channels, (h - size) // stride + 1, (w - size) // stride + 1))
    for b, c, row, column in places(*expected.shape):
        expected[b, c, row, column] = max(
            x[b, row * stride + dy, column * stride + dx, c] for dy, dx in places(size, size)
        )
    np.testing.assert_array_equal(found, expected)


@given(st.integers(0, 99), SIDES, st.integers(1, 9), st.sampled_from([1, 3, 5]))
def test_local_response_norm(seed: int, side: int, channels: int, size: int) -> None:
    made = network(
        f'{{ kind = "local-response-norm", size = {size}, alpha = 0.5, beta = 0.75, k = 1.5 }}',
        (side, 1, channels),
    )
    x = random(seed, 1, side, 1, channels)
    found = forward(made, {}, x)
    for c, y in places(channels, side):
        near = range(max(0, c - size // 2), min(channels, c + size // 2 + 1))
        squares = sum(float(x[0, y, 0, i]) ** 2 for i in near)
        assert math.isclose(
            found[0, c, y, 0], float(x[0, y, 0, c]) / (1.5 + 0.5 / size * squares) ** 0.75, rel_tol=1e-12
        )


@given(st.integers(0, 99), SIDES, COUNTS)
def test_batch_norm_clip_and_relu(seed: int, side: int, channels: int) -> None:
    parts = [(f"b.{part}", "out", (channels,)) for part in file.STATISTICS]
    made = network(
        '{ kind = "batch-norm", name = "b", epsilon = 0.25 }, { kind = "clip", low = -1.0, high = 1.5 }, '
        '{ kind = "relu" }',
        (side, 1, channels),
        *parts,
    )
    x = random(seed, 2, side, 1, channels)
    values = {name: np.abs(random(seed + i, channels)) for i, (name, _, _) in enumerate(parts)}
    found = forward(made, values, x)
    for b, y, c in places(2, side, channels):
        mean, variance, beta, gamma = (
            float(values[f"b.{part}"][c]) for part in ("mean", "variance", "beta", "gamma")
        )
        normal = (float(x[b, y, 0, c]) - mean) / math.sqrt(variance + 0.25) * gamma + beta
        assert math.isclose(found[b, c, y, 0], max(0.0, min(1.5, max(-1.0, normal))), abs_tol=1e-12)


@pytest.mark.parametrize("order", ["y x channel", "channel y x", "x channel y"])
def test_flatten_dense_and_softmax(order: str) -> None:
    made = network(
        f'{{ kind = "flatten", order = "{order}" }}, {{ kind = "dense", name = "f" }}, {{ kind = "softmax" }}',
        (2, 3, 4),
        ("f.weight", "out in", (5, 24)),
    )
    x, weight = random(1, 2, 2, 3, 4), random(2, 5, 24)
    found = forward(made, {"f.weight": weight}, x)
    sizes, axes = {"y": 2, "x": 3, "channel": 4}, order.split()
    for b in range(2):
        flat = []
        for index in places(*(sizes[axis] for axis in axes)):
            at = dict(zip(axes, index, strict=True))
            flat.append(float(x[b, at["y"], at["x"], at["channel"]]))
        sums = [sum(float(weight[out, i]) * value for i, value in enumerate(flat)) for out in range(5)]
        powers = [math.exp(value) for value in sums]
        np.testing.assert_allclose(found[b], [p / sum(powers) for p in powers], rtol=1e-12)


def test_global_average_pool() -> None:
    x = random(3, 2, 3, 5, 4)
    found = forward(network('{ kind = "global-average-pool" }', (3, 5, 4)), {}, x)
    for b, c in places(2, 4):
        assert math.isclose(found[b, c], sum(float(x[b, y, i, c]) for y, i in places(3, 5)) / 15, rel_tol=1e-12)


@pytest.mark.parametrize("name", file.names())
def test_shapes_of_the_described_networks(name: str) -> None:
    """Every layer takes what the one before it gives."""
    made = file.load(name)
    tensors = {slot.name: np.full(slot.shape, 0.01, np.float32) for slot in made.parameters.values()}
    found = forward(made, tensors, random(1, 1, *made.slots["input"].shape))
    assert found.shape == (1, *made.slots["output"].shape)
    np.testing.assert_allclose(found, 1 / found.size, rtol=1e-12)
