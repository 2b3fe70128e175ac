# SPDX-License-Identifier: BSD-2-Clause
"""A replay in QEMU that is ended from outside: the real machine, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import firmware
from host_tools.vgpu.build import QEMU, qemu_plugin
from signing.sign import sign_trace
from tests.support.bare_metal import require
from tests.support.processes import Marked, default_signals
from tests.support.signing_samples import ES256
from trace_format.trace import Trace


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str)
def test_a_replay_is_ended(number: signal.Signals, status: int, tmp_path: Path) -> None:
    require(QEMU, "qemu-system-arm")
    qemu_plugin()
    data = RAW.read_bytes()
    trace, key = tmp_path / "net.sgtr", tmp_path / "pub.pem"
    trace.write_bytes(sign_trace(build(Trace.parse(data), source=data, skip=KEEP_INPUTS).build(), ES256))
    key.write_bytes(ES256.public.pem())
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    marked = Marked()
    command = [sys.executable, "-m", "host_tools.cli", "replay", str(trace), "--key", str(key), "--on", "qemu"]
    command += ["--firmware", str(firmware.build(ES256.public).folder), "--repeat", "1000000"]  # hours
    environment = marked.environment | {"TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals
    ) as process:
        try:
            marked.wait_for(QEMU)
            assert os.listdir(temporary)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            left = marked.end()
    assert (process.returncode, left, os.listdir(temporary)) == (status, [], [])
    assert said == f"error: ended by {number.name}\n"
