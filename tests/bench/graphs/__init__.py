# SPDX-License-Identifier: BSD-2-Clause
"""Networks of ncnn's benchmark, written anew from the papers that each module names, with random weights. Those
with int8 weights are quantised on the way, with a random picture for the ranges of activations.

Not in here: recording them (`tests/bench/breadth.py`), and MobileNet and SqueezeNet (`docs/examples/models.py`).

Read first: writer.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from docs.examples.models import MODELS
from tests.bench.graphs import detectors, mobile, plain, residual, transformer
from tests.bench.graphs.writer import Graph
from tests.support.int8 import quantised

Files = tuple[bytes, bytes]
Shape = tuple[int, int, int]

WRITERS: dict[str, tuple[Callable[[int], Graph], Shape]] = {
    network.__name__: (network, (3, size, size))
    for network, size in (
        (residual.shufflenet_v2, 224),
        (mobile.mobilenet_v2, 224),
        (mobile.mobilenet_v3_small, 224),
        (residual.resnet18, 224),
        (mobile.mobilenet_v3, 224),
        (residual.shufflenet, 224),
        (mobile.mnasnet, 224),
        (mobile.proxylessnasnet, 224),
        (mobile.efficientnet_b0, 224),
        (mobile.efficientnetv2_b0, 224),
        (residual.regnety_400m, 224),
        (plain.googlenet, 224),
        (residual.resnet50, 224),
        (plain.alexnet, 227),
        (plain.vgg16, 224),
        (transformer.vision_transformer, 224),
        (detectors.blazeface, 128),
        (detectors.nanodet_m, 320),
        (detectors.fastestdet, 352),
        (detectors.yolov4_tiny, 416),
        (detectors.mobilenet_ssd, 300),
        (detectors.squeezenet_ssd, 300),
        (detectors.mobilenetv2_yolov3, 352),
        (detectors.mobilenet_yolo, 416),
        (detectors.yolo_fastestv2, 352),
        (detectors.yolo_fastest, 320),
    )
}


def _files(network: Callable[[int], Graph]) -> Callable[[int], Files]:
    return lambda seed: network(seed).files()


def _int8(make: Callable[[int], Files], shape: Shape) -> Callable[[int], Files]:
    def files(seed: int) -> Files:
        picture = np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)
        return quantised(*make(seed), {"data": picture})

    return files


_FLOAT32: dict[str, tuple[Callable[[int], Files], Shape]] = {
    **MODELS,
    **{name: (_files(network), shape) for name, (network, shape) in WRITERS.items()},
}
# Those that ncnn's benchmark has with int8 weights too.
QUANTISED = (
    "squeezenet_v1.1",
    "mobilenet_v1",
    "googlenet",
    "resnet18",
    "resnet50",
    "vgg16",
    "mobilenet_ssd",
    "squeezenet_ssd",
)
GRAPHS = _FLOAT32 | {f"{name}_int8": (_int8(*_FLOAT32[name]), _FLOAT32[name][1]) for name in QUANTISED}
