# SPDX-License-Identifier: BSD-2-Clause
"""What pnnx said last is in the error, without -v: it knows more of what it refuses than anybody else. An error
is a sentence: it names some of many layers, and counts them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from host_tools.record.ncnn import pnnx
from host_tools.record.preflight import NetworkError


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("ls", r"status 2 on it, last words: \S*ls: cannot access 'fp16=0': No such file or directory \| net\.pt"),
        ("cat", r"status 1 on it, last words: a model\S*cat: 'inputshape=\[1,3\]f32': .* \| \S*cat: 'fp16=0': .*"),
        ("false", "status 1 on it, last words: .*"),
        ("true", "status 0 on it, last words: .*"),
    ],
)
def test_last_words(program: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program in its place, which takes its words for files that are not there."""
    path = Path(shutil.which(program) or "")
    monkeypatch.setattr(pnnx, "pnnx", lambda: path)
    with pytest.raises(NetworkError, match=rf"^{re.escape(pnnx.VERSION)} ended with {error}$"):
        pnnx.convert(b"a model", ".pt", [(1, 3)])


def test_some_of_many_layers() -> None:
    """A network of 8 bits has hundreds of layers that ncnn does not know."""
    layers = [pnnx.Unconverted(f"round_{at}", "QuantizeLinear", ("axis=1",)) for at in range(200)]
    said = str(pnnx.UnconvertedError(layers))
    assert said.endswith("round_2 (QuantizeLinear with axis=1), ... (200 in all)"), said


def test_what_pnnx_says_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's warnings, which pnnx prints, are not its last words on a network. A shell is in its place."""
    monkeypatch.setattr(pnnx, "pnnx", lambda: Path("/bin/sh"))
    script = b"echo no such operator; echo '2026 [W:onnxruntime:pnnx, a.cc:1 Find] no GPU'; exit 3"
    with pytest.raises(NetworkError, match=r"status 3 on it, last words: no such operator$"):
        pnnx.convert(script, ".pt", [(1, 3)])
