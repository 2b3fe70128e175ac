# SPDX-License-Identifier: BSD-2-Clause
"""Networks of inverted residuals.

MobileNetV2: M. Sandler et al., arXiv 1801.04381, table 2. MobileNetV3: A. Howard et al., arXiv 1905.02244, tables
1 and 2. MnasNet-B1: M. Tan et al., arXiv 1807.11626, as torchvision has it. ProxylessNAS (mobile): H. Cai et al.,
arXiv 1812.00332, as its code has it. EfficientNet-B0: M. Tan, Q. Le, arXiv 1905.11946, table 1; EfficientNetV2-B0:
the same, arXiv 2104.00298, as its code has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.graphs.writer import GATED, Graph

SWISH_GATE = ("Swish", "Sigmoid")


def inverted(
    net: Graph,
    name: str,
    expand: int,
    out: int,
    kernel: int,
    stride: int,
    kind: str,
    *,
    excite: bool | int = False,
    gate: tuple[str, str] = ("ReLU", "HardSigmoid"),
) -> None:
    """Widen by 1x1, convolve by channel, narrow by 1x1; with a short cut where that is possible."""
    before = net.channels
    residual = stride == 1 and before == out
    short = ""
    if residual:
        short, net.blob = net.split(f"{name}_split")
    if expand != before:
        net.conv(f"{name}_wide", expand, 1, 1, kind)
    net.conv(f"{name}_dw", expand, kernel, stride, kind, groups=expand)
    if excite:
        net.squeeze_excite(f"{name}_se", 0 if excite is True else excite, gate)
    net.conv(f"{name}_narrow", out, 1, gain=GATED if excite else 1.0)
    if residual:
        net.binary(f"{name}_add", 0, short, f"{name}_narrow")


Stage = tuple[int, int, int, int, int]


def _stages(net: Graph, stages: Sequence[Stage], kind: str, *, excite: bool = False, tapped: int = 0) -> str:
    """Stages of: how much they widen, kernel, output channels, blocks, stride of the first.

    Returns a second name for what the stage of the number `tapped` gives; the first has number 2.
    """
    tap = ""
    for number, (widen, kernel, out, repeats, stride) in enumerate(stages, 2):
        for repeat in range(repeats):
            name, width = f"conv{number}_{repeat}", net.channels
            squeeze = width // 4 if excite else 0
            first = stride if repeat == 0 else 1
            inverted(net, name, widen * width, out, kernel, first, kind, excite=squeeze, gate=SWISH_GATE)
        if number == tapped:
            tap, net.blob = net.split(f"conv{number}_out")
    return tap


def _stem(seed: int, channels: int, kind: str) -> Graph:
    net = Graph(seed, 3, 224)
    net.conv("conv1", channels, 3, 2, kind)
    return net


def _head(net: Graph, kind: str) -> Graph:
    net.conv("conv9", 1280, 1, 1, kind)
    return net.classes()


MOBILENET_V2 = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 3, 32, 3, 2),
    (6, 3, 64, 4, 2),
    (6, 3, 96, 3, 1),
    (6, 3, 160, 3, 2),
    (6, 3, 320, 1, 1),
)


def mobilenet_v2_backbone(net: Graph, *, tapped: int = 0) -> str:
    """MobileNetV2 without its head; what the stage `tapped` gives, too."""
    net.conv("conv1", 32, 3, 2, "ReLU6")
    return _stages(net, MOBILENET_V2, "ReLU6", tapped=tapped)


def mobilenet_v2(seed: int) -> Graph:
    """MobileNetV2 1.0 at 224 x 224."""
    net = Graph(seed, 3, 224)
    mobilenet_v2_backbone(net)
    return _head(net, "ReLU6")


def mnasnet(seed: int) -> Graph:
    """MnasNet-B1 1.0 at 224 x 224."""
    net = _stem(seed, 32, "ReLU")
    stages = (
        (1, 3, 16, 1, 1),
        (3, 3, 24, 3, 2),
        (3, 5, 40, 3, 2),
        (6, 5, 80, 3, 2),
        (6, 3, 96, 2, 1),
        (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    )
    _stages(net, stages, "ReLU")
    return _head(net, "ReLU")


def efficientnet_b0(seed: int) -> Graph:
    """EfficientNet-B0 at 224 x 224."""
    net = _stem(seed, 32, "Swish")
    stages = (
        (1, 3, 16, 1, 1),
        (6, 3, 24, 2, 2),
        (6, 5, 40, 2, 2),
        (6, 3, 80, 3, 2),
        (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    )
    _stages(net, stages, "Swish", excite=True)
    return _head(net, "Swish")


def efficientnetv2_b0(seed: int) -> Graph:
    """EfficientNetV2-B0 at 224 x 224: its first stages convolve and widen at once."""
    net = _stem(seed, 32, "Swish")
    net.conv("fused1_0", 16, 3, 1, "Swish")
    for number, out in ((2, 32), (3, 48)):
        for repeat in range(2):
            name, before = f"fused{number}_{repeat}", net.channels
            short = ""
            if repeat:
                short, net.blob = net.split(f"{name}_split")
            net.conv(f"{name}_wide", 4 * before, 3, 1 if repeat else 2, "Swish")
            net.conv(f"{name}_narrow", out, 1)
            if repeat:
                net.binary(f"{name}_add", 0, short, f"{name}_narrow")
    _stages(net, ((4, 3, 96, 3, 2), (6, 3, 112, 5, 1), (6, 3, 192, 8, 2)), "Swish", excite=True)
    return _head(net, "Swish")


# Of each block of ProxylessNAS: how much it widens, kernel, output channels, stride.
_PROXYLESS = (
    (1, 3, 16, 1),
    *((3, 5, 32, 2), (3, 3, 32, 1)),
    *((3, 7, 40, 2), (3, 3, 40, 1), (3, 5, 40, 1), (3, 5, 40, 1)),
    *((6, 7, 80, 2), (3, 5, 80, 1), (3, 5, 80, 1), (3, 5, 80, 1)),
    *((6, 5, 96, 1), (3, 5, 96, 1), (3, 5, 96, 1), (3, 5, 96, 1)),
    *((6, 7, 192, 2), (6, 7, 192, 1), (3, 7, 192, 1), (3, 7, 192, 1)),
    (6, 7, 320, 1),
)


def proxylessnasnet(seed: int) -> Graph:
    """ProxylessNAS for mobile phones at 224 x 224."""
    net = _stem(seed, 32, "ReLU6")
    for number, (widen, kernel, out, stride) in enumerate(_PROXYLESS):
        inverted(net, f"block{number}", widen * net.channels, out, kernel, stride, "ReLU6")
    return _head(net, "ReLU6")


# Of each block of MobileNetV3: kernel, expanded and output channels, squeeze-and-excite, activation, stride.
_SMALL = (
    (3, 16, 16, True, "ReLU", 2),
    (3, 72, 24, False, "ReLU", 2),
    (3, 88, 24, False, "ReLU", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)
_LARGE = (
    (3, 16, 16, False, "ReLU", 1),
    (3, 64, 24, False, "ReLU", 2),
    (3, 72, 24, False, "ReLU", 1),
    (5, 72, 40, True, "ReLU", 2),
    (5, 120, 40, True, "ReLU", 1),
    (5, 120, 40, True, "ReLU", 1),
    (3, 240, 80, False, "HardSwish", 2),
    (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2),
    (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)


def _v3(seed: int, blocks: tuple[tuple[int, int, int, bool, str, int], ...], last: int, wide: int) -> Graph:
    net = _stem(seed, 16, "HardSwish")
    for number, (kernel, expand, out, excite, kind, stride) in enumerate(blocks, 1):
        inverted(net, f"block{number}", expand, out, kernel, stride, kind, excite=excite)
    net.conv("conv2", last, 1, 1, "HardSwish")
    net.average_pool("pool")
    net.inner_product("fc1", wide)
    net.activation("HardSwish", "act3")
    net.inner_product("fc", 1000)
    net.softmax("prob")
    return net


def mobilenet_v3_small(seed: int) -> Graph:
    """MobileNetV3-Small 1.0 at 224 x 224."""
    return _v3(seed, _SMALL, 576, 1024)


def mobilenet_v3(seed: int) -> Graph:
    """MobileNetV3-Large 1.0 at 224 x 224."""
    return _v3(seed, _LARGE, 960, 1280)
