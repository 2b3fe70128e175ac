# SPDX-License-Identifier: BSD-2-Clause
"""A file of another format is named by its first bytes, with the command that takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.pytorch.choose import choose_pytorch
from host_tools.extras.tflite.choose import choose_tflite
from host_tools.record.frontends import choose_onnx
from host_tools.record.other_files import KNOWN, instead
from host_tools.record.preflight import NetworkError
from tests.support.tflite_networks import network

FILES = {
    "TFLite": (network(1)[0], "a TensorFlow Lite file; 'gramophone record tflite' takes it"),
    "GGUF": (b"GGUF\x03" + bytes(60), "a GGUF file; 'gramophone record gguf' takes it"),
    "zip": (b"PK\x03\x04" + bytes(60), "a zip archive, as wheels are; 'gramophone record pytorch' takes"),
    "safetensors": ((40).to_bytes(8, "little") + b'{"w":{}}' + bytes(40), "a safetensors file"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "an HDF5 file"),
    "ncnn": (b"7767517\n3 3\n", "an ncnn .param file; 'gramophone record ncnn' takes it"),
    "ORT": (
        b"\x18\x00\x00\x00ORTM" + bytes(60),
        "ONNX Runtime's own format, of its version; 'gramophone record onnx'",
    ),
    "LFS": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 117979485\n",
        "a pointer of Git LFS in place of a file; 'git lfs pull' gets the file",
    ),
    "NumPy": (np.lib.format.magic(1, 0) + bytes(60), "a NumPy array"),
}
COMMANDS = {"onnx": choose_onnx, "pytorch": choose_pytorch, "tflite": choose_tflite}
OWN = {("TFLite", "tflite"), ("zip", "pytorch")}
CASES = [(name, by) for name in FILES for by in COMMANDS if (name, by) not in OWN]


@pytest.mark.parametrize(("name", "by"), CASES)
def test_another_file(name: str, by: str, tmp_path: Path) -> None:
    choose: Callable[..., object] = COMMANDS[by]
    content, words = FILES[name]
    path = tmp_path / "net.bin"
    path.write_bytes(content)
    with pytest.raises(NetworkError) as error:
        choose(path, {})
    assert f"; it is {words}" in str(error.value)


def test_what_says_nothing() -> None:
    assert instead(b"") == ""
    assert instead(b"\x08\x08\x12\x07pytorch") == ""  # ONNX's own beginning
    assert len({magic for _, magic, _ in KNOWN}) == len(KNOWN)
