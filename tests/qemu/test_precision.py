# SPDX-License-Identifier: BSD-2-Clause
"""Networks in less than float32: int8 weights, and half precision on the GPU; through the whole road."""

from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.record.differences import FP16_TOLERANCE, INT8_TOLERANCE, TOLERANCE, relative_difference
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.runners.replay import ReplayRequest
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.bench.graphs.writer import Graph
from tests.support.int8 import quantised

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
    result = runners.run(
        "qemu", ReplayRequest(Delivery(sign_trace(trace.build(), signer)), signer.public, inputs, repeat=2)
    )
    assert result.ok, result.error
    assert relative_difference(result.outputs["fc"], cpu(tmp_path, files, inputs)) <= bound
    assert relative_difference(result.outputs["fc"], cpu(tmp_path, exact, inputs)) > TOLERANCE
