# SPDX-License-Identifier: BSD-2-Clause
"""Reductions over lanes are the same with every instruction set that this machine has."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from host_tools.vgpu import build

SOURCE = Path(__file__).with_name("qpu_lanes.c")
# Levels of the x86-64 psABI: GCC 14 cannot take AVX-512 alone from what a processor with AVX10 has.
SETS = {"native": [], "without AVX-512": ["-march=x86-64-v3"], "without AVX": ["-march=x86-64-v2"]}


def _aligned(lanes: np.ndarray) -> np.ndarray:
    """At a multiple of 64 bytes."""
    room = np.zeros(128, np.uint8)
    found = room[-room.ctypes.data % 64 :][:64].view(np.uint32)
    found[:] = lanes
    return found


@pytest.mark.parametrize("name", SETS)
def test_reductions(name: str) -> None:
    if name == "without AVX-512" and " avx2 " not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        pytest.skip("this machine has no AVX2")
    library = ctypes.CDLL(str(build.shared_object("qpu-lanes", [SOURCE], SETS[name])))
    library.lanes_any.restype = ctypes.c_bool
    random = np.random.default_rng(3)
    masks = [0, 0xFFFF, *(1 << lane for lane in range(16)), *random.integers(0, 1 << 16, 100).tolist()]
    for bits in masks:
        holds = bits >> np.arange(16) & 1 == 1
        mask = _aligned(np.where(holds, 0xFFFFFFFF, 0))
        assert library.lanes_mask_bits(ctypes.c_void_p(mask.ctypes.data)) == bits
        values = _aligned(np.where(holds, 1 << random.integers(0, 32, 16), 0))
        assert library.lanes_any(ctypes.c_void_p(values.ctypes.data)) == (bits != 0)
