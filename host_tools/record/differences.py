# SPDX-License-Identifier: BSD-2-Clause
"""How far a result may be from a framework's CPU result, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
# Largest difference to ncnn's CPU result, relative to the largest value of the tensor.
TOLERANCE = 1e-4
# Where two back ends round an activation differently, it is a step of 1/127 apart, and what follows carries it on.
# Measured on ncnn's benchmark networks: up to 2.6e-2, on this GPU as on a software one with the same shaders.
INT8_TOLERANCE = 5e-2
FP16_TOLERANCE = 1e-2  # activations keep 11 bits, the reference 24; measured: up to 2.5e-3


def default_tolerance(options: Sequence[str], halves: bool = False) -> float:
    """Largest difference to ncnn's CPU result that rounding explains.

    Args:
        options: of the guest's program.
        halves: a layer of the network itself casts to half precision.
    """
    if "--int8" in options:
        return INT8_TOLERANCE
    return FP16_TOLERANCE if halves or "--fp16" in options else TOLERANCE


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
