# SPDX-License-Identifier: BSD-2-Clause
"""How many jobs ncnn submits for one inference: ncnn's own code runs here, on a driver that counts them.

As a program, with DRIVER NET.param NET.bin [OPTION].. [BLOB].. NAME=SHAPE.. after the module's name, it prints the
number of dispatches and copies, and how much convolutions and products multiply. ncnn chooses by layers and
options, which are the guest's, and by the GPU's memory. The driver says that no memory is cached, as the guest's
drivers do, so that ncnn has a job copy each result before it reads it. It says that subgroups cannot add, as on a
V3D 4.2, so that ncnn sums in more jobs. The processor's features do not matter: ncnn packs by 4 what it uploads,
and a job unpacks it.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.machine.errors import RecordError
from host_tools.record.ncnn.guest.guest_ncnn import FP16, INT8, infer, load
from host_tools.record.ncnn.param import Layer, layers_of, leading_to
from host_tools.record.needs import LAVAPIPE, lavapipe
from host_tools.support import programs
from host_tools.support.confined import PYTHON
from host_tools.support.sandbox import Sandbox
from host_tools.vgpu.build import shared_object
from trace_format import limits
from trace_format.files import read_file, read_file_text

SOURCE = Path(__file__).with_name("counting_driver.c")
# Layer -> the number of its setting that says how many weights it has (ncnn docs/developer-guide/operators.md).
WEIGHTS = {f"{kind}{more}": 6 for kind in ("Convolution", "Deconvolution") for more in ("", "1D", "DepthWise")}
WEIGHTS |= {"InnerProduct": 2}
TIMEOUT_S = 300.0


def counted(
    network: tuple[bytes, bytes],
    shapes: Mapping[str, Sequence[int]],
    until: Sequence[str] = (),
    options: Sequence[str] = (),
) -> tuple[int | None, int]:
    """Jobs of a recording by ncnn, and multiplications with additions.

    Args:
        network: ncnn's text and binary files.
        shapes: of the input blobs.
        until: blobs to compute; empty: all outputs.
        options: of the guest's program (`program_options`).

    Returns:
        Both; None and 0: there is no lavapipe, which does what is not counted.

    Raises:
        RecordError: ncnn does not run the network on a GPU.
    """
    announced = lavapipe()
    if announced is None or not LAVAPIPE.is_there():
        return None, 0
    real = json.loads(read_file(announced, limits.TEXT_BYTES))["ICD"]["library_path"]
    driver = shared_object("counting_driver", [SOURCE])
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        folder = Path(name)
        for file, data in zip(("net.param", "net.bin"), network, strict=True):
            (folder / file).write_bytes(data)
        words = [*options, *until, *(f"{blob}={'x'.join(map(str, shape))}" for blob, shape in shapes.items())]
        done = programs.run(
            [*PYTHON, __name__, str(driver), "net.param", "net.bin", *words],
            timeout_s=TIMEOUT_S,
            cwd=folder,
            sandbox=Sandbox(reads=(driver, announced), writes=(folder,)),
            env={**os.environ, "NCNN_VULKAN_DRIVER": str(driver), "GRAMOPHONE_DRIVER": str(real)},
        )
    if done.returncode:
        raise RecordError(f"ncnn's jobs cannot be counted: {' '.join(done.stderr.split()[-30:])}")
    jobs, macs = map(int, done.stdout.split()[-2:])
    return jobs, macs


def main(arguments: Sequence[str]) -> None:
    """Run as the module's text says."""
    driver, param, weights, *words = arguments
    options = [word for word in words if word.startswith("--")]
    inputs = {}
    for word in words:
        blob, equals, shape = word.partition("=")
        if equals:
            inputs[blob] = np.ones(tuple(map(int, shape.split("x"))), np.float32).data
    until = [word for word in words if word not in options and "=" not in word]
    on = (*(INT8 if "--int8" in options else ()), *(FP16 if "--fp16" in options else ()))
    net = load(param, weights, True, on)
    jobs = ctypes.CDLL(driver).gramophone_jobs
    before = jobs()  # weights may have been copied
    infer(net, inputs, until or list(net.output_names()))
    submitted = jobs() - before
    layers = leading_to(layers_of(read_file_text(Path(param), limits.MODEL_BYTES)), until)
    print(submitted, _macs(net, inputs, [layer for layer in layers if layer.type in WEIGHTS]))


def _macs(net: Any, inputs: Mapping[str, Any], layers: Sequence[Layer]) -> int:
    """Multiplications with weights: each is used once for each place of the result."""
    if not layers:
        return 0
    results = infer(net, inputs, [layer.tops[0] for layer in layers])
    found = 0
    for layer, mat in zip(layers, results, strict=True):
        shape = np.array(mat).shape
        places = shape[1:] if "onvolution" in layer.type else shape[:-1]  # of channels, of a vector
        found += layer.number(WEIGHTS[layer.type], 0) * math.prod(places)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
