# SPDX-License-Identifier: BSD-2-Clause
"""Operators on the CPU with random operands: the C core against NumPy, bit by bit, and against ncnn's layers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.operator_samples import GAP, OPERANDS, both, by_ncnn, empty
from trace_format.operators import Operator

Array = NDArray[Any]
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEAR = 2e-5  # of float32 computations against those in double precision
ODD = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1e-40], np.float32)


def same(operator: Operator, arrays: list[Array], *, gap: int = GAP) -> list[Array]:
    """What both compute, which must be the same bytes; a NaN is a NaN."""
    one, two = both(operator, arrays, gap=gap)
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)
    return one


@pytest.mark.parametrize("operator", Operator)
def test_core_and_interpreter_compute_the_same(operator: Operator) -> None:
    assert any(array.any() for array in same(operator, OPERANDS[operator]))


def _ordered(boxes: Array) -> Array:
    """Those of equal scores by where they are: ncnn's sort is not stable."""
    return boxes[np.lexsort((boxes[:, 2], -boxes[:, 1].round(4)))]


def check_boxes(found: list[Array], expected: Array | None) -> None:
    """Boxes against ncnn's; further rows are zero."""
    boxes, count = found
    wanted = empty(0, 6) if expected is None else expected
    assert count.tolist() == [len(wanted)]
    np.testing.assert_allclose(_ordered(boxes[: len(wanted)]), _ordered(wanted), rtol=NEAR, atol=NEAR)
    assert not boxes[len(wanted) :].any()


def spread(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Scores that float32 can tell apart, after a softmax too: of equal ones, ncnn keeps any."""
    size = int(np.prod(shape))
    gaps = np.cumsum(generator.uniform(0.5, 1.5, size))
    return generator.permutation(8 * gaps / gaps[-1] - 4).reshape(shape).astype(np.float32)


@few
@given(seed=seeds)
def test_copy_changes_shape_and_strides(seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b, c = (int(n) for n in generator.integers(1, 9, 3))
    dtype = generator.choice(["float32", "float16", "int8", "uint16", "int32"])
    data = generator.integers(0, 100, (a, b, c)).astype(dtype)
    for shape in ((a * b * c,), (b, a * c), (1, a, b, 1, c)):
        (found,) = same(Operator.COPY, [empty(*shape, dtype=dtype), data])
        assert np.array_equal(found, data.reshape(shape))


@few
@given(seed=seeds)
def test_detection_output_is_ncnns(seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    priors, classes = int(generator.integers(1, 40)), int(generator.integers(2, 5))
    low = generator.random((priors, 2))
    prior = np.concatenate([low, low + generator.random((priors, 2)) * 0.4 + 0.05], axis=1)
    anchors = np.stack([prior, generator.uniform(0.05, 0.3, (priors, 4))]).astype(np.float32)
    location = generator.normal(0, 1, (priors, 4)).astype(np.float32)
    logits = spread(generator, (priors, classes))
    confidence = (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)
    lowest, overlap, top, keep = 0.2, float(generator.choice([0.3, 0.5, 0.9])), *generator.integers(1, 30, 2)
    parameters = np.array([lowest, overlap, top], np.float32)
    operands = [
        empty(keep, 6),
        empty(1, dtype="int32"),
        empty(priors, 7),
        parameters,
        location,
        confidence,
        anchors,
    ]
    found = same(Operator.DETECTION_OUTPUT, operands)
    text = f"0={classes} 1={overlap} 2={top} 3={keep} 4={lowest}"
    inputs = [location.reshape(-1), confidence.reshape(-1), anchors.reshape(2, -1)]
    check_boxes(found, by_ncnn("DetectionOutput", text, inputs, tmp_path))


def heads(generator: np.random.Generator, count: int, box: int, classes: int) -> list[Array]:
    sizes = [(int(generator.integers(1, 6)), int(generator.integers(1, 6))) for _ in range(count)]
    return [generator.normal(0, 1.5, (box, 5 + classes, h, w)).astype(np.float32) for h, w in sizes]


def yolo(given_heads: list[Array], anchors: list[Array], lowest: float, overlap: float, keep: int) -> list[Array]:
    cells = sum(head.shape[0] * head.shape[2] * head.shape[3] for head in given_heads)
    pairs = [array for pair in zip(given_heads, anchors, strict=True) for array in pair]
    parameters = np.array([lowest, overlap], np.float32)
    return [empty(keep, 6), empty(1, dtype="int32"), empty(cells, 7), parameters, *pairs]


@few
@given(seed=seeds)
def test_yolo_detection_output_is_ncnns(seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    (head,) = heads(generator, 1, 3, int(generator.integers(1, 5)))
    biases = generator.uniform(0.3, 2, (3, 2)).astype(np.float32)
    anchors = biases / np.array([head.shape[3], head.shape[2]], np.float32)
    found = same(Operator.YOLO_DETECTION_OUTPUT, yolo([head], [anchors], 0.25, 0.4, 80))
    flat = ",".join(str(value) for value in biases.reshape(-1))
    text = f"0={head.shape[1] - 5} 1=3 2=0.25 3=0.4 -23304=6,{flat}"
    boxes = by_ncnn("YoloDetectionOutput", text, [head.reshape(-1, *head.shape[2:])], tmp_path)
    # Of no boxes ncnn's layer, which works in place, makes nothing: what it was given is left.
    check_boxes(found, boxes if boxes is not None and boxes.ndim == 2 else None)


@few
@given(seed=seeds)
def test_yolov3_detection_output_is_ncnns(seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    given_heads = heads(generator, 2, 3, int(generator.integers(1, 5)))
    biases = generator.uniform(10, 60, (6, 2)).astype(np.float32)
    scales = [32.0, 16.0]
    masks = generator.permutation(6).reshape(2, 3)
    anchors = [
        biases[mask] / np.array([scale * head.shape[3], scale * head.shape[2]], np.float32)
        for mask, scale, head in zip(masks, scales, given_heads, strict=True)
    ]
    found = same(Operator.YOLOV3_DETECTION_OUTPUT, yolo(given_heads, anchors, 0.25, 0.4, 200))
    lists = (biases.reshape(-1), masks.reshape(-1).astype(np.float32), np.array(scales, np.float32))
    arrays = " ".join(
        f"-{23300 + i}={len(values)},{','.join(map(str, values))}" for i, values in enumerate(lists, 4)
    )
    text = f"0={given_heads[0].shape[1] - 5} 1=3 2=0.25 3=0.4 {arrays}"
    inputs = [head.reshape(-1, *head.shape[2:]) for head in given_heads]
    check_boxes(found, by_ncnn("Yolov3DetectionOutput", text, inputs, tmp_path))


@few
@given(seed=seeds)
def test_only_the_best_boxes_are_kept(seed: int) -> None:
    generator = np.random.default_rng(seed)
    given_heads = heads(generator, 1, 2, 3)
    anchors = [np.full((2, 2), 0.1, np.float32)]
    every, count = same(Operator.YOLOV3_DETECTION_OUTPUT, yolo(given_heads, anchors, 0.05, 0.4, 60))
    room = max(1, int(count[0]) // 2)
    best, _ = same(Operator.YOLOV3_DETECTION_OUTPUT, yolo(given_heads, anchors, 0.05, 0.4, room))
    assert np.array_equal(best, every[:room])


@few
@given(seed=seeds)
def test_matmul_is_ncnns(seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    m, n, k = (int(size) for size in generator.integers(1, 20, 3))
    left, right = (generator.normal(0, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    (found,) = same(Operator.MATMUL, [empty(m, n), left, right])
    expected = by_ncnn("MatMul", "", [left, right], tmp_path)
    assert expected is not None
    np.testing.assert_allclose(found, expected, rtol=NEAR, atol=NEAR)
    bias = generator.normal(0, 1, n).astype(np.float32)
    (with_bias,) = same(Operator.MATMUL, [empty(m, n), left, right, bias])
    np.testing.assert_allclose(with_bias, found + bias, rtol=NEAR, atol=NEAR)


@few
@given(seed=seeds)
def test_embed_looks_rows_up(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table, bias = generator.normal(0, 1, (7, 5)).astype(np.float32), generator.random(5).astype(np.float32)
    indices = np.concatenate([generator.integers(-9, 16, 10), [-(2**31), 2**31 - 1]]).astype(np.int32)
    rows = table[np.clip(indices, 0, 6)]
    assert np.array_equal(same(Operator.EMBED, [empty(12, 5), indices, table])[0], rows)
    np.testing.assert_allclose(
        same(Operator.EMBED, [empty(12, 5), indices, table, bias])[0], rows + bias, rtol=NEAR
    )


@few
@given(seed=seeds)
def test_argmax_orders_as_ncnn_does(seed: int) -> None:
    """By value and then by number, both descending; ncnn's wheel has no ArgMax to compare with."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-5, 5, int(generator.integers(1, 30))).astype(np.float32)
    most = int(generator.integers(1, len(values) + 1))
    (found,) = same(Operator.ARGMAX, [empty(most, dtype="int32"), values])
    expected = sorted(((value, i) for i, value in enumerate(values.tolist())), reverse=True)
    assert found.tolist() == [i for _, i in expected][:most]


def _along(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@few
@given(seed=seeds, rank=st.integers(1, 3))
def test_layers_along_an_axis_are_ncnns(seed: int, rank: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    shape = tuple(2 * int(size) for size in generator.integers(1, 5, rank))
    data = generator.normal(0, 2, shape).astype(np.float32)
    for axis in range(rank):
        whole = _along(shape, axis)
        halves = [np.ascontiguousarray(half) for half in np.split(data.reshape(whole), 2, axis=1)]
        for operator, layer, text, operands in (
            (Operator.GLU, "GLU", f"0={axis}", halves),
            (Operator.CUMULATIVE_SUM, "CumulativeSum", f"0={axis}", [data.reshape(whole)]),
            (Operator.FLIP, "Flip", f"-23300=1,{axis}", [data.reshape(whole)]),
        ):
            (found,) = same(operator, [empty(*operands[0].shape), *operands])
            expected = by_ncnn(layer, text, [data], tmp_path)
            assert expected is not None
            np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=NEAR, atol=NEAR)


@few
@given(seed=seeds)
def test_no_number_is_too_odd(seed: int) -> None:
    """With infinities, NaNs and extreme numbers core and NumPy agree, and every operator comes to its end."""
    generator = np.random.default_rng(seed)

    def odd(*shape: int) -> Array:
        plain = generator.normal(0, 2, shape).astype(np.float32)
        return np.where(generator.random(shape) < 0.3, generator.choice(ODD, shape), plain)

    same(Operator.MATMUL, [empty(4, 5), odd(4, 3), odd(3, 5), odd(5)])
    same(Operator.ARGMAX, [empty(9, dtype="int32"), odd(12)])
    same(Operator.GLU, [empty(2, 3, 4), odd(2, 3, 4), odd(2, 3, 4)])
    same(Operator.CUMULATIVE_SUM, [empty(2, 5, 4), odd(2, 5, 4)])
    same(Operator.FLIP, [empty(2, 5, 4), odd(2, 5, 4)])
    lowest, overlap = (float(value) for value in odd(2))
    same(Operator.YOLOV3_DETECTION_OUTPUT, yolo([odd(2, 8, 3, 4)], [odd(2, 2)], lowest, overlap, 30))
    same(Operator.YOLO_DETECTION_OUTPUT, yolo([odd(2, 8, 3, 4)], [odd(2, 2)], lowest, overlap, 30))
    front = [empty(5, 6), empty(1, dtype="int32"), empty(9, 7)]
    same(Operator.DETECTION_OUTPUT, [*front, odd(3), odd(9, 4), odd(9, 3), odd(2, 9, 4)])


def test_a_nan_is_no_largest_element() -> None:
    values = np.array([np.nan, 2, np.nan, 2, -np.inf], np.float32)
    (found,) = same(Operator.ARGMAX, [empty(5, dtype="int32"), values])
    assert found.tolist() == [3, 1, 4, -1, -1]


@pytest.mark.parametrize("operator", [Operator.YOLO_DETECTION_OUTPUT, Operator.YOLOV3_DETECTION_OUTPUT])
def test_of_equal_boxes_the_first_wins(operator: Operator) -> None:
    head = np.zeros((2, 7, 1, 1), np.float32)
    head[:, 5] = 1  # both boxes are of class 0, at the same place
    (boxes, count) = same(operator, yolo([head], [np.array([[0.5, 0.5], [0.25, 0.25]], np.float32)], 0.1, 0.9, 4))
    assert count.tolist() == [2]
    assert boxes[0, 4] - boxes[0, 2] == 0.5
    assert boxes[1, 4] - boxes[1, 2] == 0.25
