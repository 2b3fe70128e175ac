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
from host_tools.model.job_names import NOTE, job_names
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.network import record_network
from host_tools.record.tolerances import TOLERANCE
from host_tools.text.reader import assemble
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import networks
from tests.support.trace_text import annotated
from trace_format.trace import Trace


def without_names(fresh: Trace) -> Trace:
    """A recording as those that are committed, which are older than names of layers on jobs."""
    names = job_names(fresh)
    assert "conv2 (Convolution)" in names
    assert names[-1].endswith("(Softmax)")
    assert all(names)
    return fresh.with_(notes={key: note for key, note in fresh.notes.items() if key != NOTE})


def test_the_demo_recording_comes_out_identical() -> None:
    """Bit for bit: as committed where the versions are the same, otherwise twice in a row."""
    fresh = record()
    committed = Trace.read(RAW)
    expected = RAW.read_bytes() if same_versions(fresh, committed) else record().build(compress=False)
    assert fresh.build(compress=False) == expected


@pytest.mark.exhaustive  # a program on a Mali is recorded twice by test_record_mali.py
@pytest.mark.parametrize("gpu", ["mali_g71", "v3d71"])
def test_the_recording_on_another_gpu_comes_out_identical(gpu: str, shared_folder: Path) -> None:
    """As above; `python -m tests.support.networks GPU` replaces what is committed."""
    fresh = without_names(networks.recorded(networks.LENET, shared_folder, gpu))
    expected = Trace.read(networks.COMMITTED[gpu])
    if not same_versions(fresh, expected):
        expected = without_names(networks.record(networks.LENET, gpu))
    assert fresh.build() == expected.build()


def check(trace: Trace, name: str, tmp_path: Path) -> None:
    """fp32, an input that was not in the recording, three replays in a row, within 1e-4 of ncnn's CPU path.

    Dumped as text and assembled, the trace is the same.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    data = trace.build()
    assert assemble(annotated(data), name)[0] == data
    signed = sign_trace(data, signer)
    inputs = {"data": networks.picture(name)}
    result = runners.run("qemu", Delivery(signed), signer.public, inputs, repeat=3)
    assert result.ok, result.error
    assert result.retries == 0
    param, weights = networks.network(name)
    (tmp_path / "net.param").write_bytes(param)
    (tmp_path / "net.bin").write_bytes(weights)
    expected = ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", inputs)
    assert result.outputs.keys() == expected.keys()
    for blob, tensor in expected.items():
        assert relative_difference(result.outputs[blob], tensor) <= TOLERANCE


def test_what_was_recorded_on_a_mali(tmp_path: Path) -> None:
    check(build(Trace.read(networks.COMMITTED["mali_g71"])), networks.LENET, tmp_path)


# Recording takes a minute, and minutes for the larger ones. The demo's is recorded above, a network on a Mali by
# test_compiled.py; passes and replayers do the same with all of a GPU.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("v3d42", "squeezenet_v1_1"),
        ("v3d42", "mobilenet_v1"),
        ("mali_g71", networks.LENET),
        ("mali_g72", networks.LENET),
        ("mali_g52r1", networks.LENET),
        ("mali_g71", "squeezenet_v1_1"),
        ("mali_g71", "mobilenet_v1"),
        ("v3d71", "mobilenet_v1"),
    ],
)
def test_networks(gpu: str, name: str, shared_folder: Path, tmp_path: Path) -> None:
    check(networks.built(name, shared_folder, gpu), name, tmp_path)


# The passes over memory again on a larger network: those over registers see the same there.
LARGE = [("squeezenet_v1_1", step) for step in PASSES]
LARGE += [("mobilenet_v1", step) for step in ("dead-memory", "plan-memory", "relocate")]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "step"), LARGE)
def test_a_pass_keeps_what_a_large_network_computes(name: str, step: str, shared_folder: Path) -> None:
    """As tests/vgpu/test_passes.py has it for LeNet, on a Mali; half a minute of the processor for each."""
    raw, inputs = networks.recorded(name, shared_folder, "mali_g71"), {"data": networks.picture(name)}
    assert difference(raw, PASSES[step](raw), inputs) == ""
    with interpreter(raw) as one, interpreter(build(raw, skip=[step])) as two:
        assert np.array_equal(one.run(inputs)["prob"], two.run(inputs)["prob"])


COPIED = b"""7767517
5 6
Input data 0 1 data
Convolution conv 1 1 data conv 0=8 1=3 5=1 6=72
Split split 1 2 conv one two
HardSwish swish 1 1 one swish
BinaryOp out 2 1 swish two out 0=0
"""


@pytest.mark.exhaustive
def test_a_blob_that_is_copied_and_an_output_packed_by_four(tmp_path: Path) -> None:
    """ncnn copies a shared blob for a layer that works in place, and keeps channels in groups of four."""
    random = np.random.default_rng(3)
    weights = bytes(4) + random.normal(0, 0.5, 72 + 8).astype("<f4").tobytes()
    trace = build(record_network(COPIED, weights, {"data": (1, 12, 12)}, name="copied"))
    assert trace.slot("out").tensor_shape == (8, 10, 10)
    assert trace.slot("out").split == 0
    signer = FileSigner(generate(Algorithm.ES256))
    inputs = {"data": random.normal(0, 1, (1, 12, 12)).astype(np.float32)}
    (tmp_path / "net.param").write_bytes(COPIED)
    (tmp_path / "net.bin").write_bytes(weights)
    expected = ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", inputs)["out"]
    result = runners.run("qemu", Delivery(sign_trace(trace.build(), signer)), signer.public, inputs, repeat=2)
    assert result.ok, result.error
    assert relative_difference(result.outputs["out"], expected) <= TOLERANCE
