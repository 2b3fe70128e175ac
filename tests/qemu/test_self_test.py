# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record self-test`: each network stresses what it says, and goes to the secure world."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.accesses.job_times import job_times
from host_tools.cli import main
from host_tools.machine.root import RecordRoot
from host_tools.model.timing import chip_of
from host_tools.passes.pipeline import build
from host_tools.record import onnx_model, self_test
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from trace_format.trace import Trace

LEAST = {"launch": self_test.LAUNCHES, "store": 3, "load": 7, "gemm": self_test.PRODUCTS}  # jobs
BINDS = {"launch": {"start"}, "store": {"lines", "memory"}, "load": {"memory"}, "gemm": {"lines", "issue"}}


@pytest.mark.parametrize("name", self_test.NETWORKS)
def test_networks_are_onnx(name: str) -> None:
    onnx.checker.check_model(onnx.load_model_from_string(self_test.network(name)), full_check=True)


# Each is recorded and replayed; a Mali's networks by tinygrad: test_compiled.py.
@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("launch", "v3d71"),
        *(
            pytest.param(name, gpu, marks=pytest.mark.exhaustive)
            for name, gpu in (
                *(("launch", "v3d42"), ("load", "v3d42"), ("launch", "mali_g71"), ("store", "v3d42")),
                *(("gemm", "v3d42"), ("load", "mali_g71"), ("gemm", "v3d71")),
            )
        ),
    ],
)
def test_it_stresses_what_it_says(name: str, gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    raw = tmp_path / "raw.gtr"
    done = CliRunner().invoke(main, ["record", "self-test", name, "--gpu", gpu, "-o", str(raw)])
    assert done.exit_code == 0, done.output
    trace = build(Trace.read(raw))
    assert trace.jobs == LEAST[name]
    times = [time for _, time in job_times(trace, chip_of(gpu))]
    most = max(times, key=lambda time: time.us)
    assert gpu.startswith("mali") or most.binds in BINDS[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(self_test.network(name))
    network = onnx_model.read(path)
    generator = np.random.default_rng(3)
    given = {of: generator.random(shape, np.float32) for of, shape in network.shapes({}).items()}
    signer = FileSigner(generate(Algorithm.ES256))
    found = runners.run("qemu", Delivery(sign_trace(trace.build(), signer)), signer.public, given)
    assert found.ok, found.error
    for of, value in onnx_model.run(network, given).items():
        assert np.abs(found.outputs[of] - value).max() <= 1e-5 * np.abs(value).max()
