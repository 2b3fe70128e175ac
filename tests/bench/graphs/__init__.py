# SPDX-License-Identifier: BSD-2-Clause
"""Networks of ncnn's benchmark, written anew from the papers that each module names, with random weights."""

from __future__ import annotations

from collections.abc import Callable

from host_tools.demo.models import MODELS
from tests.bench.graphs import mobile, plain, residual
from tests.bench.graphs.writer import Graph

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
    )
}


def _files(network: Callable[[int], Graph]) -> Callable[[int], Files]:
    return lambda seed: network(seed).files()


GRAPHS: dict[str, tuple[Callable[[int], Files], Shape]] = {
    **MODELS,
    **{name: (_files(network), shape) for name, (network, shape) in WRITERS.items()},
}
