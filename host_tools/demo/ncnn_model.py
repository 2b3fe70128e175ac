# SPDX-License-Identifier: BSD-2-Clause
"""Runs the demo's ncnn model with ncnn's CPU back end: what the GPU's results are compared with."""

from pathlib import Path

import ncnn
import numpy as np
import numpy.typing as npt

INPUT, OUTPUT = "data", "prob"


def classify(param: Path, bin_: Path, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Runs a model with ncnn on the CPU, in float32 throughout.

    Args:
        param: the `.param` file.
        bin_: the `.bin` file.
        inputs: float32 (n, 1, 28, 28), 0..1.

    Returns:
        Probabilities, float32 (n, 10).

    Raises:
        ValueError: ncnn does not take the files, or gives no output.
    """
    with ncnn.Net() as net:
        net.opt.use_vulkan_compute = False
        net.opt.num_threads = 1
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        if net.load_param(str(param)) != 0 or net.load_model(str(bin_)) != 0:
            raise ValueError(f"{param}, {bin_}: not an ncnn model")
        return np.stack([_classify_one(net, picture) for picture in inputs])


def _classify_one(net: ncnn.Net, picture: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """One inference. A function, as ncnn aborts if extractor or output outlive the net's allocators."""
    extractor = net.create_extractor()
    extractor.input(INPUT, ncnn.Mat(np.ascontiguousarray(picture)))
    status, output = extractor.extract(OUTPUT)
    if status != 0:
        raise ValueError(f"ncnn: extracting {OUTPUT!r} failed with status {status}")
    return np.array(output, dtype=np.float32, copy=True)
