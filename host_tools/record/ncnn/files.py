# SPDX-License-Identifier: BSD-2-Clause
"""What ncnn says of a network's files, by its own CPU back end: a program, as ncnn may crash on bad ones.

Usage: python -m host_tools.record.ncnn.files NET.param NET.bin OUT [--until BLOB]... [NAME=D0xD1..]...

Writes OUT/answer: one sentence on what is wrong, or nothing; OUT/net.bin: the weights, float16 ones as float32;
OUT/halves: names of layers whose weights are float16, one a line; OUT/spans: lines of "int8" or "fixed", first
byte and end of a part of net.bin (`record/model_weights.py`); OUT/shapes: of the blobs that layers on the CPU work
on, as JSON. `host_tools.record.preflight` calls it.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import ncnn
import numpy as np

from host_tools.record.ncnn.cpu_layers import blobs_of_interest, check_known, cpu_end, layers_on_cpu
from host_tools.record.ncnn.guest.guest_ncnn import load
from host_tools.record.ncnn.param import Layer, WrongError, layers_of, leading_to
from trace_format import limits
from trace_format.files import read_file, read_file_text

# ncnn src/modelbin.cpp: what a layer's weights begin with; anything else but zero is a table of 256 values.
FLOAT32_TAGS = (0, 0x0002C056)
FLOAT16_TAG = 0x01306B47
INT8_TAG = 0x000D4B38
TAGGED, PLAIN = 0, 1  # the kinds of array that layers request of it
# Convolutions -> dimensions of their kernel; their parameters are 0: outputs, 1, 11, 21: kernel, 7: groups
# (ncnn docs/developer-guide/operators.md).
CONVOLUTIONS = {
    f"{kind}{suffix}": dimensions
    for kind in ("Convolution", "ConvolutionDepthWise", "Deconvolution", "DeconvolutionDepthWise")
    for suffix, dimensions in (("1D", 1), ("", 2), ("3D", 3))
}
KERNEL = (1, 11, 21)
# The option that says that a layer with int8 weights has scales, by type.
SCALES = {"Convolution": 8, "ConvolutionDepthWise": 8, "InnerProduct": 8, "Gemm": 18, "MultiHeadAttention": 18}
BY_CHANNEL = ("BatchNorm", "Scale")


def quantised(layer: Layer) -> bool:
    """Whether a layer computes in int8."""
    return layer.type in SCALES and layer.number(SCALES[layer.type], 0) != 0


def mat_of(values: Any) -> Any:
    """A copy of an array. ncnn's own Mat of it only refers to it, and does not keep it alive."""
    return ncnn.Mat(values).clone()


class Weights(ncnn.ModelBin):  # type: ignore[misc]
    """The .bin file as layers read it, one after the other; `out` is the same without float16."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.at = 0
        self.out = bytearray()
        self.layer: Layer | None = None
        self.halves: list[str] = []
        self.spans: list[tuple[str, int, int]] = []

    def load(self, *request: int) -> Any:
        """An array; ncnn gives its dimensions and its kind."""
        *shape, kind = request
        count = math.prod(shape)
        assert self.layer is not None
        self.layer.needs.append(count)
        if count < 0:
            raise WrongError(f"{self.layer}: expected a number of weights, found {count}")
        if kind not in (TAGGED, PLAIN):
            raise WrongError(f"{self.layer}: weights of a kind (number {kind}) that cannot be recorded")
        tag = int.from_bytes(self._take(4, count), "little") if kind == TAGGED else 0
        if tag == FLOAT16_TAG:
            self.halves.append(self.layer.name)
            values = np.frombuffer(self._take(-(-count // 2) * 4, count), "<f2")[:count].astype("<f4")
            tag = 0
        elif tag in FLOAT32_TAGS:
            values = np.frombuffer(self._take(4 * count, count), "<f4")
        elif tag == INT8_TAG and quantised(self.layer):
            return self._int8(count)
        else:
            other = f"quantised, or the .bin file is another network's: tag {tag:#010x}"
            what = "int8 in a layer without scales" if tag == INT8_TAG else other
            raise WrongError(f"{self.layer}: expected weights as float32 or float16, found {what}")
        if kind == PLAIN and quantised(self.layer):
            self.spans.append(("fixed", len(self.out), len(self.out) + values.nbytes))
        self.out += (tag.to_bytes(4, "little") if kind == TAGGED else b"") + values.tobytes()
        return mat_of(values.copy())

    def _int8(self, count: int) -> Any:
        data = self._take(-(-count // 4) * 4, count)
        at = len(self.out) + 4
        self.spans += [("fixed", at - 4, at), ("int8", at, at + count)]
        self.out += INT8_TAG.to_bytes(4, "little") + data
        return mat_of(np.frombuffer(data, "i1", count).copy())

    def _take(self, size: int, count: int) -> bytes:
        left = len(self.data) - self.at
        if size > left:
            raise WrongError(
                f"{self.layer}: the .bin file ends too early: its {count} weights need {size} bytes at offset "
                f"{self.at:#x}, found {left}"
            )
        self.at += size
        return self.data[self.at - size : self.at]


def check_inputs(found: list[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise WrongError if shapes are not given for exactly the network's inputs."""
    for name in shapes:
        if name not in found:
            raise WrongError(f"no input blob {name!r}; the network has {', '.join(found)}")
    for name in found:
        if name not in shapes:
            raise WrongError(f"no shape for the input blob {name!r}: give --shape {name}=...")


def _extractor(net: Any, shapes: dict[str, tuple[int, ...]]) -> Any:
    """An inference of zeros."""
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    for name, shape in shapes.items():
        extractor.input(name, mat_of(np.zeros(shape, np.float32)))
    return extractor


def _shape(extractor: Any, blob: str, layer: Layer) -> tuple[int, ...]:
    """Shape of a blob that a layer works on."""
    status, mat = extractor.extract(blob)
    if status:
        raise WrongError(f"{layer}: ncnn cannot compute its input {blob!r} (status {status})")
    return np.array(mat).shape


def check_shapes(net: Any, layers: list[Layer], shapes: dict[str, tuple[int, ...]]) -> None:
    """Run the network up to each layer that has weights for a certain size of input, and look at what it gets.

    Raises:
        WrongError: another number of channels or values than there are weights for.
    """
    extractor = _extractor(net, shapes)
    blobs = net.blobs()
    for layer, loaded in zip(layers, net.layers(), strict=True):
        if not layer.needs or layer.type not in (*CONVOLUTIONS, *BY_CHANNEL, "InnerProduct"):
            continue
        blob = blobs[loaded.bottoms[0]].name
        shape = _shape(extractor, blob, layer)
        outputs = max(layer.number(0, 1), 1)
        if layer.type == "InnerProduct":
            wanted, found, what = layer.needs[0] // outputs, math.prod(shape), "values"
            if len(shape) == 2 and shape[1] == wanted:
                found = wanted  # a matrix, row by row
        elif layer.type in BY_CHANNEL:
            wanted, found, what = layer.needs[0], shape[0], "channels"
        else:
            first = layer.number(KERNEL[0], 1)
            kernel = max(math.prod(layer.number(key, first) for key in KERNEL[: CONVOLUTIONS[layer.type]]), 1)
            groups = layer.number(7, 1) if "DepthWise" in layer.type else 1
            wanted, found, what = layer.needs[0] * groups // (outputs * kernel), shape[0], "channels"
        if wanted != found:
            size = "x".join(map(str, shape))
            raise WrongError(f"{layer}: expected {wanted} {what}, found {found} in its input {blob!r} of {size}")


def cpu_shapes(net: Any, slow: list[Layer], shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes of the blobs that layers on the CPU work on."""
    extractor = _extractor(net, shapes)
    return {blob: _shape(extractor, blob, layer) for layer in slow for blob in blobs_of_interest([layer])}


def look(param: Path, weights: Path, out: Path, shapes: dict[str, tuple[int, ...]], until: list[str]) -> Weights:
    """Check the files; what was read of the weights. Writes OUT/net.bin and OUT/shapes.

    Raises:
        WrongError: what is wrong.
        ValueError: ncnn does not take the files, for a reason that it does not say.
    """
    layers = layers_of(read_file_text(param, limits.MODEL_BYTES))
    leading = leading_to(layers, until)
    check_known(leading)
    slow = layers_on_cpu(leading)
    net = ncnn.Net()
    if net.load_param(str(param)):
        raise WrongError("ncnn cannot load this network")
    check_inputs(list(net.input_names()), shapes)
    reader = Weights(read_file(weights, limits.MODEL_BYTES))
    for layer, loaded in zip(layers, net.layers(), strict=True):
        reader.layer = layer
        if loaded.load_model(reader):
            raise WrongError(f"{layer}: ncnn cannot load these weights")
    if reader.at != len(reader.data):
        raise WrongError(
            f"the .bin file is longer than the network: expected {reader.at} bytes, found {len(reader.data)}"
        )
    (out / "net.bin").write_bytes(reader.out)
    checked = load(str(param), str(out / "net.bin"), gpu=False)
    check_shapes(checked, layers, shapes)
    found = cpu_shapes(checked, slow, shapes)
    cpu_end(layers, until, found)
    (out / "shapes").write_text(json.dumps(found), encoding="utf-8")
    return reader


def main(arguments: list[str]) -> None:
    """Run as the module's text says."""
    param, weights, out = map(Path, arguments[:3])
    shapes, until, words = {}, list[str](), arguments[3:]
    while words[:1] == ["--until"]:
        until.append(words[1])
        words = words[2:]
    for text in words:
        name, _, sizes = text.rpartition("=")
        shapes[name] = tuple(map(int, sizes.split("x")))
    answer, reader = "", Weights(b"")
    try:
        reader = look(param, weights, out, shapes, until)
    except (WrongError, ValueError) as error:
        answer = str(error)
    (out / "halves").write_text("\n".join(reader.halves), encoding="utf-8")
    (out / "spans").write_text("\n".join(f"{kind} {at} {end}" for kind, at, end in reader.spans), encoding="utf-8")
    (out / "answer").write_text(answer, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
