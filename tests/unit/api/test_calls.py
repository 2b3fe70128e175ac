# SPDX-License-Identifier: BSD-2-Clause
"""Functions of the Python API: what a newcomer gets wrong is said in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramophone
from host_tools.api import calls
from host_tools.demo import RAW
from signing.sign import sign_trace
from tests.support.signing_samples import ES256, small_trace
from trace_format.errors import GramophoneError

SIGNED = gramophone.SignedTrace(sign_trace(small_trace(), ES256))


def test_the_module_gives_them() -> None:
    assert all(
        getattr(gramophone, name) is getattr(calls, name) for name in ("lint", "new_key", "replay", "verify")
    )


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
        "on: expected one of vgpu, unicorn, qemu, optee, optee-linux, linux, raspi4b, found 'gpu'",
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


def test_a_key_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    key = gramophone.new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    signed = gramophone.Trace(small_trace()).sign(path)
    assert gramophone.verify(signed, key.public)
    assert signed.data == gramophone.Trace(small_trace()).sign(key).data
    with pytest.raises(GramophoneError, match="exists, and its key would be lost"):
        gramophone.new_key(path)
