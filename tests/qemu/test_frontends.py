# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record onnx` and `record pytorch`, to the secure world, against ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.extras.pytorch.choose import convert_pytorch
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.machine.wheels import pnnx
from host_tools.record import frontends, onnx_model, ways
from host_tools.record.differences import relative_difference
from host_tools.record.inputs import random_inputs
from host_tools.record.ncnn.cpu import Float32
from host_tools.record.preflight import NetworkError
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import onnx_networks

TOLERANCE = 1e-5
TORCH_SHAPE = f"in0={'x'.join(map(str, onnx_networks.SHAPE))}"


@pytest.fixture(scope="module", autouse=True)
def converter() -> Path:
    try:
        return pnnx()
    except RecordError as error:
        pytest.skip(str(error))


def gramophone(*words: object, status: int = 0) -> str:
    """What the command says: on standard output, or in its one sentence of an error."""
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr.removeprefix("error: ").strip()


def refused(kind: str, model: Path, *words: object) -> str:
    output = model.with_name("out.gtr")
    said = gramophone("record", kind, model, *words, "-o", output, status=2)
    assert not output.exists()
    return said


def replay(raw: Path, inputs: dict[str, Float32]) -> dict[str, Float32]:
    """Built, signed and replayed in the secure world of QEMU."""
    built = raw.with_suffix(".built.gtr")
    gramophone("build", raw, "-o", built)
    signer = FileSigner(generate(Algorithm.ES256))
    result = runners.run("qemu", Delivery(sign_trace(built.read_bytes(), signer)), signer.public, inputs)
    assert result.ok, result.error
    return result.outputs


def check_replay(raw: Path, reference: Path, names: dict[str, str]) -> None:
    """A replay computes what ONNX Runtime does on an input that was not recorded; names: of the file's tensors."""
    model = onnx_model.read(reference)
    shapes = model.shapes({})
    inputs = {name: value - 0.5 for name, value in random_inputs(shapes, seed=99).items()}
    expected = onnx_model.run(model, inputs)
    found = replay(raw, {names.get(name, name): value[0] for name, value in inputs.items()})
    assert found.keys() == {names.get(name, name) for name in expected}
    for name, value in expected.items():
        difference = relative_difference(found[names.get(name, name)], value[0])
        print(f"{name}: {difference:.1e}")
        assert difference <= TOLERANCE


@pytest.mark.exhaustive  # two minutes each
@pytest.mark.parametrize("make", [onnx_networks.classifier, onnx_networks.residual, onnx_networks.attention])
def test_onnx(make: Callable[[Path], Path], root: RecordRoot, tmp_path: Path) -> None:
    model, raw = make(tmp_path / "net.onnx"), tmp_path / "net.raw.gtr"
    said = json.loads(gramophone("record", "onnx", model, "--compiler", "ncnn", "-o", raw, "--json"))
    assert said["name"] == "net"
    check_replay(raw, model, {})


@pytest.mark.exhaustive
def test_torchscript(root: RecordRoot, tmp_path: Path) -> None:
    model, raw = onnx_networks.scripted_classifier(tmp_path / "net.pt"), tmp_path / "net.raw.gtr"
    gramophone("record", "pytorch", model, "--shape", TORCH_SHAPE, "-o", raw)
    check_replay(raw, onnx_networks.classifier(tmp_path / "net.onnx"), {"image": "in0", "scores": "out0"})


def test_names_and_shapes_of_what_is_converted(tmp_path: Path) -> None:
    """A dimension that is left open is given; inputs keep names unless ncnn could not hold them."""
    open_batch = onnx_networks.classifier(tmp_path / "open.onnx", shape=("batch", 3, "height", "width"))
    converted = frontends.convert_onnx(open_batch, {"image": onnx_networks.SHAPE}, tolerance=TOLERANCE)
    assert converted.shapes == {"image": onnx_networks.SHAPE[1:]}
    two = frontends.convert_onnx(onnx_networks.residual(tmp_path / "two.onnx"), {}, tolerance=TOLERANCE)
    assert two.shapes == {"left": (4, 12, 12), "right": (4, 12, 12)}
    assert two.names == {"in0": "left", "in1": "right", "out0": "495"}
    scripted = onnx_networks.scripted_classifier(tmp_path / "net.pt")
    plain = convert_pytorch(scripted, {"in0": onnx_networks.SHAPE})
    assert plain.shapes == {"in0": onnx_networks.SHAPE[1:]}


def test_layers_that_cannot_be_recorded_are_named(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    onnx_networks.of_operator(model, "Hardmax")
    said = refused("onnx", model, "--compiler", "ncnn")
    assert said.startswith(f"{model}: pnnx ")
    assert said.endswith("(Hardmax); nodes of these types in the file: odd (Hardmax)"), said
    onnx_networks.of_operator(model, "Wishful")
    assert refused("onnx", model).endswith("or beside it: odd (Wishful)")


def test_layers_on_the_cpu_between_others_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless ncnn is asked for."""

    def compiled(*_: object, **__: object) -> None:
        raise NetworkError("this one does not")

    monkeypatch.setattr(ways.ByCompiler, "record", compiled)
    said = refused("onnx", onnx_networks.attention(tmp_path / "net.onnx"))
    why, error = said.splitlines()[-2:]
    assert "ncnn computes layer matmul_9 (MatMul), line 8 of the .param file, on the CPU, between others" in why
    assert error.endswith("net.onnx: this one does not"), said


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    model = onnx_networks.classifier(tmp_path / "net.onnx", shape=("batch", 3, 16, 16))
    assert refused("onnx", model) == (
        f"{model}: input image has the shape ?x3x16x16: give --shape image=... for what is open"
    )
    expected = f"{model}: input image: expected a shape like ?x3x16x16, batch and all, found "
    assert refused("onnx", model, "--shape", "image=3x16x16") == f"{expected}3x16x16"
    assert refused("onnx", model, "--shape", "image=1x4x16x16") == f"{expected}1x4x16x16"
    assert refused("onnx", model, "--shape", "picture=1x3x16x16") == (
        f"{model}: no input 'picture'; the network has image"
    )
    assert "is a batch of 2" in refused("onnx", model, "--shape", "image=2x3x16x16", "--compiler", "ncnn")
    script = onnx_networks.scripted_classifier(tmp_path / "net.pt")
    assert "expected --shape in0=..." in refused("pytorch", script, "--shape", "image=1x3x16x16")


def test_files_that_are_no_networks(tmp_path: Path) -> None:
    model, script = onnx_networks.classifier(tmp_path / "net.onnx"), tmp_path / "net.pt"
    whole = model.read_bytes()
    for content in (b"hello\n", whole[: len(whole) // 2], b"\x7fELF" + bytes(100)):
        model.write_bytes(content)
        assert refused("onnx", model).startswith(f"{model}: not an ONNX file")
    model.write_bytes(b"")
    assert refused("onnx", model) == f"{model}: not an ONNX file: it has no graph of operators"
    onnx_networks.scripted_classifier(script)
    whole = script.read_bytes()
    for content in (b"", b"hello\n", whole[: len(whole) // 2]):
        script.write_bytes(content)
        assert refused("pytorch", script, "--shape", TORCH_SHAPE).startswith(f"{script}: not a TorchScript file")
    damaged = bytearray(whole)
    damaged[whole.index(b"torch.relu")] ^= 1
    script.write_bytes(damaged)
    assert "has another checksum" in refused("pytorch", script, "--shape", TORCH_SHAPE)
    gone = tmp_path / "gone.onnx"
    assert refused("onnx", gone) == f"{gone}: No such file or directory"
