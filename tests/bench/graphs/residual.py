# SPDX-License-Identifier: BSD-2-Clause
"""Residual networks, and those that shuffle channels.

ResNet: K. He et al., arXiv 1512.03385, table 1. RegNetY-400MF: I. Radosavovic et al., arXiv 2003.13678, as
torchvision has it. ShuffleNet (3 groups): X. Zhang et al., arXiv 1707.01083, table 1 and figure 2. ShuffleNet v2:
N. Ma et al., arXiv 1807.11164, table 5 and figure 3.
"""

from __future__ import annotations

from tests.bench.graphs.writer import Graph


def resnet18(seed: int) -> Graph:
    """ResNet-18 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.convolution("conv1", 64, 7, 2, 3)
    net.max_pool_padded("pool1")
    for stage, channels in enumerate((64, 128, 256, 512), 2):
        for block in (1, 2):
            name = f"conv{stage}_{block}"
            stride = 2 if stage > 2 and block == 1 else 1
            before = net.channels
            short, long = net.split(f"{name}_split")
            net.convolution(f"{name}_a", channels, 3, stride, 1, bottom=long)
            net.convolution(f"{name}_b", channels, 3, 1, 1, relu=False)
            if stride == 2:
                net.channels = before
                short = net.convolution(f"{name}_short", channels, 1, stride, bottom=short, relu=False)
            net.binary(f"{name}_add", 0, f"{name}_b", short)
            net.activation("ReLU", name)
    return net.classes()


def _bottleneck(
    net: Graph, name: str, width: int, out: int, stride: int, *, groups: int = 1, excite: int = 0
) -> None:
    """1x1, 3x3 and 1x1, beside a short cut, which is a convolution where shapes differ."""
    before = net.channels
    short, long = net.split(f"{name}_split")
    net.conv(f"{name}_a", width, 1, 1, "ReLU", bottom=long)
    net.conv(f"{name}_b", width, 3, stride, "ReLU", groups=groups)
    if excite:
        net.squeeze_excite(f"{name}_se", excite, ("ReLU", "Sigmoid"))
    long = net.conv(f"{name}_c", out, 1)
    if stride != 1 or before != out:
        net.channels = before
        short = net.conv(f"{name}_short", out, 1, stride, bottom=short)
    net.binary(f"{name}_add", 0, long, short)
    net.activation("ReLU", name)


def resnet50(seed: int) -> Graph:
    """ResNet-50 at 224 x 224, its strides in the 3x3 convolutions."""
    net = Graph(seed, 3, 224)
    net.conv("conv1", 64, 7, 2, "ReLU")
    net.max_pool_padded("pool1")
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for block in range(blocks):
            stride = 2 if stage > 2 and block == 0 else 1
            _bottleneck(net, f"conv{stage}_{block}", width, 4 * width, stride)
    return net.classes()


def regnety_400m(seed: int) -> Graph:
    """RegNetY-400MF at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.conv("conv1", 32, 3, 2, "ReLU")
    for stage, (width, blocks) in enumerate(((48, 1), (104, 3), (208, 6), (440, 6)), 1):
        for block in range(blocks):
            squeeze = round(net.channels / 4)
            stride = 1 if block else 2
            _bottleneck(net, f"stage{stage}_{block}", width, width, stride, groups=width // 8, excite=squeeze)
    return net.classes()


def shufflenet(seed: int) -> Graph:
    """ShuffleNet 1x with 3 groups at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.conv("conv1", 24, 3, 2, "ReLU")
    net.max_pool_padded("pool1")
    for stage, (channels, units) in enumerate(((240, 4), (480, 8), (960, 4)), 2):
        for unit in range(units):
            name, before = f"stage{stage}_{unit}", net.channels
            short, long = net.split(f"{name}_split")
            net.conv(f"{name}_a", channels // 4, 1, 1, "ReLU", groups=1 if before == 24 else 3, bottom=long)
            net.shuffle(f"{name}_shuffle", 3)
            net.conv(f"{name}_dw", channels // 4, 3, 1 if unit else 2, groups=channels // 4)
            long = net.conv(f"{name}_b", channels if unit else channels - before, 1, groups=3)
            if unit:
                net.binary(f"{name}_add", 0, long, short)
            else:
                short = net.layer("Pooling", f"{name}_pool", [short], "0=1 1=3 2=2 3=1 5=1")
                net.concat(f"{name}_concat", [short, long], channels)
            net.activation("ReLU", name)
    return net.classes()


def shuffle_stage(net: Graph, stage: int, channels: int, repeats: int, act: str = "ReLU") -> None:
    """A stage of ShuffleNet v2, which halves width and height."""
    for unit in range(repeats):
        name, half, before = f"stage{stage}_{unit}", channels // 2, net.channels
        one, two = net.split(f"{name}_split") if unit == 0 else net.halves(f"{name}_split")
        if unit == 0:
            net.blob = one
            net.conv(f"{name}_left_dw", before, 3, 2, groups=before)
            one = net.conv(f"{name}_left", half, 1, 1, act)
            net.channels = before
        net.conv(f"{name}_a", half, 1, 1, act, bottom=two)
        net.conv(f"{name}_dw", half, 3, 2 if unit == 0 else 1, groups=half)
        other = net.conv(f"{name}_b", half, 1, 1, act)
        net.concat(f"{name}_concat", [one, other], channels)
        net.shuffle(name)


def shufflenet_v2(seed: int) -> Graph:
    """ShuffleNet v2 1.0 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.conv("conv1", 24, 3, 2, "ReLU")
    net.max_pool_padded("pool1")
    for stage, (channels, repeats) in enumerate(((116, 4), (232, 8), (464, 4)), 2):
        shuffle_stage(net, stage, channels, repeats)
    net.conv("conv5", 1024, 1, 1, "ReLU")
    return net.classes()
