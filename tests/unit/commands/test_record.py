# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record`: what of its options reaches the recorder, and what it says of its phases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.machine.boot import BOOT_TIMEOUT_S
from host_tools.machine.root import RecordRoot
from host_tools.record.ncnn import network
from host_tools.support import progress
from host_tools.support.messages import listening
from trace_format.trace import Trace


@pytest.mark.parametrize(
    "module", ["commands.record_models", "commands.check", "extras.pytorch.command", "extras.tflite.command"]
)
def test_help_waits_for_no_numpy(module: str) -> None:
    code = f"import sys, host_tools.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "onnx", "trace_format.trace"} & set(done.stdout.split())


def test_the_time_limit_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def record(*_: object, **options: Any) -> Trace:
        seen.update(options)
        return Trace.read(RAW)

    monkeypatch.setattr("host_tools.api.recording.record_network", record)
    out = tmp_path / "raw.gtr"
    words = ["record", "ncnn", str(PARAM), str(WEIGHTS), "--shape", "data=1x28x28", "-o", str(out)]
    assert CliRunner().invoke(main, [*words, "--timeout", "7.5"], catch_exceptions=False).exit_code == 0
    assert seen["timeout"] == 7.5
    assert out.read_bytes() == RAW.read_bytes()
    assert CliRunner().invoke(main, words).exit_code == 0
    assert seen["timeout"] == BOOT_TIMEOUT_S


def test_a_run_is_a_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its number is said, and it gets the time limit."""
    seen: dict[str, Any] = {}

    def boot(*_: object, timeout: float) -> object:
        seen["timeout"] = timeout
        return SimpleNamespace(files={})

    result = SimpleNamespace(versions={"ncnn": "1"}, outputs={}, reference={})
    monkeypatch.setattr(progress, "LONG_S", 0)
    monkeypatch.setattr(network, "with_shader_cache", lambda job, **_: job)
    monkeypatch.setattr(network, "boot", boot)
    monkeypatch.setattr(network, "ncnn_result", lambda _: result)
    monkeypatch.setattr(network, "qemu_version", lambda: "QEMU")
    monkeypatch.setattr(network, "convert", lambda *_, **__: Trace.read(RAW))
    root = cast(RecordRoot, SimpleNamespace(kernel_name="", driver_name="", versions={}, notes={}))
    machine = network.Machine(2, root, tmp_path, tmp_path, "v3d42", 7.5)
    with listening():
        weights = WEIGHTS.read_bytes()
        lenet = network.Network(PARAM.read_bytes(), weights, bytes(len(weights)), (), ())
        network._record(machine, lenet, {"data": np.zeros((1, 28, 28), "f4")}, "n")
    assert capsys.readouterr().err == "run 2 of 3, 0 s\n"
    assert seen == {"timeout": 7.5}
