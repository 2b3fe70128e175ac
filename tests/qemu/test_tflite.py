# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record tflite`, to the secure world: a network of 8 bits that keeps a variable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.machine.root import RecordRoot
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.extras.tflite.test_files import counter
from tests.extras.tflite.test_networks import one_product


def gramophone(*words: object, status: int = 0) -> str:
    """What the command says: on standard output, or in its one sentence of an error."""
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr.removeprefix("error: ").strip()


def signed(model: Path, folder: Path) -> tuple[Delivery, FileSigner]:
    raw, built = folder / "raw.gtr", folder / "built.gtr"
    gramophone("record", "tflite", model, "-o", raw)
    gramophone("build", raw, "-o", built)
    signer = FileSigner(generate(Algorithm.ES256))
    return Delivery(sign_trace(built.read_bytes(), signer)), signer


@pytest.mark.exhaustive
def test_a_product_of_8_bits(root: RecordRoot, tmp_path: Path) -> None:
    """tests/extras/tflite/test_networks.py says why it is (7, 16)."""
    trace, signer = signed(one_product(tmp_path / "n.tflite"), tmp_path)
    result = runners.run("qemu", trace, signer.public, {"t0": np.array([[10, 20, 30]], np.int8)})
    assert result.ok, result.error
    assert result.outputs["t1"].tolist() == [[7, 16]]


@pytest.mark.exhaustive
def test_a_variable_becomes_state(root: RecordRoot, tmp_path: Path) -> None:
    """`build` keeps it without an option: two replays of one session add up, from its first value."""
    trace, signer = signed(counter(tmp_path / "n.tflite"), tmp_path)
    series = {"t1": np.array([[[1, 2]], [[1, 2]]], np.float32)}
    how = {"repeat": 2, "series": series, "each": frozenset(["t3"])}
    result = runners.run("vgpu", trace, signer.public, {}, **how)
    assert result.ok, result.error
    assert result.outputs["t3"].tolist() == [[[6, 7]], [[7, 9]]]


def test_files_that_are_refused(tmp_path: Path) -> None:
    model, output = tmp_path / "n.tflite", tmp_path / "out.gtr"
    model.write_bytes(one_product(tmp_path / "whole.tflite").read_bytes()[:200])
    said = gramophone("record", "tflite", model, "-o", output, status=2)
    assert said.startswith(f"{model}: a damaged TensorFlow Lite file: ")
    model.write_bytes(b"GGUF" + bytes(100))
    said = gramophone("record", "tflite", model, "-o", output, status=2)
    assert "expected b'TFL3', found" in said
    assert not output.exists()
