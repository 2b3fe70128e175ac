# SPDX-License-Identifier: BSD-2-Clause
"""What an operator computes, in NumPy: the second opinion; the device's is tee_replayer/features/operators/.

Numbers are computed in double precision and rounded when they are stored, as on the device, in its order of sums;
what exp gives may differ in the last bit of a double. Products of whole matrices are in fused.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.model.fused import conv1x1, dense
from trace_format.operators import Operator

Array = NDArray[Any]
Doubles = NDArray[np.float64]
Candidates = NDArray[np.float32]  # a row: label, score, left, top, right, bottom
EXP_LIMIT, EXP_ZERO = 709.0, -708.0
LARGEST = (1 << 31) - 1
YOLO_OPERANDS = 4  # before the heads


def compute(operator: Operator, operands: Sequence[Array]) -> list[Array]:
    """What an operator writes.

    Args:
        operator: which.
        operands: all of them, in their order, those that it writes with what is there before.

    Returns:
        The new content of the first operands, as many as it writes. Working memory is left out: it is zero at the
        end.

    Raises:
        ValueError: the operands let it access what is not there.
    """
    with np.errstate(all="ignore"):
        match operator:
            case Operator.COPY:
                return [operands[1].reshape(operands[0].shape)]
            case Operator.DETECTION_OUTPUT:
                return _detection_output(operands)
            case Operator.YOLO_DETECTION_OUTPUT | Operator.YOLOV3_DETECTION_OUTPUT:
                return _yolo(operands, operator is Operator.YOLO_DETECTION_OUTPUT)
            case Operator.MATMUL:
                return [_matmul(*operands[1:])]
            case Operator.EMBED:
                return [_embed(*operands[1:])]
            case Operator.ARGMAX:
                return [_argmax(operands[1], len(operands[0]))]
            case Operator.GLU:
                numbers, gate = (operand.astype(np.float64) for operand in operands[1:])
                return [(numbers * _sigmoid(gate)).astype(np.float32)]
            case Operator.CUMULATIVE_SUM:
                return [np.cumsum(operands[1], axis=1, dtype=np.float64).astype(np.float32)]
            case Operator.FLIP:
                return [operands[1][:, ::-1]]
            case Operator.CONV1X1:
                return [conv1x1(*operands[1:])]
            case Operator.DENSE:
                return [dense(*operands[1:])]


def _matmul(left: Array, right: Array, bias: Array | None = None) -> Array:
    total = np.zeros((left.shape[0], right.shape[1]))
    for i in range(left.shape[1]):  # in the device's order
        total += left[:, i : i + 1].astype(np.float64) * right[i : i + 1].astype(np.float64)
    result: Array = (total if bias is None else total + bias).astype(np.float32)
    return result


def _embed(indices: Array, table: Array, bias: Array | None = None) -> Array:
    rows = table[np.clip(indices, 0, len(table) - 1)].astype(np.float64)
    result: Array = (rows if bias is None else rows + bias).astype(np.float32)
    return result


def _argmax(values: Array, most: int) -> Array:
    order = [i for i in np.lexsort((np.arange(len(values)), values))[::-1] if not np.isnan(values[i])]
    found = np.full(most, -1, np.int32)
    found[: len(order)] = order[:most]
    return found


def _exp(x: Doubles) -> Doubles:
    found = np.exp(np.clip(x, EXP_ZERO, EXP_LIMIT))
    return np.asarray(np.where(x > EXP_LIMIT, np.inf, np.where(x < EXP_ZERO, 0, found)))


def _sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + _exp(-x))


def _whole(value: float) -> int:
    return min(int(value), LARGEST) if value >= 1 and np.isfinite(value) else LARGEST if value > 1 else 0


def _rows(label: Array, score: Array, centre: Sequence[Doubles], size: Sequence[Doubles]) -> Candidates:
    """Candidates by their centres and sizes, (x, y) each."""
    low, high = ([c + sign * s * 0.5 for c, s in zip(centre, size, strict=True)] for sign in (-1, 1))
    return np.stack([label, score, *low, *high], axis=-1).astype(np.float32).reshape(-1, 6)


def _overlaps(rows: Candidates, best: Array) -> Doubles:
    """Intersection over union of each row and one."""
    left, top, right, bottom = rows[:, 2:].astype(np.float64).T
    x0, y0, x1, y1 = best[2:].astype(np.float64)
    apart = (left > x1) | (right < x0) | (top > y1) | (bottom < y0)
    width = np.where(x1 < right, x1, right) - np.where(left < x0, x0, left)
    height = np.where(y1 < bottom, y1, bottom) - np.where(top < y0, y0, top)
    inside = np.where(apart, 0, width * height)
    found: Doubles = inside / ((right - left) * (bottom - top) + (x1 - x0) * (y1 - y0) - inside)
    return found


def _choose(rows: Candidates, most: int, greatest: float) -> Candidates:
    """Those that no better one overlaps too much, the best first."""
    order = np.argsort(-rows[:, 1], kind="stable")[:most]
    waiting = np.ones(len(rows), np.bool_)
    chosen = []
    for at in order.tolist():
        if waiting[at]:
            chosen.append(at)
            waiting &= ~(_overlaps(rows, rows[at]) > greatest)
    return rows[chosen]


def _boxes(rows: Candidates, room: int) -> list[Array]:
    best = rows[np.argsort(-rows[:, 1], kind="stable")][:room]
    boxes = np.zeros((room, 6), np.float32)
    boxes[: len(best)] = best
    return [boxes, np.array([len(best)], np.int32)]


def _detection_output(operands: Sequence[Array]) -> list[Array]:
    boxes, _, _, parameters, location, confidence, priors = operands
    lowest, greatest, most = (float(p) for p in parameters)
    move = location.astype(np.float64)
    prior, variance = priors.astype(np.float64)
    span = prior[:, 2:] - prior[:, :2]
    centre = variance[:, :2] * move[:, :2] * span + (prior[:, :2] + prior[:, 2:]) * 0.5
    size = _exp(variance[:, 2:] * move[:, 2:]) * span
    scores = confidence.astype(np.float64)
    background = scores[:, 0] >= 1 - lowest
    found = [np.zeros((0, 6), np.float32)]
    for label in range(1, confidence.shape[1]):
        which = (scores[:, label] > lowest) & ~background
        score = confidence[which, label]
        rows = _rows(np.full(len(score), label), score, centre[which].T, size[which].T)
        found.append(_choose(rows, _whole(most), greatest))
    return _boxes(np.concatenate(found), len(boxes))


def _yolo(operands: Sequence[Array], has_softmax: bool) -> list[Array]:
    boxes, (lowest, greatest) = operands[0], operands[3].astype(np.float64)
    found = []
    for head, anchors in zip(operands[YOLO_OPERANDS::2], operands[YOLO_OPERANDS + 1 :: 2], strict=True):
        if head.shape[1] < 5:
            raise ValueError(f"a head with {head.shape[1]} numbers for a box: expected at least 5")
        x, y, width, height, objectness = head[:, :5].astype(np.float64).transpose(1, 0, 2, 3)
        numbers = head[:, 5:].astype(np.float64)
        ordered = np.where(np.isnan(numbers), -np.inf, numbers)  # a NaN is no largest
        best = np.argmax(ordered, axis=1) if numbers.shape[1] else np.zeros(x.shape, np.int64)
        highest = np.max(ordered, axis=1, initial=-np.inf)
        total = np.zeros(x.shape)
        for number in numbers.transpose(1, 0, 2, 3):  # in the device's order
            total += _exp(number - highest)
        # The brackets of version 3 are ncnn's: not a product of two sigmoids.
        of_softmax = _sigmoid(objectness) / total
        score = of_softmax if has_softmax else 1 / (1 + _exp(-objectness) * (1 + _exp(-highest)))
        score = score.astype(np.float32)
        rows, columns = np.mgrid[: head.shape[2], : head.shape[3]]
        centre = [(columns + _sigmoid(x)) / head.shape[3], (rows + _sigmoid(y)) / head.shape[2]]
        size = [_exp(n) * anchors[:, i].reshape(-1, 1, 1) for i, n in enumerate((width, height))]
        found.append(_rows(best + 1, score, centre, size)[(score >= lowest).reshape(-1)])
    every = np.concatenate(found)
    return _boxes(_choose(every, len(every), greatest), len(boxes))
