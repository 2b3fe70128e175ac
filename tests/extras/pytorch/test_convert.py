# SPDX-License-Identifier: BSD-2-Clause
"""Programs of torch.export as ONNX networks: what they compute, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from host_tools.extras.pytorch import program, sharing
from host_tools.extras.pytorch.convert import read_program
from host_tools.record import onnx_model
from host_tools.record.differences import relative_difference
from host_tools.record.preflight import NetworkError
from tests.support.torch_program import call, meta, write
from tests.support.torch_program import program as written

SUPPORT = Path(__file__).parents[2] / "support"
OPERATORS = SUPPORT / "torch_operators.pt2"  # of PyTorch 2.14; made by torch_operators.py, as the .npz
TOLERANCE = 2e-6


def test_what_pytorch_computes() -> None:
    """Each of 311 tensors that PyTorch made by 201 operators, in shape, type and value."""
    model = read_program(OPERATORS)
    with np.load(OPERATORS.with_suffix(".npz")) as arrays:
        given = [arrays[key] for key in arrays.files if key.startswith("in ")]
        expected = {key: arrays[key] for key in arrays.files if not key.startswith("in ")}
    found = onnx_model.run(model, dict(zip(model.inputs, given, strict=True)))
    wrong = []
    for (name, value), result in zip(expected.items(), found.values(), strict=True):
        same = (result.shape, result.dtype) == (value.shape, value.dtype)
        if not same or relative_difference(result.astype(float), value.astype(float)) > TOLERANCE:
            wrong.append(name)
    assert wrong == []
    assert len({entry.operator for entry in program.read(OPERATORS).calls}) == 201
    assert len(expected) == 311


def computed(path: Path, **given: list[float]) -> list[Any]:
    model = read_program(path)
    values = {name: np.array(value, np.float32).reshape(2, 3) for name, value in given.items()}
    return [value.reshape(-1).tolist() for value in onnx_model.run(model, values).values()]


def refused(path: Path) -> str:
    with pytest.raises(NetworkError) as error:
        read_program(path)
    return str(error.value)


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    """Forward's for inputs; an output's name is none of theirs. An input, and a tensor twice, are outputs, too."""
    saved = written([call("aten.relu.default", ["y"], self="out0")], inputs=["out0"], outputs=["y", "out0", "y"])
    model = read_program(write(tmp_path / "n.pt2", saved))
    assert list(model.inputs) == ["out0"]
    assert model.outputs == ("out0_", "out1", "out2")
    assert computed(tmp_path / "n.pt2", out0=[-1, 2, -3, 4, -5, 6])[1] == [-1, 2, -3, 4, -5, 6]


def test_a_change_in_place_is_seen_under_the_old_name(tmp_path: Path) -> None:
    calls = [
        call("aten.neg.default", ["a"], self="x"),
        call("aten.detach.default", ["same"], self="a"),
        call("aten.clone.default", ["copy"], self="a"),
        call("aten.relu_.default", ["b"], self="a"),
        call("aten.add.Tensor", ["y"], self="a", other="same"),
    ]
    path = write(tmp_path / "n.pt2", written(calls, outputs=["y", "copy"]))
    assert computed(path, x=[1, -2, 3, -4, 5, -6]) == [[0, 4, 0, 8, 0, 12], [-1, 2, -3, 4, -5, 6]]


def test_a_change_of_shared_memory(tmp_path: Path) -> None:
    """Of a view, and then of the whole: the whole, this view and another one have it."""
    calls = [
        call("aten.neg.default", ["a"], self="x"),
        call("aten.slice.Tensor", ["row"], self="a", dim=0, start=1, end=2),
        call("aten.permute.default", ["turned"], self="a", dims=[1, 0]),
        call("aten.relu_.default", ["b"], self="row"),
        call("aten.mul_.Scalar", ["c"], self="a", other=2),
    ]
    values = {name: meta((1, 3)) for name in ("row", "b")} | {"turned": meta((3, 2))}
    path = write(tmp_path / "n.pt2", written(calls, outputs=["a", "row", "turned", "b"], values=values))
    row = [0, 10, 0]
    found = computed(path, x=[1, 2, 3, 4, -5, 6])
    assert found == [[-2, -4, -6, *row], row, [-2, 0, -4, 10, -6, 0], row]


@pytest.mark.parametrize("of", ["flat", "a"])
def test_a_change_of_memory_that_is_perhaps_shared(of: str, tmp_path: Path) -> None:
    """By `reshape`, which may copy: refused if the other one is read later on."""
    other = {"flat": "a", "a": "flat"}[of]
    calls = [
        call("aten.neg.default", ["a"], self="x"),
        call("aten.reshape.default", ["flat"], self="a", shape=[6]),
        call("aten.relu_.default", ["b"], self=of),
        call("aten.neg.default", ["y"], self=other),
    ]
    shapes = {"a": meta(), "flat": meta((6,))}
    values = {"flat": shapes["flat"], "b": shapes[of], "y": shapes[other]}
    said = refused(write(tmp_path / "n.pt2", written(calls, values=values)))
    assert said.startswith(f"relu_ changes memory that {other} shares, which is read later on; torch.export.exp")
    calls[-1] = call("aten.neg.default", ["y"], self="x")
    good = write(tmp_path / "good.pt2", written(calls, values=values | {"y": meta()}))
    assert computed(good, x=[1, 2, 3, 4, 5, 6]) == [[-1, -2, -3, -4, -5, -6]]


def test_operators_without_a_translation_are_all_named(tmp_path: Path) -> None:
    calls = [
        call("aten.relu.default", ["a"], self="x"),
        call("aten.wish.default", ["b"], self="a"),
        call("torchvision.nms.default", ["c"], self="b"),
        call("aten.hope_.default", ["y"], self="c"),
    ]
    said = refused(write(tmp_path / "n.pt2", written(calls)))
    assert said.startswith("operators of PyTorch's that have no translation: hope_, torchvision::nms, wish; ")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (call("aten.round.decimals", ["y"], self="x", decimals=2), "operator round: got an unexpected"),
        (call("aten.where.default", ["y"], condition="x"), "operator where: missing a required argument"),
        (call("aten.dropout.default", ["y"], input="x", p=0.5, train=True), "operator dropout: dropout of a"),
        (call("aten.select.int", ["y"], self="x", dim=0, index={"as_none": True}), "operator select with"),
        (call("aten.relu.default", ["y"], self="z"), "a damaged file of torch.export.save: KeyError 'z'"),
        (call("aten.relu.default", ["y"], self="y"), "a damaged program: y is used before it is made"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(entry: dict[str, Any], reason: str, tmp_path: Path) -> None:
    assert refused(write(tmp_path / "n.pt2", written([entry]))).startswith(reason)


def test_a_value_that_is_made_twice(tmp_path: Path) -> None:
    """It would be a view of itself."""
    entry = call("aten.view.default", ["x"], self="x", size=[2, 3])
    said = refused(write(tmp_path / "n.pt2", written([entry], outputs=["x"])))
    assert said == "a damaged program: x is made twice"


def test_indices_of_a_pooling_that_are_read(tmp_path: Path) -> None:
    pooled = call("aten.max_pool2d_with_indices.default", ["a", "at"], self="x", kernel_size=[1, 1])
    values = {name: meta((1, 1, 2, 3)) for name in ("x", "a", "at", "y")}
    taken = write(tmp_path / "n.pt2", written([pooled, call("aten.neg.default", ["y"], self="a")], values=values))
    assert read_program(taken).outputs == ("out0",)
    read = write(tmp_path / "m.pt2", written([pooled, call("aten.neg.default", ["y"], self="at")], values=values))
    assert refused(read) == "operator max_pool2d_with_indices: its second result, such as indices, is read"


@pytest.mark.parametrize(("index", "row"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_one_row_of_an_axis(index: int, row: int) -> None:
    assert sharing._rows(selected(index), 0).tolist() == [row]


@pytest.mark.parametrize("index", [3, -4])
def test_a_row_outside_of_an_axis_is_none_of_its_rows(index: int) -> None:
    """A slice in its place would give an empty piece, and a result without it."""
    with pytest.raises(NetworkError, match=f"a damaged program: select of row {index} where there are 3"):
        sharing._rows(selected(index), 0)


def selected(index: int) -> Any:
    """A view of one of three rows."""
    call = SimpleNamespace(operator="select", arguments={"index": index})
    return SimpleNamespace(call=call, of=SimpleNamespace(shape=(3, 4)), at=0)
