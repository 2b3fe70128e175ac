# SPDX-License-Identifier: BSD-2-Clause
"""Files as objects: what they say of themselves, and what a newcomer gets wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gramophone
from host_tools.api import traces
from host_tools.demo import RAW
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace

HEAVY = {"cffi", "click", "cryptography", "ncnn", "onnx", "onnxruntime", "rich", "tinygrad", "unicorn"}
SIGNED = gramophone.SignedTrace(sign_trace(small_trace(), ES256))


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, gramophone; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & HEAVY


def test_the_surface_is_what_the_module_names() -> None:
    public = {name for name in vars(gramophone) if not name.startswith("_")}
    assert public == set(gramophone.__all__) - {"__version__"}
    assert all(vars(gramophone)[name].__doc__ for name in public)


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    recording = gramophone.load(RAW)
    assert isinstance(recording, gramophone.Recording)
    assert (recording.name, recording.gpu, recording.jobs) == ("lenet", "v3d42", 14)
    assert recording.inputs["data"].tensor_shape == (1, 28, 28)
    assert list(recording.outputs) == ["prob"]
    assert len(recording.parameters) == 7
    what = "lenet: v3d42, 14 jobs, in data float32 [1, 28, 28], out prob float32 [10]"
    assert repr(recording) == f"<Recording {what}, {RAW.stat().st_size} bytes>"
    small = gramophone.Trace(small_trace()).save(tmp_path / "net.gtr")
    assert isinstance(gramophone.load(tmp_path / "net.gtr"), gramophone.Trace)
    assert gramophone.load(str(tmp_path / "net.gtr")).data == small.data
    SIGNED.save(tmp_path / "net.sgtr")
    signed = gramophone.load(tmp_path / "net.sgtr")
    assert isinstance(signed, gramophone.SignedTrace)
    assert signed.trace.data == small.data


def test_a_damaged_file_says_what_is_wrong() -> None:
    assert repr(gramophone.Trace(b"abc")).startswith(
        "<Trace: 3 bytes: the trace at offset 0x0: not a trace: expected"
    )
    damaged = gramophone.SignedTrace(SIGNED.data[:-1] + bytes([SIGNED.data[-1] ^ 1]))
    assert repr(damaged).startswith(f"<SignedTrace: {len(damaged.data)} bytes: the signed trace")
    assert not gramophone.verify(damaged, ES256)


def test_a_path_stands_for_its_file() -> None:
    assert traces.taken(RAW, gramophone.Recording).data == RAW.read_bytes()
    assert [finding.rule.id for finding in gramophone.lint(RAW)] == [
        finding.rule.id for finding in gramophone.lint(gramophone.load(RAW))
    ]
