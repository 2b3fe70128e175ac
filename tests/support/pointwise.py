# SPDX-License-Identifier: BSD-2-Clause
"""A small network of which the CPU can share three layers, recorded by tinygrad.

`python -m tests.support.pointwise` makes the committed recording again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.record import onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.frontends import record_onnx
from host_tools.support.files import write_atomically
from tests.support.onnx_networks import pointwise
from trace_format.trace import Trace

RAW = Path(__file__).with_name("pointwise.raw.gtr")
Floats = NDArray[np.float32]
SHAPE = (1, 16, 16, 16)
GFLOPS = 9.2  # of a core of a Raspberry Pi 4 by ncnn's benchmark of MobileNet


def given(seed: int) -> dict[str, Floats]:
    """An input."""
    return {"image": np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)}


def by_onnx(seed: int) -> Floats:
    """What ONNX Runtime makes of it."""
    with tempfile.TemporaryDirectory() as folder:
        model = onnx_model.read(pointwise(Path(folder) / "net.onnx"))
        return np.asarray(onnx_model.run(model, given(seed))["classes"])


def record(gpu: str = "v3d42") -> Trace:
    """The recording, made anew."""
    with tempfile.TemporaryDirectory() as folder:
        path = pointwise(Path(folder) / "net.onnx")
        return record_onnx(path, {}, compiler=TINYGRAD, name="pointwise", gpu=gpu, timeout=900)


if __name__ == "__main__":
    write_atomically(RAW, record().build())
