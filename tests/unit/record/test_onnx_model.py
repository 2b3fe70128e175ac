# SPDX-License-Identifier: BSD-2-Clause
"""What an ONNX file may name, and how it says that a size is open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.record.preflight import NetworkError
from tests.support import onnx_networks

onnx = pytest.importorskip("onnx")
SECRET = b"-----BEGIN PRIVATE KEY-----" + bytes(4096)


def with_weights_in(folder: Path, location: str) -> Path:
    """A network whose first weights are, it says, in another file."""
    path = onnx_networks.classifier(folder / "net.onnx")
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    size = len(tensor.raw_data)
    (folder / location).parent.mkdir(exist_ok=True)
    (folder / location).write_bytes(tensor.raw_data + SECRET)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["net.onnx.data", "model.onnx_data", "weights.bin", "parts/conv1.weight"])
def test_weights_beside_the_file(location: str, tmp_path: Path) -> None:
    from host_tools.record import onnx_model

    plain = onnx_model.read(onnx_networks.classifier(tmp_path / "plain.onnx"))
    assert onnx_model.read(with_weights_in(tmp_path, location)).inputs == plain.inputs


@pytest.mark.parametrize("location", ["key.pem", "id_rsa", ".ssh/key", "net.onnx"])
def test_a_file_that_is_not_called_weights_is_not_read(location: str, tmp_path: Path) -> None:
    """A private key beside the model became a tensor of the trace."""
    from host_tools.record import onnx_model

    if location == "net.onnx":
        location = "other.onnx"
    path = with_weights_in(tmp_path, location)
    with pytest.raises(NetworkError, match=r"names '.*', which is not called as weights are .*--external-data"):
        onnx_model.read(path)
    assert onnx_model.read(path, [tmp_path / location]).inputs
    result = CliRunner().invoke(main, ["record", "onnx", str(path), "-o", str(tmp_path / "raw.gtr")])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert location in result.stderr


def test_a_tensor_of_an_attribute_is_looked_at_too(tmp_path: Path) -> None:
    from host_tools.record import onnx_model

    path = onnx_networks.classifier(tmp_path / "net.onnx")
    model = onnx.load(path)
    tensor = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "hidden")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "key.pem"
    (tmp_path / "key.pem").write_bytes(SECRET)
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["unused"], value=tensor))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NetworkError, match=r"tensor hidden names 'key\.pem'"):
        onnx_model.read(path)


def test_an_open_size_written_as_minus_one(tmp_path: Path) -> None:
    from host_tools.record import onnx_model

    path = onnx_networks.classifier(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    path.write_bytes(model.SerializeToString())
    read = onnx_model.read(path)
    assert read.inputs["image"][0] is None
    assert read.shapes({"image": onnx_networks.SHAPE}) == {"image": onnx_networks.SHAPE}
    with pytest.raises(NetworkError, match="give --shape image="):
        read.shapes({})
