# SPDX-License-Identifier: BSD-2-Clause
"""Files as objects: what they say of themselves, and what a newcomer gets wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramophone
from host_tools.api import traces
from host_tools.demo import RAW
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace
from trace_format.errors import GramophoneError

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
    assert repr(recording) == (
        "<Recording lenet: v3d42, 14 jobs, in data float32 [1, 28, 28], out prob float32 [10], 501624 bytes>"
    )
    small = gramophone.Trace(small_trace()).save(tmp_path / "net.gtr")
    assert isinstance(gramophone.load(tmp_path / "net.gtr"), gramophone.Trace)
    assert gramophone.load(str(tmp_path / "net.gtr")).data == small.data
    SIGNED.save(tmp_path / "net.sgtr")
    signed = gramophone.load(tmp_path / "net.sgtr")
    assert isinstance(signed, gramophone.SignedTrace)
    assert signed.trace.data == small.data


def test_a_damaged_file_says_what_is_wrong() -> None:
    assert repr(gramophone.Trace(b"abc")).startswith("<Trace: 3 bytes: the trace at offset 0x3: too short")
    damaged = gramophone.SignedTrace(SIGNED.data[:-1] + bytes([SIGNED.data[-1] ^ 1]))
    assert repr(damaged).startswith(f"<SignedTrace: {len(damaged.data)} bytes: the signed trace")
    assert not gramophone.verify(damaged, ES256)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a number for a path": (lambda: gramophone.load(3), "path: expected the path of a file, found int"),  # type: ignore[arg-type]
    "a path for bytes": (lambda: gramophone.Trace("x"), "data: expected the bytes of a file, found str"),  # type: ignore[arg-type]
    "another file": (lambda: gramophone.load(__file__), f"{__file__} at offset 0x0: not a trace"),
    "no trace": (lambda: gramophone.lint(None), "expected a Recording or a Trace or a SignedTrace, or the path"),  # type: ignore[arg-type]
    "no signature": (
        lambda: gramophone.verify(str(RAW), ES256),
        f"{RAW}: expected a SignedTrace, or the path of its file, found a Recording; .build().sign(key) makes one",
    ),
    "no key": (lambda: gramophone.verify(SIGNED, 3), "key: expected a public key, a trust policy or the path"),  # type: ignore[arg-type]
    "a public key signs": (
        lambda: gramophone.Trace(small_trace()).sign(ES256.public),  # type: ignore[arg-type]
        "key: expected a private key, which signs, found a public key",
    ),
    "no signer": (lambda: gramophone.Trace(b"").sign(3), "key: expected a private key, a signer or the path"),  # type: ignore[arg-type]
    "no runner": (
        lambda: gramophone.replay(SIGNED, key=ES256, on="gpu"),
        "on: expected one of vgpu, unicorn, qemu, optee, optee-linux, linux, found 'gpu'",
    ),
    "an array for slots": (
        lambda: gramophone.replay(SIGNED, np.zeros(1), key=ES256),  # type: ignore[arg-type]
        "inputs: expected a dict of slots, found ndarray",
    ),
    "no such slot": (lambda: gramophone.replay(SIGNED, {"dota": [1]}, key=ES256), "no input 'dota'"),
    "no such option": (
        lambda: gramophone.replay(SIGNED, key=ES256, timeout=3),
        "timeout cannot be used on vgpu: no runner has it",
    ),
    "no such GPU": (lambda: gramophone.Recording(b"").build(gpu="x"), "gpu: expected one of "),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    call, said = WRONG[name]
    with pytest.raises(GramophoneError) as error:
        call()
    assert str(error.value).startswith(said)


def test_a_path_stands_for_its_file() -> None:
    assert traces.taken(RAW, gramophone.Recording).data == RAW.read_bytes()
    assert [finding.rule.id for finding in gramophone.lint(RAW)] == [
        finding.rule.id for finding in gramophone.lint(gramophone.load(RAW))
    ]


def test_a_key_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    key = gramophone.new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    signed = gramophone.Trace(small_trace()).sign(path)
    assert gramophone.verify(signed, key.public)
    assert signed.data == gramophone.Trace(small_trace()).sign(key).data
    with pytest.raises(GramophoneError, match="exists, and its key would be lost"):
        gramophone.new_key(path)
