# SPDX-License-Identifier: BSD-2-Clause
"""How far a result is from a framework's CPU result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def relative_difference(found: Float32, reference: Float32) -> float:
    """Largest absolute difference over the largest absolute value of the reference."""
    if found.shape != reference.shape:
        return float("inf")
    if not reference.size:
        return 0.0
    largest = float(np.max(np.abs(reference)))
    return float(np.max(np.abs(found.astype(np.float64) - reference))) / (largest or 1.0)


def worst_element(found: Float32, reference: Float32) -> tuple[int, ...]:
    """Index of the element that differs most; of one that is not a number, first.

    Args:
        found, reference: of one shape, not empty.
    """
    difference = np.abs(found.astype(np.float64) - reference)
    index = np.unravel_index(int(np.argmax(np.where(np.isnan(difference), np.inf, difference))), reference.shape)
    return tuple(int(i) for i in index)
