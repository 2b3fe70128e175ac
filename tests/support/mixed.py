# SPDX-License-Identifier: BSD-2-Clause
"""A small network of which ncnn computes layers on the CPU: between others, one after another, at the end.

`python -m tests.support.mixed` makes the committed recording again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.support.files import write_atomically
from tests.support import ncnn_text
from trace_format.trace import Trace

RAW = Path(__file__).with_name("mixed.raw.gtr")
Floats = NDArray[np.float32]
SHAPE = (1, 16, 16)
OUTPUTS = ("prob", "sums")
_CONVOLUTION = "Convolution {0} 1 1 {1} {0} 0={2} 1={4} 4={5} 5=1 6={6}"
# name, input, outputs, inputs, kernel
_CONVOLUTIONS = {"first": ("data", 8, 1, 3), "inner": ("gated", 8, 4, 3), "matrix": ("x2", 1, 8, 1)}
_SIZES = {"first": (8, 9), "inner": (8, 36), "matrix": (1, 8), "dense": (10, 2048)}  # outputs, inputs of each


def graph() -> bytes:
    """ncnn's text file: on the CPU are GLU, Squeeze, Flip, MatMul and CumulativeSum."""

    def convolution(name: str) -> str:
        bottom, outputs, inputs, kernel = _CONVOLUTIONS[name]
        numbers = outputs * inputs * kernel**2
        return _CONVOLUTION.format(name, bottom, outputs, inputs, kernel, kernel // 2, numbers)

    return ncnn_text.param(
        [
            "Input data 0 1 data",
            convolution("first"),
            "Split split 1 3 first x1 x2 x3",
            "GLU glu 1 1 x1 gated 0=0",
            convolution("inner"),
            convolution("matrix"),
            "Squeeze squeeze 1 1 matrix square -23303=1,0",
            "Flip flip 1 1 x3 flipped -23300=1,1",
            "MatMul product 2 1 flipped square mixed",
            "BinaryOp sum 2 1 inner mixed both 0=0",
            "Split again 1 2 both y1 y2",
            "InnerProduct dense 1 1 y1 dense 0=10 1=1 2=20480",
            "Softmax prob 1 1 dense prob 0=0",
            "CumulativeSum sums 1 1 y2 sums 0=2",
        ]
    )


def weights() -> bytes:
    """ncnn's binary file."""
    generator = np.random.default_rng(9)
    out = b""
    for outputs, inputs in _SIZES.values():
        matrix = generator.normal(0, 1 / np.sqrt(inputs), (outputs, inputs)).astype("<f4")
        out += bytes(4) + matrix.tobytes() + generator.normal(0, 0.1, outputs).astype("<f4").tobytes()
    return out


def given(seed: int) -> Floats:
    """An input."""
    return np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)


def by_ncnn(seed: int) -> dict[str, Floats]:
    """What ncnn's CPU back end makes of it."""
    return ncnn_cpu.run_files((graph(), weights()), {"data": given(seed)}, OUTPUTS)


def record(gpu: str = "v3d42") -> Trace:
    """The recording, made anew."""
    return record_network(graph(), weights(), {"data": SHAPE}, name="mixed", gpu=gpu)


if __name__ == "__main__":
    write_atomically(RAW, record().build())
