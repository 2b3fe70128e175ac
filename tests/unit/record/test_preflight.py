# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with a network's files is said before anything is booted, and float16 weights are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import PARAM, WEIGHTS
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.record.preflight import NetworkError, preflight, refuse_without_ncnn

LENET = PARAM.read_bytes()
LENET_BIN = WEIGHTS.read_bytes()
SHAPES = {"data": (1, 28, 28)}
FLOAT16 = 0x01306B47
# Numbers of values, in the order of the file: kernels or matrix, then biases.
ARRAYS = ((200, 8), (3200, 16), (16384, 64), (640, 10))


def halved() -> bytes:
    """LeNet's weights as ncnnoptimize writes them with its option 65536: kernels as float16, biases as float32."""
    out, at = b"", 0
    for kernels, biases in ARRAYS:
        values = np.frombuffer(LENET_BIN, "<f4", kernels, at + 4).astype("<f2").tobytes()
        at += 4 + 4 * kernels
        out += FLOAT16.to_bytes(4, "little") + values + bytes(-len(values) % 4)
        out += LENET_BIN[at : at + 4 * biases]
        at += 4 * biases
    assert at == len(LENET_BIN)
    return out


def test_a_gpu_that_ncnn_does_not_run_on_is_refused_at_once() -> None:
    """Also where the files are no network's: nothing is read before."""
    said = r"ncnn does not run on a Mali G31: .* with '--compiler tinygrad', or on a mali_g72 for"
    with pytest.raises(NetworkError, match=said):
        record_network(b"", b"", {}, name="net", gpu="mali_g31")
    for gpu in ("v3d42", "mali_g71", "mali_g72", "mali_g52r1"):
        refuse_without_ncnn(gpu)


def test_a_good_network_keeps_its_bytes() -> None:
    assert preflight(LENET, LENET_BIN, SHAPES).weights.data == LENET_BIN


def test_float16_weights_become_what_ncnn_makes_of_them(tmp_path: Path) -> None:
    small, large = tmp_path / "small.bin", tmp_path / "large.bin"
    small.write_bytes(halved())
    large.write_bytes(preflight(LENET, halved(), SHAPES).weights.data)
    assert len(large.read_bytes()) == len(LENET_BIN)
    picture = {"data": np.random.default_rng(1).random((1, 28, 28), dtype=np.float32)}
    found, wanted = (ncnn_cpu.run(PARAM, path, picture)["prob"] for path in (large, small))
    assert found.tobytes() == wanted.tobytes()
    assert found.tobytes() != ncnn_cpu.run(PARAM, WEIGHTS, picture)["prob"].tobytes()


def test_an_odd_number_of_float16_weights() -> None:
    """Their array is filled up to four bytes, and what fills it is no weight."""
    param = b"7767517\n2 2\nInput data 0 1 data\nConvolution one 1 1 data out 0=1 1=3 5=0 6=9\n"
    values = np.arange(9, dtype="<f2")
    data = FLOAT16.to_bytes(4, "little") + values.tobytes() + b"\xff\xff"
    assert preflight(param, data, {"data": (1, 4, 4)}).weights.data == bytes(4) + values.astype("<f4").tobytes()


@pytest.mark.parametrize(("kind", "half"), [(1, False), (2, True), (4, True)])
def test_a_cast_to_half_precision_is_seen(kind: int, half: bool) -> None:
    cast = f"Cast cast 1 1 prob half 0=1 1={kind}\nCast back 1 1 half score 0={kind} 1=1\n".encode()
    header = LENET.splitlines()[1]
    layers, blobs = map(int, header.split())
    network = LENET.replace(header, f"{layers + 2} {blobs + 2}".encode(), 1).rstrip(b"\n") + b"\n" + cast
    assert preflight(network, LENET_BIN, SHAPES).halves == half


def changed(old: bytes, new: bytes) -> bytes:
    assert LENET.count(old) == 1
    return LENET.replace(old, new)


TAG = len(LENET_BIN) - 4 * (640 + 10 + 1)  # of the last layer's weights
BAD = {
    "another input": (LENET, LENET_BIN, {"image": (1, 28, 28)}, "no input blob 'image'; the network has data"),
    "no shape": (LENET, LENET_BIN, {}, "no shape for the input blob 'data': give --shape data=..."),
    "three channels": (
        LENET,
        LENET_BIN,
        {"data": (3, 28, 28)},
        "layer conv1 (Convolution): expected 1 channels, found 3 in its input 'data' of 3x28x28",
    ),
    "a smaller picture": (
        LENET,
        LENET_BIN,
        {"data": (1, 20, 20)},
        "layer fc1 (InnerProduct): expected 256 values, found 64 in its input 'pool2' of 16x2x2",
    ),
    "truncated weights": (
        LENET,
        LENET_BIN[:100],
        SHAPES,
        "layer conv1 (Convolution): the .bin file ends too early: its 200 weights need 800 bytes at offset 0x4, "
        "found 96",
    ),
    "no weights": (
        LENET,
        b"",
        SHAPES,
        "layer conv1 (Convolution): the .bin file ends too early: its 200 weights ",
    ),
    "longer weights": (
        LENET,
        LENET_BIN + bytes(4),
        SHAPES,
        f"the .bin file is longer than the network: expected {len(LENET_BIN)} bytes, found {len(LENET_BIN) + 4}",
    ),
    "int8 weights": (
        LENET,
        LENET_BIN[:TAG] + (0x000D4B38).to_bytes(4, "little") + LENET_BIN[TAG + 4 :],
        SHAPES,
        "layer fc2 (InnerProduct): expected weights as float32 or float16, found int8 in a layer without scales",
    ),
    "another network's weights": (
        LENET,
        LENET_BIN[4:] + bytes(4),
        SHAPES,
        "layer conv1 (Convolution): expected weights as float32 or float16, found quantised, or the .bin file is",
    ),
    "a layer without Vulkan": (
        changed(b"Softmax      prob   ", b"Threshold     prob  "),
        LENET_BIN,
        SHAPES,
        "ncnn 1.0.",
    ),
    "an unknown layer": (
        changed(b"Pooling      pool1", b"Puddling     pool1"),
        LENET_BIN,
        SHAPES,
        "layer pool1 (Puddling): ncnn 1.0.",
    ),
    "truncated network": (
        b"".join(LENET.splitlines(True)[:4]),
        LENET_BIN,
        SHAPES,
        "the .param file is cut short: expected 8 layers, found 2",
    ),
    "a negative number of weights": (
        changed(b" 6=3200 ", b" 6=-200 "),
        LENET_BIN,
        SHAPES,
        "ncnn cannot load this network (layer load_param 3 conv2 failed)",
    ),
    "no kernel": (
        changed(b" 1=5 5=1 6=200", b" 1=0 5=1 6=200"),
        LENET_BIN,
        SHAPES,
        "ncnn cannot load this network (layer load",
    ),
    "no number of layers": (
        changed(b"8 8\n", b"x 8\n"),
        LENET_BIN,
        SHAPES,
        "line 2 of the .param file: expected the numbers of layers and blobs",
    ),
    "a line that is none": (
        changed(b"Pooling      pool1  1 1", b"Pooling      pool1  x 1"),
        LENET_BIN,
        SHAPES,
        "line 5 of the .param file is not a layer's: 'Pooling      pool1  x 1",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_named(what: str) -> None:
    param, weights, shapes, reason = BAD[what]
    with pytest.raises(NetworkError) as raised:
        preflight(param, weights, shapes)
    assert str(raised.value).startswith(reason)
    if what == "a layer without Vulkan":
        assert "layer prob (Threshold)" in str(raised.value)


def test_a_network_may_end_before_a_layer_that_needs_a_cpu() -> None:
    param, weights, shapes, _ = BAD["a layer without Vulkan"]
    blob = next(line.split()[4] for line in param.decode().splitlines() if line.startswith("Threshold"))
    assert preflight(param, weights, shapes, [blob]).weights.data == weights
    with pytest.raises(NetworkError, match="no blob 'elsewhere' to stop at; the network has "):
        preflight(param, weights, shapes, ["elsewhere"])


def test_a_program_that_crashes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crashing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GRAMOPHONE_SANDBOX", "off")  # there it could not read what lies in this folder
    monkeypatch.setattr("host_tools.record.preflight.PROGRAM", "crashing")
    with pytest.raises(NetworkError, match=r"ncnn ends with SIGSEGV on these files"):
        preflight(LENET, LENET_BIN, SHAPES)
