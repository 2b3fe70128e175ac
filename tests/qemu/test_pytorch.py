# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record pytorch` of a program of torch.export, to the secure world, against PyTorch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.machine.root import RecordRoot
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import onnx_networks
from tests.support.torch_program import call, program, write

SPOTTER = Path(__file__).parents[1] / "support" / "torch_spotter.pt2"  # made by torch_spotter.py, as the .npz
TOLERANCE = 1e-5


def gramophone(*words: object, status: int = 0) -> str:
    """What the command says: on standard output, or in its one sentence of an error."""
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr.removeprefix("error: ").strip()


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", ["v3d42", "v3d71"])
def test_a_program(gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    raw, built = tmp_path / "raw.gtr", tmp_path / "built.gtr"
    said = json.loads(gramophone("record", "pytorch", SPOTTER, "--gpu", gpu, "-o", raw, "--json"))
    assert said["name"] == "torch_spotter"
    gramophone("build", raw, "-o", built)
    with np.load(SPOTTER.with_suffix(".npz")) as arrays:
        frames, expected = arrays["frames"], arrays["out0"]
    signer = FileSigner(generate(Algorithm.ES256))
    signed = Delivery(sign_trace(built.read_bytes(), signer))
    result = runners.run("qemu", signed, signer.public, {"frames": frames})
    assert result.ok, result.error
    assert relative_difference(result.outputs["out0"], expected) <= TOLERANCE


def refused(model: Path, *words: object) -> str:
    output = model.with_name("out.gtr")
    said = gramophone("record", "pytorch", model, *words, "-o", output, status=2)
    assert not output.exists()
    return said.removeprefix(f"{model}: ")


def test_programs_that_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "net.pt2"
    shutil.copy(SPOTTER, model)
    assert refused(model, "--shape", "in0=1x8x8") == "no input 'in0'; the network has frames"
    expected = "input frames: expected a shape like 1x8x8, batch and all, found 1x9x8"
    assert refused(model, "--shape", "frames=1x9x8") == expected
    np.save(tmp_path / "x.npy", np.zeros((1, 9, 8), np.float32))
    said = refused(model, "--input", f"frames={tmp_path}/x.npy")
    assert said == "input frames: expected a value of shape 1x8x8, found 1x9x8"
    model.write_bytes(SPOTTER.read_bytes()[:9000])
    assert refused(model).startswith("not a TorchScript file, or one that was cut off: ")
    write(model, program([call("aten.wish.default", ["y"], self="x")]))
    assert refused(model).startswith("operators of PyTorch's that have no translation: wish; torch.export")


def test_torchscript_is_for_ncnn(tmp_path: Path) -> None:
    script = onnx_networks.scripted_classifier(tmp_path / "net.pt")
    shape = f"in0={'x'.join(map(str, onnx_networks.SHAPE))}"
    said = refused(script, "--shape", shape, "--compiler", "tinygrad")
    assert said == "TorchScript is for ncnn: tinygrad takes what torch.export.save writes"
