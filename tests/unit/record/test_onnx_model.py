# SPDX-License-Identifier: BSD-2-Clause
"""What an ONNX file may name, and how it says that a size is open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from host_tools.cli import main
from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.ncnn.param import layers_of
from host_tools.record.preflight import NetworkError
from tests.support import onnx_graphs as graphs
from tests.support import onnx_networks
from tests.support.onnx_graphs import node
from trace_format.errors import LimitError

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
    plain = onnx_model.read(onnx_networks.classifier(tmp_path / "plain.onnx"))
    assert onnx_model.read(with_weights_in(tmp_path, location)).inputs == plain.inputs


@pytest.mark.parametrize("location", ["key.pem", "id_rsa", ".ssh/key", "net.onnx"])
def test_a_file_that_is_not_called_weights_is_not_read(location: str, tmp_path: Path) -> None:
    """A private key beside the model became a tensor of the trace."""
    if location == "net.onnx":
        location = "other.onnx"
    path = with_weights_in(tmp_path, location)
    with pytest.raises(NetworkError, match=r"names '.*', which is not called as weights are .*--external-data"):
        onnx_model.read(path)
    assert onnx_model.read(path, [tmp_path / location]).inputs
    result = CliRunner().invoke(main, ["record", "onnx", str(path), "-o", str(tmp_path / "raw.gtr")])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert location in result.stderr


def test_weights_of_40_gib_are_not_read(tmp_path: Path) -> None:
    path = with_weights_in(tmp_path, "weights.bin")
    with (tmp_path / "weights.bin").open("r+b") as file:
        file.truncate(40 << 30)
    with pytest.raises(LimitError, match=r"weights\.bin: size of the file in bytes: expected at most"):
        onnx_model.read(path)


def test_weights_from_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    path = with_weights_in(tmp_path, "weights.bin")
    (tmp_path / "weights.bin").unlink()
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(LimitError, match=r"weights\.bin: not readable: expected a regular file, found a pipe"):
        onnx_model.read(path)


@pytest.mark.parametrize("way", ["symbolic link", "link", "absolute", "above"])
def test_a_name_of_weights_that_leads_elsewhere(way: str, tmp_path: Path) -> None:
    """To a file that is not beside the model, or to one that is no copy; ONNX's reader refuses them."""
    folder, key = tmp_path / "model", tmp_path / "key.bin"
    folder.mkdir()
    path = with_weights_in(folder, "weights.bin")
    (folder / "weights.bin").rename(key)
    if way == "symbolic link":
        (folder / "weights.bin").symlink_to(key)
    elif way == "link":
        (folder / "weights.bin").hardlink_to(key)
    else:
        model = onnx.load(path, load_external_data=False)
        (location,) = (e for e in model.graph.initializer[0].external_data if e.key == "location")
        location.value = str(key) if way == "absolute" else "../key.bin"
        path.write_bytes(model.SerializeToString())
    with pytest.raises(NetworkError, match="weights in another file: "):
        onnx_model.read(path)


def test_a_tensor_of_an_attribute_is_looked_at_too(tmp_path: Path) -> None:
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
    path = onnx_networks.classifier(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    path.write_bytes(model.SerializeToString())
    read = onnx_model.read(path)
    assert read.inputs["image"][0] is None
    assert read.shapes({"image": onnx_networks.SHAPE}) == {"image": onnx_networks.SHAPE}
    with pytest.raises(NetworkError, match="give --shape image="):
        read.shapes({})


def by_rate(path: Path) -> onnx_model.OnnxModel:
    """A network that is another one at 16 kHz: its branches take inputs of other widths."""

    def branch(name: str, width: int) -> Any:
        value = onnx.helper.make_tensor_value_info(f"{name}y", onnx.TensorProto.FLOAT, None)
        weights = onnx.numpy_helper.from_array(np.ones((width, 2), np.float32), f"{name}w")
        return onnx.helper.make_graph([node("MatMul", f"x {name}w", f"{name}y")], name, [], [value], [weights])

    nodes = [
        node("Equal", "rate high", "is_high"),
        node("If", "is_high", "y", then_branch=branch("then", 6), else_branch=branch("else", 3)),
    ]
    inputs = {"x": ("float32", ["batch", "width"]), "rate": ("int64", [])}
    return graphs.model(path, nodes, inputs, {"y": "float32"}, {"high": np.array(16000)})


def test_branches_that_shapes_decide_one_after_the_other(tmp_path: Path) -> None:
    """ONNX Runtime's optimizer stops after ten rounds, and each of these needs a round of its own."""
    stages = 14

    def branch(name: str, kind: str, value: str) -> Any:
        result = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_graph([node(kind, value, name)], name, [], [result])

    nodes = []
    for at in range(stages):
        nodes += [
            node("DynamicQuantizeLinear", f"x{at}", f"whole{at} step{at} zero{at}"),
            node("MatMulInteger", f"whole{at} w zero{at}", f"sums{at}"),
            graphs.cast(f"sums{at}", f"numbers{at}", "float32"),
            node("Shape", f"numbers{at}", f"sizes{at}"),
            node("Slice", f"sizes{at} none one", f"rows{at}"),
            node("Concat", f"rows{at} rest", f"shape{at}", axis=0),
            node("Reshape", f"numbers{at} shape{at}", f"r{at}"),
            node("Shape", f"r{at}", f"again{at}"),
            node("ReduceProd", f"again{at}", f"count{at}", keepdims=0),
            node("Equal", f"count{at} size", f"is{at}"),
        ]
        ways = (branch(f"{kind}{at}", kind, f"r{at}") for kind in ("Abs", "Neg"))
        nodes.append(node("If", f"is{at}", f"x{at + 1}", then_branch=next(ways), else_branch=next(ways)))
    constants = {"size": np.array(6), "w": np.eye(3, dtype=np.int8), "rest": np.array([-1])}
    constants |= {"none": np.array([0]), "one": np.array([1])}
    end = {f"x{stages}": "float32"}
    model = graphs.model(tmp_path / "n.onnx", nodes, {"x0": ("float32", [2, 3])}, end, constants)
    left = onnx_model.optimized(onnx.load_model_from_string(model.data), tmp_path / "left.onnx")
    kinds = [item.op_type for item in left.graph.node]
    assert kinds.count("Abs") == stages
    assert not {"If", "Neg", "Shape"} & set(kinds)


def test_an_input_that_is_a_constant_decides(tmp_path: Path) -> None:
    model = onnx_model.with_constants(by_rate(tmp_path / "n.onnx"), {"rate": np.array(16000, np.int32)})
    assert model.inputs == {"x": (None, None)}
    assert "If" not in model.operators
    assert onnx_model.run(model, {"x": np.ones((1, 6), np.float32)})["y"].tolist() == [[6, 6]]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"q": np.array(1)}, "no input 'q'; the network has x, rate"),
        ({"rate": np.zeros(2)}, "input rate: expected a value of shape a number, found 2"),
        ({"x": np.zeros((1, 3)), "rate": np.array(1)}, "all of its inputs are constants: x, rate"),
    ],
)
def test_a_constant_that_does_not_fit(values: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=said):
        onnx_model.with_constants(by_rate(tmp_path / "n.onnx"), values)


def test_an_input_and_a_constant_of_one_name(tmp_path: Path) -> None:
    by_rate(tmp_path / "n.onnx")
    np.save(tmp_path / "rate.npy", np.array(8000))
    value = f"rate={tmp_path}/rate.npy"
    words = ["record", "onnx", f"{tmp_path}/n.onnx", "-o", f"{tmp_path}/n.gtr"]
    found = CliRunner().invoke(main, [*words, "--input", value, "--constant", value])
    assert found.exit_code == 2
    assert "--input, --constant: a name is given twice" in found.output


def test_a_product_with_weights_of_8_bits_is_one_of_float32(tmp_path: Path) -> None:
    """ONNX Runtime's own fusion rounds the other side to 8 bits: off by about 1e-2 here."""
    generator = np.random.default_rng(1)
    weights = generator.integers(-127, 128, (128, 64)).astype(np.int8)
    scales = generator.uniform(1e-3, 2e-3, 64).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["weights", "scales"], ["w"], "dequantize", axis=1),
        helper.make_node("MatMul", ["x", "w"], ["y"], "product"),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 128))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 64))],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(scales, "scales")],
    )
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    x = generator.normal(0, 1, (1, 128)).astype(np.float32)
    left = onnx_model.run(onnx_model.read(path), {"x": x})["y"]
    assert np.abs(left - x @ (weights * scales)).max() < 1e-5


@pytest.mark.parametrize(
    ("nodes", "inputs", "said"),
    [
        (
            [node("Gather", "x at", "y")],
            {"x": np.zeros((3, 2), np.float32), "at": np.array([9], np.int64)},
            r"running Gather node.*indices element out of data bounds, idx=9 must be within .*\[-3,2\]",
        ),
        (
            [node("MatMul", "x at", "y")],
            {"x": np.zeros((3, 2), np.float32), "at": np.zeros((3, 2), np.float32)},
            r"MatMul.*Incompatible dimensions",
        ),
    ],
    ids=["when it runs", "when it loads"],
)
def test_the_runtimes_last_words(
    nodes: list[Any], inputs: dict[str, np.ndarray], said: str, tmp_path: Path
) -> None:
    """What ONNX Runtime says of a network that it refuses is in the error, without -v, in one line."""
    types = {name: (str(value.dtype), value.shape) for name, value in inputs.items()}
    path = graphs.graph(tmp_path / "net.onnx", nodes, types, {"y": "float32"})
    with pytest.raises(RecordError, match=f"^ONNX Runtime cannot run the network: .*{said}") as error:
        onnx_model.run(onnx_model.read(path), inputs)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("nested", [False, True])
def test_a_network_of_too_many_operators_is_refused_soon(nested: bool, tmp_path: Path) -> None:
    many = [node("Relu", f"t{at}", f"t{at + 1}") for at in range(60_000)]
    value = helper.make_tensor_value_info("t60000", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph(
        many, "many", [helper.make_tensor_value_info("t0", onnx.TensorProto.FLOAT, [1])], [value]
    )
    if nested:
        branch = helper.make_graph(many, "branch", [], [value])
        condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
        choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
        graph = helper.make_graph(
            [choice], "nested", [condition], [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])]
        )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    found = CliRunner().invoke(main, ["record", "onnx", str(path), "-o", str(tmp_path / "raw.gtr")])
    assert found.exit_code == 2
    number = 120_001 if nested else 60_000
    assert found.stderr == f"error: {path}: operators of the network: expected at most 10000, found {number}\n"


def test_a_param_file_of_too_many_layers_is_refused() -> None:
    text = "7767517\n60000 60001\n" + "".join(f"ReLU r{at} 1 1 {at} {at + 1}\n" for at in range(60_000))
    with pytest.raises(LimitError, match=r"lines of the \.param file: expected at most 10000, found 60002"):
        layers_of(text)


def test_nothing_is_left_in_the_home_folder(tmp_path: Path) -> None:
    """ONNX Runtime would make a data base there when it is imported."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    subprocess.run([sys.executable, "-c", f"import {onnx_model.__name__}"], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
