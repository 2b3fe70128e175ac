# SPDX-License-Identifier: BSD-2-Clause
"""Fits of non-negative coefficients to measured times, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDS = 12
LEAST_ERROR = 0.03  # below that an error gives a row no more weight


def nonnegative(matrix: Array, target: Array) -> Array:
    """Coefficients >= 0 of the least squares of `matrix @ coefficients - target`.

    Active sets (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23).
    """
    count = matrix.shape[1]
    scale = np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(float).tiny)
    scaled = matrix / scale
    found = np.zeros(count)
    free = np.zeros(count, np.bool_)
    for _ in range(10 * count):
        gradient = scaled.T @ (target - scaled @ found)
        gradient[free] = 0
        if gradient.max() <= 1e-10 * np.abs(target).max():
            break
        free[np.argmax(gradient)] = True
        while True:
            tried = np.zeros(count)
            tried[free] = np.linalg.lstsq(scaled[:, free], target, rcond=None)[0]
            negative = free & (tried <= 0)
            if not negative.any():
                break
            step = np.min(found[negative] / (found[negative] - tried[negative]))
            found += step * (tried - found)
            free &= found > 1e-12
            found[~free] = 0
        found = tried
    coefficients: Array = found / scale
    return coefficients


def fit(features: Array, us: Array, delays: Sequence[float] = (0.0,)) -> Array:
    """Coefficients >= 0 for relative errors; each row may have had one of the delays, as fits it best.

    A mixture, fitted in turns: which delay each row had, then the coefficients; rows far off count less.

    Args:
        features: rows, coefficients.
        us: measured.
        delays: in us, 0 among them.
    """
    choice = np.array(delays)
    extra, weight = np.zeros(len(us)), 1 / us
    for _ in range(ROUNDS):
        found = nonnegative(features * weight[:, None], np.maximum(us - extra, 5) * weight)
        candidates = np.maximum(features @ found, 1e-3)[:, None] + choice
        extra = choice[np.argmin(np.abs(np.log(candidates / us[:, None])), axis=1)]
        error = np.abs(features @ found + extra - us) / us
        weight = 1 / us / np.sqrt(np.maximum(error, LEAST_ERROR))
    return found


def rank(one: Array, two: Array) -> float:
    """Spearman's rank correlation; equal values have the mean of their ranks."""
    return float(np.corrcoef(_ranks(one), _ranks(two))[0, 1])


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Array = last - (counts - 1) / 2
    return means[inverse]


@dataclass(frozen=True)
class Score:
    """Mean relative error in per cent, the same where a delay may be added if that is better, rank."""

    rows: int
    mean: float
    aware: float
    median_aware: float
    rank: float


def score(predicted: Array, us: Array, delays: Sequence[float] = (0.0,)) -> Score:
    """How good predictions are, in per cent of the measured times."""
    plain = np.abs(predicted - us) / us
    aware = np.min(np.abs(predicted[:, None] + np.array(delays) - us[:, None]), axis=1) / us
    return Score(
        len(us),
        100 * float(plain.mean()),
        100 * float(aware.mean()),
        100 * float(np.median(aware)),
        rank(predicted, us),
    )
