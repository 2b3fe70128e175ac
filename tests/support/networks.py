# SPDX-License-Identifier: BSD-2-Clause
"""Whole networks, recorded once in a run of the tests: that takes a minute.

`python -m tests.support.networks GPU` makes a committed recording of LeNet again: mali_g71 or v3d71.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from docs.examples import models
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.passes.pipeline import build
from host_tools.record.ncnn.network import record_network
from host_tools.support.cache import locked
from host_tools.support.files import write_atomically
from host_tools.support.gpu_folders import DEFAULT_GPU
from trace_format.trace import Trace

SEED = 11
LENET = "lenet"
# Committed recordings of LeNet.
COMMITTED = {DEFAULT_GPU: RAW}
COMMITTED |= {gpu: Path(__file__).with_name(f"lenet.{gpu}.raw.gtr") for gpu in ("mali_g71", "v3d71")}
SIZES = {"mobilenet_v1": 224, "squeezenet_v1_1": 227}


def network(name: str) -> tuple[bytes, bytes]:
    """ncnn's two files of the demo network, or of one with random weights."""
    if name == LENET:
        return PARAM.read_bytes(), WEIGHTS.read_bytes()
    files: tuple[bytes, bytes] = getattr(models, name)(seed=SEED, size=SIZES[name])
    return files


def shape(name: str) -> tuple[int, int, int]:
    """That of the network's input, which is called "data"."""
    return (1, 28, 28) if name == LENET else (3, SIZES[name], SIZES[name])


def picture(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """An input that is not in the recording."""
    return np.random.default_rng(77).normal(0, 1, shape(name)).astype(np.float32)


def record(name: str, gpu: str) -> Trace:
    """A new recording of a network."""
    param, weights = network(name)
    return record_network(param, weights, {"data": shape(name)}, name=name, gpu=gpu)


def recorded(name: str, folder: Path, gpu: str = DEFAULT_GPU) -> Trace:
    """The recording of a network; kept in `folder`, for other processes too."""
    path = folder / f"{name}-{gpu}.raw.gtr"
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            write_atomically(path, record(name, gpu).build())
        return Trace.read(path)


def built(name: str, folder: Path, gpu: str = DEFAULT_GPU) -> Trace:
    """The recorded and built trace of a network; kept in the same way."""
    path = folder / f"{name}-{gpu}.gtr"
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            write_atomically(path, build(recorded(name, folder, gpu)).build())
        return Trace.read(path)


if __name__ == "__main__":
    write_atomically(COMMITTED[sys.argv[1]], record(LENET, sys.argv[1]).build())
