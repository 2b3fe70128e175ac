# SPDX-License-Identifier: BSD-2-Clause
"""The benchmark's networks are those of the papers, and ncnn takes them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.preflight import preflight
from tests.bench.breadth import outputs_of
from tests.bench.graphs import GRAPHS, WRITERS

# Parameters as torchvision counts them (docs: Models and pre-trained weights), with two of a batch normalisation
# for each channel: one is folded here. EfficientNetV2-B0: timm's tf_efficientnetv2_b0; ProxylessNAS: its authors';
# YOLOv4-tiny: yolov4-tiny.cfg, whose two last convolutions of 255 have no batch normalisation. AlexNet and
# GoogLeNet: Caffe's.
NORMALISED = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
    "mnasnet": 4_383_312,
    "proxylessnasnet": 4_080_512,
    "efficientnet_b0": 5_288_548,
    "efficientnetv2_b0": 7_139_704,
    "regnety_400m": 4_344_144,
    "shufflenet_v2": 2_278_604,
    "yolov4_tiny": 6_056_606 + 2 * 255,
}
PLAIN = {"vgg16": 138_357_544, "vision_transformer": 86_567_656, "alexnet": 60_965_224, "googlenet": 6_998_552}
CHEAP = ("shufflenet", "mobilenet_v3_small", "squeezenet_v1.1", "blazeface", "fastestdet")


@pytest.mark.parametrize(("name", "published"), [*NORMALISED.items(), *PLAIN.items()])
def test_parameters_are_as_many_as_published(name: str, published: int) -> None:
    make, _ = WRITERS[name]
    net = make(1)
    outputs = sum(int(count) for count in re.findall(r"^Convolution.* 0=(\d+) ", net.text(), re.MULTILINE))
    assert net.parameters + (outputs if name in NORMALISED else 0) == published


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.exhaustive) for name in GRAPHS]
)
def test_ncnn_takes_it_and_computes_sane_values(name: str, tmp_path: Path) -> None:
    """Values neither vanish nor explode, so a comparison of outputs is one of what the layers compute."""
    make, shape = GRAPHS[name]
    param, weights = make(11)
    until = outputs_of(param)
    assert preflight(param, weights, {"data": shape}, until).weights.data == weights
    (tmp_path / "net.param").write_bytes(param)
    (tmp_path / "net.bin").write_bytes(weights)
    inputs = {"data": np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)}
    for values in ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", inputs, until).values():
        assert 0.02 < values.std() < 1000
