# SPDX-License-Identifier: BSD-2-Clause
"""Networks in less than float32: int8 weights, and half precision on the GPU; through the whole road."""

from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.record.tolerances import FP16_TOLERANCE, INT8_TOLERANCE, TOLERANCE
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.graphs.writer import Graph
from tests.support.int8 import quantised
from tests.support.random_networks import on_virtual_gpu

SHAPE = (3, 12, 12)


def network() -> tuple[bytes, bytes]:
    """A convolution, a depthwise one, a fully connected layer: the kinds that are quantised."""
    net = Graph(1, *SHAPE[:2])
    net.conv("wide", 8, 3, 2, "ReLU")
    net.conv("depthwise", 8, 3, 1, "ReLU", groups=8)
    net.average_pool("pool")
    net.inner_product("fc", 10)
    return net.files()


def cpu(folder: Path, files: tuple[bytes, bytes], inputs: dict[str, ncnn_cpu.Float32]) -> ncnn_cpu.Float32:
    (folder / "net.param").write_bytes(files[0])
    (folder / "net.bin").write_bytes(files[1])
    return ncnn_cpu.run(folder / "net.param", folder / "net.bin", inputs)["fc"]


CAST_SCORES = """7767517
5 5
Input x 0 1 x 0=9 1=7 2=3
Convolution c 1 1 x c 0=4 1=3 4=1 5=1 6=108
Sigmoid s 1 1 c s
Cast halves 1 1 s h 0=1 1=2
Cast scores 1 1 h y 0=2 1=1
"""


@pytest.mark.exhaustive
def test_scores_that_the_network_casts_to_half(tmp_path: Path) -> None:
    """ncnn's CPU code rounds the scores, its shaders without half storage do not: they are apart as halves are."""
    random = np.random.default_rng(5)
    weights = np.concatenate([np.zeros(1, "<f4"), random.normal(0, 0.3, 108 + 4).astype("<f4")]).tobytes()
    files = CAST_SCORES.encode(), weights
    trace = build(record_network(*files, {"x": (3, 7, 9)}, name="scores", timeout=3600))
    inputs = {"x": random.normal(0, 1, (3, 7, 9)).astype(np.float32)}
    found = on_virtual_gpu(trace, inputs)["y"]
    rounded = ncnn_cpu.run_files(files, inputs)["y"]
    np.testing.assert_array_equal(rounded, rounded.astype(np.float16))
    assert TOLERANCE < relative_difference(found.reshape(rounded.shape), rounded) <= FP16_TOLERANCE


@pytest.mark.exhaustive
@pytest.mark.parametrize(("how", "bound"), [("int8", INT8_TOLERANCE), ("fp16", FP16_TOLERANCE)])
def test_less_than_float32(how: str, bound: float, tmp_path: Path) -> None:
    """Replayed with a new input, the difference to the CPU is within the bound; to float32 there is one."""
    random = np.random.default_rng(3)
    exact = network()
    files = quantised(*exact, {"data": random.random(SHAPE, np.float32)}) if how == "int8" else exact
    raw = record_network(*files, {"data": SHAPE}, name=how, fp16=how == "fp16", timeout=3600)
    assert raw.notes["precision"] == [how]
    trace = build(raw)
    signer = FileSigner(generate(Algorithm.ES256))
    inputs = {"data": random.random(SHAPE, np.float32)}
    result = runners.run("qemu", Delivery(sign_trace(trace.build(), signer)), signer.public, inputs, repeat=2)
    assert result.ok, result.error
    assert relative_difference(result.outputs["fc"], cpu(tmp_path, files, inputs)) <= bound
    assert relative_difference(result.outputs["fc"], cpu(tmp_path, exact, inputs)) > TOLERANCE
