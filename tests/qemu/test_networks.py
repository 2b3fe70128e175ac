# SPDX-License-Identifier: BSD-2-Clause
"""Whole networks through the whole road: record the unmodified stack, build, sign, replay in the secure world."""

from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.record import record, same_versions
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import interpreter
from host_tools.passes import PASSES
from host_tools.passes.pipeline import build
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


def test_the_recording_on_a_mali_comes_out_identical(shared_folder: Path) -> None:
    """As above; `python -m tests.support.networks` replaces what is committed."""
    fresh = networks.recorded(networks.LENET, shared_folder, "mali_g71")
    expected = Trace.read(networks.COMMITTED["mali_g71"])
    if not same_versions(fresh, expected):
        expected = networks.record(networks.LENET, "mali_g71")
    assert fresh.build() == expected.build()


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", PASSES)
@pytest.mark.parametrize("name", networks.SIZES)
@pytest.mark.parametrize("gpu", networks.COMMITTED)
def test_a_pass_keeps_what_a_large_network_computes(gpu: str, name: str, step: str, shared_folder: Path) -> None:
    """As tests/vgpu/test_passes.py has it for LeNet."""
    raw, inputs = networks.recorded(name, shared_folder, gpu), {"data": networks.picture(name)}
    assert difference(raw, PASSES[step](raw), inputs) == ""
    with interpreter(raw) as one, interpreter(build(raw, skip=[step])) as two:
        assert np.array_equal(one.run(inputs)["prob"], two.run(inputs)["prob"])
