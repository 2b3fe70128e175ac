# SPDX-License-Identifier: BSD-2-Clause
"""The digits' network, built once for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from tests.extras.bringup.lenet import X, given, run
from tests.support.replayer_samples import KEY, signed
from trace_format.trace import Trace


@pytest.fixture(scope="package")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits' network, its probe, a key and an input."""
    folder = tmp_path_factory.mktemp("lenet")
    trace = build(Trace.parse(RAW.read_bytes()))
    (folder / "net.gtr").write_bytes(trace.build())
    (folder / "pub.pem").write_bytes(KEY.pem())
    np.save(folder / "x.npy", X)
    made = run("prove", "make", folder / "net.gtr", *given(folder), "-o", folder / "probe.gtr")
    assert made.exit_code == 0, made.output
    (folder / "probe.sgtr").write_bytes(signed(Trace.parse((folder / "probe.gtr").read_bytes())))
    return folder
