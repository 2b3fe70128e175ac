# SPDX-License-Identifier: BSD-2-Clause
"""A small detector of rectangles and ellipses: a YOLO of two heads, written anew, and pictures for it.

Its convolutions are random; only the heads are fitted to what random pictures show, which takes half a minute.
`python -m tests.support.detector` makes the committed recording again, with --fit the heads before that.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.support.files import write_atomically
from tests.support import ncnn_text
from trace_format.trace import Trace

HEADS_FILE = Path(__file__).with_name("detector_heads.bin")
RAW = Path(__file__).with_name("detector.raw.gtr")
Floats = NDArray[np.float32]
SIDE = 64  # of a picture
SHAPE = (1, SIDE, SIDE)
CLASSES = ("rectangle", "ellipse")  # labels 1 and 2
ANCHORS = (((8, 8), (12, 12), (16, 9), (9, 16)), ((20, 20), (28, 28), (32, 18), (18, 32)))  # of each head
CELL = (8, 16)  # pixels of a cell of each head
ATTRIBUTES = 5 + len(CLASSES)
BOXES = len(ANCHORS[0])
HEADS = ("head8", "head16")
WIDTH = 128  # features that a head gets
# name, input, outputs, inputs, kernel, step
CONVOLUTIONS = (
    ("conv1", "data", 12, 1, 5, 2),
    ("conv2", "conv1", 24, 12, 3, 2),
    ("conv3", "conv2", 48, 24, 3, 2),
    ("fine", "conv3", WIDTH, 48, 3, 1),
    ("conv4", "fine_b", 48, WIDTH, 3, 2),
    ("coarse", "conv4", WIDTH, 48, 3, 1),
)
LOWEST, OVERLAP = 0.4, 0.3
NEWTON_STEPS = 6
PICTURES, FIRST_PICTURE, SEED = 1500, 1000, 7


@dataclass(frozen=True)
class Thing:
    """What a picture shows: a label, and left, top, width, height in pixels."""

    label: int
    box: tuple[int, int, int, int]


def picture(seed: int) -> tuple[Floats, list[Thing]]:
    """A picture of (1, 64, 64), and what it shows."""
    generator = np.random.default_rng(seed)
    pixels = generator.uniform(-0.1, 0.1, (SIDE, SIDE))
    things: list[Thing] = []
    taken = np.zeros((SIDE, SIDE), np.bool_)
    rows, columns = np.mgrid[:SIDE, :SIDE] + 0.5
    for _ in range(int(generator.integers(2, 5))):
        sizes = ANCHORS[int(generator.integers(2))][int(generator.integers(BOXES))]
        width, height = (round(size * generator.uniform(0.9, 1.1)) for size in sizes)
        left, top = int(generator.integers(0, SIDE - width)), int(generator.integers(0, SIDE - height))
        around = np.s_[max(top - 3, 0) : top + height + 3, max(left - 3, 0) : left + width + 3]
        if taken[around].any():
            continue
        taken[around] = True
        label = int(generator.integers(1, 3))
        x, y = (columns - left) / width * 2 - 1, (rows - top) / height * 2 - 1
        inside = (np.maximum(abs(x), abs(y)) if label == 1 else np.hypot(x, y)) <= 1
        pixels[inside] = generator.uniform(0.6, 1) * (1 if label == 1 else -1)
        things.append(Thing(label, (left, top, width, height)))
    return pixels.astype(np.float32)[None], things


def graph() -> bytes:
    """ncnn's text file."""
    lines = ["Input data 0 1 data"]
    for name, bottom, outputs, inputs, kernel, step in CONVOLUTIONS:
        lines.append(
            f"Convolution {name} 1 1 {bottom} {name} 0={outputs} 1={kernel} 3={step} 4={kernel // 2} 5=1 "
            f"6={outputs * inputs * kernel**2} 9=1"
        )
        if name == "fine":
            lines.append("Split split 1 2 fine fine_a fine_b")
    for head, feature in zip(HEADS, ("fine_a", "coarse"), strict=True):
        count = BOXES * ATTRIBUTES
        lines.append(f"Convolution {head} 1 1 {feature} {head} 0={count} 1=1 5=1 6={count * WIDTH}")
    biases = ",".join(f"{size:.1f}" for head in ANCHORS for anchor in head for size in anchor)
    mask = ",".join(f"{i:.1f}" for i in range(2 * BOXES))  # without a point they would be bits of a float
    lines.append(
        f"Yolov3DetectionOutput detection 2 1 {HEADS[0]} {HEADS[1]} boxes 0={len(CLASSES)} 1={BOXES} 2={LOWEST} "
        f"3={OVERLAP} -23304={4 * BOXES},{biases} -23305={2 * BOXES},{mask} -23306=2,{CELL[0]:.1f},{CELL[1]:.1f}"
    )
    return ncnn_text.param(lines)


def _convolutions() -> bytes:
    """Random weights of three values, which compress well."""
    generator = np.random.default_rng(SEED)
    out = b""
    for _, _, outputs, inputs, kernel, _ in CONVOLUTIONS:
        fan = inputs * kernel**2
        weights = (generator.integers(-1, 2, outputs * fan) * np.sqrt(3 / fan)).astype("<f4")
        out += bytes(4) + weights.tobytes() + (generator.integers(-4, 5, outputs) * 0.05).astype("<f4").tobytes()
    return out


def _targets(things: list[Thing], head: int) -> tuple[Floats, Floats]:
    """What a head should say of a picture, (box * attributes, cells), and how much each number matters."""
    size = SIDE // CELL[head]
    wanted = np.zeros((BOXES, ATTRIBUTES, size, size), np.float32)
    weight = np.zeros_like(wanted)
    weight[:, 4] = 1
    every = np.array(ANCHORS, float)
    for thing in things:
        left, top, width, height = thing.box
        distance = abs(np.log(np.array([width, height]) / every)).sum(axis=2)
        at, box = divmod(int(distance.argmin()), BOXES)
        if at != head:
            continue
        x, y = (left + width / 2) / CELL[head], (top + height / 2) / CELL[head]
        column, row = int(x), int(y)
        inside = np.clip([x - column, y - row], 0.05, 0.95)
        cell = wanted[box, :, row, column]
        cell[:2] = np.log(inside / (1 - inside))
        cell[2:4] = np.log(np.array([width, height]) / every[head, box])
        cell[4] = cell[4 + thing.label] = 1
        weight[box, :, row, column] = 1
        weight[box, 4, row, column] = 4
    return wanted.reshape(-1, size * size), weight.reshape(-1, size * size)


def _fitted(features: Floats, wanted: Floats, weight: Floats) -> bytes:
    """Weights and biases of a head; features: (numbers, cells), the others (outputs, cells)."""
    data = np.concatenate([features, np.ones((1, features.shape[1]))]).astype(np.float64)
    found = np.zeros((len(wanted), len(data)))
    for row, (target, matters) in enumerate(zip(wanted, weight, strict=True)):
        which = matters > 0
        part, aim, weights = data[:, which], target[which].astype(np.float64), matters[which]
        if row % ATTRIBUTES < 4:
            found[row] = _solved(part, weights, aim)
            continue
        for _ in range(NEWTON_STEPS):  # of logistic regression
            sure = 1 / (1 + np.exp(-np.clip(found[row] @ part, -9, 9)))
            slope = sure * (1 - sure)
            found[row] = _solved(part, weights * slope, found[row] @ part + (aim - sure) / slope)
    return bytes(4) + found[:, :-1].astype("<f4").tobytes() + found[:, -1].astype("<f4").tobytes()


def _solved(
    data: NDArray[np.float64], weights: NDArray[np.float64], aim: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted least squares, kept small a little."""
    squares = data * weights @ data.T
    ridge = 1e-4 * np.trace(squares) / len(data)
    found: NDArray[np.float64] = np.linalg.solve(squares + ridge * np.eye(len(data)), data * weights @ aim)
    return found


def fitted(pictures: int = PICTURES) -> bytes:
    """Weights of the heads, as they end ncnn's .bin file."""
    empty = bytes(4) + bytes(4 * BOXES * ATTRIBUTES * (WIDTH + 1))
    found: list[list[tuple[Floats, ...]]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        paths = Path(folder) / "net.param", Path(folder) / "net.bin"
        paths[0].write_bytes(graph())
        paths[1].write_bytes(_convolutions() + 2 * empty)
        for seed in range(FIRST_PICTURE, FIRST_PICTURE + pictures):
            pixels, things = picture(seed)
            values = ncnn_cpu.run(*paths, {"data": pixels}, ["fine_a", "coarse"])
            for head, feature in enumerate(values.values()):
                found[head].append((feature.reshape(len(feature), -1), *_targets(things, head)))
    return b"".join(_fitted(*(np.concatenate(part, axis=1) for part in zip(*rows, strict=True))) for rows in found)


def network() -> tuple[bytes, bytes]:
    """ncnn's two files, with the committed heads."""
    return graph(), _convolutions() + HEADS_FILE.read_bytes()


def found_by_ncnn(seed: int) -> Floats:
    """What ncnn's CPU back end finds in a picture: a row for each box."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        paths = Path(folder) / "net.param", Path(folder) / "net.bin"
        for path, data in zip(paths, network(), strict=True):
            path.write_bytes(data)
        return ncnn_cpu.run(*paths, {"data": picture(seed)[0]})["boxes"].reshape(-1, 6)


def record() -> Trace:
    """A new recording."""
    return record_network(*network(), {"data": SHAPE}, name="detector")


if __name__ == "__main__":
    if "--fit" in sys.argv:
        write_atomically(HEADS_FILE, fitted())
    write_atomically(RAW, record().build())
