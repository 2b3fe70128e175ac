# SPDX-License-Identifier: BSD-2-Clause
"""Networks of before residuals.

AlexNet: A. Krizhevsky et al., NIPS 2012, section 3, with Caffe's sizes (bvlc_alexnet). VGG-16: K. Simonyan,
A. Zisserman, arXiv 1409.1556, table 1 (D). GoogLeNet: C. Szegedy et al., arXiv 1409.4842, table 1.
"""

from __future__ import annotations

from tests.bench.graphs.writer import Graph

NORMALISE = "0=0 1=5 2=1.000000e-04 3=7.500000e-01"  # over 5 channels


def _dense(net: Graph, values: int) -> Graph:
    """Two wide layers and 1000 classes over so many values."""
    net.channels = values
    for name in ("fc6", "fc7"):
        net.inner_product(name, 4096)
        net.activation("ReLU", f"{name}_relu")
    net.inner_product("fc", 1000)
    net.softmax("prob")
    return net


def alexnet(seed: int) -> Graph:
    """AlexNet at 227 x 227."""
    net = Graph(seed, 3, 227)
    net.convolution("conv1", 96, 11, 4)
    net.layer("LRN", "norm1", (), NORMALISE)
    net.max_pool("pool1", 3, 2)
    net.conv("conv2", 256, 5, 1, "ReLU", groups=2)
    net.layer("LRN", "norm2", (), NORMALISE)
    net.max_pool("pool2", 3, 2)
    net.conv("conv3", 384, 3, 1, "ReLU")
    net.conv("conv4", 384, 3, 1, "ReLU", groups=2)
    net.conv("conv5", 256, 3, 1, "ReLU", groups=2)
    net.max_pool("pool5", 3, 2)
    return _dense(net, 256 * 6 * 6)


def vgg16(seed: int) -> Graph:
    """VGG-16 at 224 x 224."""
    net = Graph(seed, 3, 224)
    for stage, (channels, repeats) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for repeat in range(repeats):
            net.conv(f"conv{stage}_{repeat}", channels, 3, 1, "ReLU")
        net.max_pool(f"pool{stage}", 2, 2)
    return _dense(net, 512 * 7 * 7)


# Of each module: channels of 1x1, of 3x3 before and of it, of 5x5 before and of it, of 1x1 after pooling.
_INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet(seed: int) -> Graph:
    """GoogLeNet at 224 x 224, without its auxiliary classifiers."""
    net = Graph(seed, 3, 224)
    net.conv("conv1", 64, 7, 2, "ReLU")
    net.max_pool("pool1", 3, 2)
    net.layer("LRN", "norm1", (), NORMALISE)
    net.conv("conv2_reduce", 64, 1, 1, "ReLU")
    net.conv("conv2", 192, 3, 1, "ReLU")
    net.layer("LRN", "norm2", (), NORMALISE)
    net.max_pool("pool2", 3, 2)
    for name, (one, three_in, three, five_in, five, pooled) in _INCEPTION.items():
        before, parts = net.channels, net.fork(f"{name}_split", 4)
        tops = [net.conv(f"{name}_1x1", one, 1, 1, "ReLU", bottom=parts[0])]
        for kernel, narrow, wide, part in ((3, three_in, three, parts[1]), (5, five_in, five, parts[2])):
            net.channels = before
            net.conv(f"{name}_{kernel}x{kernel}_reduce", narrow, 1, 1, "ReLU", bottom=part)
            tops.append(net.conv(f"{name}_{kernel}x{kernel}", wide, kernel, 1, "ReLU"))
        net.channels = before
        net.layer("Pooling", f"{name}_pool", [parts[3]], "0=0 1=3 2=1 3=1 5=1")
        tops.append(net.conv(f"{name}_proj", pooled, 1, 1, "ReLU"))
        net.concat(f"{name}_concat", tops, one + three + five + pooled)
        if name in ("3b", "4e"):
            net.max_pool(f"{name}_maxpool", 3, 2)
    return net.classes()
