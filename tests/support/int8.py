# SPDX-License-Identifier: BSD-2-Clause
"""Networks with int8 weights, made of float32 ones as ncnn's ncnn2int8 does, calibrated by largest values.

Source of the format: ncnn's docs/developer-guide/operators.md (int8_scale_term) and src/layer/convolution.cpp,
convolutiondepthwise.cpp and innerproduct.cpp (load_model): a tag, int8 weights filled up to four bytes, biases, a
scale for each output (depthwise: group), the input's scale, and of an output that stays int8 its scale.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import ncnn
import numpy as np
from numpy.typing import NDArray

from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.files import INT8_TAG, Weights
from host_tools.record.ncnn.param import Layer, layers_of

Float32 = NDArray[np.float32]
LEVELS = 127
CONVOLUTIONS = ("Convolution", "ConvolutionDepthWise")
SCALED, REQUANTISED = 1, 101  # values of int8_scale_term, option 8: the output is float32, or int8


def quantised(param: bytes, weights: bytes, inputs: dict[str, Float32]) -> tuple[bytes, bytes]:
    """The network with int8 weights in its convolutions and fully connected layers.

    A convolution whose output only one other reads gives it int8.

    Args:
        param, weights: ncnn's files, float32.
        inputs: what the activations' ranges are measured with.
    """
    layers = layers_of(param.decode())
    reader = _read(param, weights, layers)
    targets = [layer for layer in layers if layer.type in (*CONVOLUTIONS, "InnerProduct")]
    scales = _scales(param, weights, inputs, [layer.bottoms[0] for layer in targets])
    takers = {bottom: layer for layer in layers for bottom in layer.bottoms}
    out, term = bytearray(), dict[str, int]()
    for layer in layers:
        arrays = reader[layer.name]
        if layer not in targets:
            out += b"".join(arrays)
            continue
        taker = takers.get(layer.tops[0])
        fused = layer.type in CONVOLUTIONS and taker is not None and taker.type in CONVOLUTIONS
        term[layer.name] = REQUANTISED if fused else SCALED
        rows = layer.number(7, 1) if layer.type == "ConvolutionDepthWise" else layer.number(0, 0)
        matrix = np.frombuffer(arrays[0], "<f4", offset=4).reshape(rows, -1)
        by_row = (LEVELS / np.abs(matrix).max(axis=1)).astype("<f4")
        data = np.rint(matrix * by_row[:, None]).astype("i1").tobytes()
        out += INT8_TAG.to_bytes(4, "little") + data + bytes(-len(data) % 4) + b"".join(arrays[1:])
        out += by_row.tobytes() + scales[layer.bottoms[0]]
        out += scales[layer.tops[0]] if fused else b""
    magic, counts, *lines = filter(str.strip, param.decode().splitlines())
    texts = [
        f"{line} 8={term[layer.name]}" if layer.name in term else line
        for line, layer in zip(lines, layers, strict=True)
    ]
    return "\n".join([magic, counts, *texts, ""]).encode(), bytes(out)


def _read(param: bytes, weights: bytes, layers: list[Layer]) -> dict[str, list[bytes]]:
    """Of each layer, its arrays with their tags, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.param"
        path.write_bytes(param)
        net = ncnn.Net()
        assert net.load_param(str(path)) == 0
    reader, found = Weights(weights), dict[str, list[bytes]]()
    for layer, loaded in zip(layers, net.layers(), strict=True):
        reader.layer, start = layer, len(reader.out)
        assert loaded.load_model(reader) == 0
        first = 4 * (layer.needs[0] + 1) if layer.needs else 0
        data = bytes(reader.out[start:])
        found[layer.name] = [data[:first], data[first:]]
    return found


def _scales(param: bytes, weights: bytes, inputs: dict[str, Float32], blobs: list[str]) -> dict[str, bytes]:
    """What float32 activations of each blob are multiplied by to become int8."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "net.param", Path(folder) / "net.bin"
        for path, content in zip(files, (param, weights), strict=True):
            path.write_bytes(content)
        found = ncnn_cpu.run(*files, inputs, blobs)
    return {name: np.float32(LEVELS / np.abs(value).max()).tobytes() for name, value in found.items()}
