# SPDX-License-Identifier: BSD-2-Clause
"""Whole networks through the whole road: record the unmodified stack, build, sign, replay in the secure world."""

from pathlib import Path

import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.record import record, same_versions
from host_tools.record import ncnn_cpu
from host_tools.record.network import TOLERANCE, relative_difference
from host_tools.runners.replay import ReplayRequest
from host_tools.text.annotate import annotations_of
from host_tools.text.reader import assemble
from host_tools.text.writer import text_of
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import networks
from trace_format.trace import Trace


def test_the_demo_recording_comes_out_identical() -> None:
    """Bit for bit: as committed where the versions are the same, otherwise twice in a row."""
    fresh = record()
    committed = Trace.read(RAW)
    expected = RAW.read_bytes() if same_versions(fresh, committed) else record().build(compress=False)
    assert fresh.build(compress=False) == expected


# Passes and replayers do the same with all of a GPU; recording the larger ones takes minutes.
@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("v3d42", "squeezenet_v1_1"),
        pytest.param("v3d42", "mobilenet_v1", marks=pytest.mark.exhaustive),
        ("mali_g71", networks.LENET),
        pytest.param("mali_g71", "squeezenet_v1_1", marks=pytest.mark.exhaustive),
        pytest.param("mali_g71", "mobilenet_v1", marks=pytest.mark.exhaustive),
    ],
)
def test_networks(gpu: str, name: str, shared_folder: Path, tmp_path: Path) -> None:
    """fp32, an input that was not in the recording, three replays in a row, within 1e-4 of ncnn's CPU path.

    Dumped as text and assembled, the trace is the same.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    trace = networks.built(name, shared_folder, gpu)
    data = trace.build()
    assert assemble("\n".join(text_of(data, trace, annotations_of(trace))), name)[0] == data
    signed = sign_trace(data, signer)
    inputs = {"data": networks.picture(name)}
    result = runners.run("qemu", ReplayRequest(signed, signer.public, inputs, repeat=3))
    assert result.ok, result.error
    assert result.retries == 0
    param, weights = networks.network(name)
    (tmp_path / "net.param").write_bytes(param)
    (tmp_path / "net.bin").write_bytes(weights)
    expected = ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", inputs)
    assert result.outputs.keys() == expected.keys()
    for blob, tensor in expected.items():
        assert relative_difference(result.outputs[blob], tensor) <= TOLERANCE
