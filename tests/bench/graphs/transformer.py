# SPDX-License-Identifier: BSD-2-Clause
"""Vision Transformer, ViT-B/16: A. Dosovitskiy et al., arXiv 2010.11929, table 1."""

from __future__ import annotations

from tests.bench.graphs.writer import Graph

WIDTH, HEADS, HIDDEN, DEPTH, PATCH = 768, 12, 3072, 12, 16


def _normalised(net: Graph, name: str) -> str:
    net.layer("LayerNorm", name, (), f"0={WIDTH} 1=1.000000e-06 2=1")
    net.plain(WIDTH, 1.0)
    net.plain(WIDTH)
    return name


def vision_transformer(seed: int, size: int = 224) -> Graph:
    """ViT-B/16 at 224 x 224."""
    net, count = Graph(seed, 3, size), (size // PATCH) ** 2
    net.convolution("patches", WIDTH, PATCH, PATCH, relu=False)
    net.layer("Reshape", "rows", (), f"0={count} 1={WIDTH}")
    patches = net.layer("Permute", "sequence", (), "0=1")
    net.concat("tokens", [net.source("class", WIDTH, 1), patches], WIDTH)
    net.binary("embedded", 0, "tokens", net.source("position", WIDTH, count + 1))
    for at in range(DEPTH):
        name = f"block{at}"
        short, net.blob = net.split(f"{name}_split")
        _normalised(net, f"{name}_norm1")
        net.layer("MultiHeadAttention", f"{name}_attention", (), f"0={WIDTH} 1={HEADS} 2={WIDTH * WIDTH}")
        for _ in range(4):
            net.matrix(WIDTH, WIDTH)
        net.binary(f"{name}_add1", 0, short, net.blob)
        short, net.blob = net.split(f"{name}_split2")
        _normalised(net, f"{name}_norm2")
        net.channels = WIDTH
        net.inner_product(f"{name}_fc1", HIDDEN)
        net.layer("GELU", f"{name}_gelu", (), "0=1")  # by tanh: ncnn's GPU code knows no other, its CPU code does
        net.inner_product(f"{name}_fc2", WIDTH)
        net.binary(f"{name}_add2", 0, short, net.blob)
    _normalised(net, "norm")
    net.layer("Crop", "first", (), "0=0 1=0 3=-233 4=1")
    net.layer("Flatten", "first_flat")
    net.channels = WIDTH
    net.inner_product("fc", 1000)
    net.softmax("prob")
    return net
