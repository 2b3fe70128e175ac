# SPDX-License-Identifier: BSD-2-Clause
"""How far a result may be from a framework's CPU result."""

from __future__ import annotations

from collections.abc import Sequence

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
