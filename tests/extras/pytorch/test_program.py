# SPDX-License-Identifier: BSD-2-Clause
"""Files of torch.export.save: constants, and what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.extras.pytorch.choose import choose_pytorch
from host_tools.extras.pytorch.program import is_program, read
from host_tools.record.preflight import NetworkError
from tests.support import onnx_networks
from tests.support.torch_program import call, meta, program, write
from trace_format import limits
from trace_format.errors import LimitError

ADD = call("aten.add.Tensor", ["y"], self="x", other="p_w")
WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def refused(path: Path) -> str:
    with pytest.raises(NetworkError) as error:
        read(path)
    return str(error.value)


def test_a_program(tmp_path: Path) -> None:
    path = write(tmp_path / "n.pt2", program([ADD], weights=["w"]), {"w": WEIGHTS})
    found = read(path)
    assert [tensor.name for tensor in found.inputs] == ["x"]
    assert found.version == "2.14.1"
    np.testing.assert_array_equal(found.constants["p_w"], WEIGHTS)
    (entry,) = found.calls
    assert entry.operator == "add"
    assert entry.arguments["other"].shape == (2, 3)
    assert is_program(path)
    assert not is_program(onnx_networks.scripted_classifier(tmp_path / "net.pt"))
    assert not is_program(onnx_networks.classifier(tmp_path / "net.onnx"))


def test_a_weight_that_is_a_view_of_others(tmp_path: Path) -> None:
    """The transpose of a part: strides and an offset into a larger storage."""
    storage = np.arange(20, dtype=np.float32)
    view = meta() | {"strides": [{"as_int": 1}, {"as_int": 4}], "storage_offset": {"as_int": 5}}
    saved = program([ADD], weights=["w"])
    path = write(tmp_path / "n.pt2", saved, {"w": storage}, {"w": {"tensor_meta": view}})
    np.testing.assert_array_equal(read(path).constants["p_w"], storage[5:17].reshape(3, 4)[:, :2].T)
    view["storage_offset"] = {"as_int": 11}
    path = write(tmp_path / "n.pt2", saved, {"w": storage}, {"w": {"tensor_meta": view}})
    assert refused(path) == "tensor w reaches beyond its 80 bytes"
    view["storage_offset"] = {"as_int": -1}
    path = write(tmp_path / "n.pt2", saved, {"w": storage}, {"w": {"tensor_meta": view}})
    assert refused(path) == "tensor w has a shape or strides that no tensor has"


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    filled = call("aten.masked_fill.Scalar", ["y"], self="x", mask="x", value={"as_float": "-Infinity"})
    assert read(write(tmp_path / "n.pt2", program([filled]))).calls[0].arguments["value"] == float("-inf")


def changed(**of: Any) -> dict[str, Any]:
    return program([ADD], weights=["w"]) | of


def with_specs(inputs: list[Any] | None = None, outputs: list[Any] | None = None) -> dict[str, Any]:
    saved = program([ADD], weights=["w"])
    signature = saved["graph_module"]["signature"]
    signature["input_specs"] += inputs or []
    signature["output_specs"] += outputs or []
    return saved


OPEN = meta() | {"sizes": [{"as_expr": {"expr_str": "s0", "hint": None}}, {"as_int": 3}]}
MUTATED = {"buffer_mutation": {"arg": {"name": "y"}, "buffer_name": "cache"}}
NUMBER = {"user_input": {"arg": {"as_int": 3}}}
LOST = {"tensor_constant": {"arg": {"name": "c"}, "tensor_constant_name": "c"}}


@pytest.mark.parametrize(
    ("saved", "reason"),
    [
        (
            changed(schema_version={"major": 9, "minor": 1}),
            "a program of schema version 9: expected 8; torch.export",
        ),
        (changed(schema_version=3), "a damaged file of torch.export.save: TypeError"),
        (program([ADD], values={"x": OPEN}), "tensor x has an open dimension: export it without dynamic_shapes"),
        (program([ADD], weights=["w"], values={"x": meta(dtype=13)}), "tensor x is of a type that is not taken"),
        (program([ADD], weights=["w"], values={"p_w": meta((6,))}), "constant p_w is described in two ways"),
        (program([ADD], weights=["v"]), "input p_v is a parameter, which is not in the file"),
        (with_specs(outputs=[MUTATED]), "it changes cache (buffer_mutation): make its state an input and an"),
        (with_specs(inputs=[NUMBER]), "an input of forward is no tensor"),
        (with_specs(inputs=[LOST]), "input c is a tensor_constant, which is not in the file"),
        (changed(graph_module={}), "a damaged file of torch.export.save: KeyError"),
    ],
)
def test_programs_that_are_refused(saved: dict[str, Any], reason: str, tmp_path: Path) -> None:
    assert refused(write(tmp_path / "n.pt2", saved, {"w": WEIGHTS})).startswith(reason)


def test_files_that_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "n.pt2", program([ADD], weights=["w"]), {"w": WEIGHTS})
    whole = good.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(WEIGHTS.tobytes())] ^= 1
    for content in (b"", b"hello", whole[: len(whole) // 2], bytes(damaged)):
        good.write_bytes(content)
        assert refused(good).startswith("not a file of torch.export.save, or one that was cut off: ")
    pickled = write(tmp_path / "p.pt2", program([ADD], weights=["w"]), {"w": WEIGHTS}, {"w": {"use_pickle": True}})
    assert refused(pickled) == "w is no plain tensor (a subclass, or an object)"
    big = write(tmp_path / "b.pt2", program([ADD]), byteorder=b"big")
    assert refused(big) == "weights in the order of bytes of another machine: expected little"
    script = onnx_networks.scripted_classifier(tmp_path / "net.pt")
    assert refused(script).startswith("not a program of torch.export: there is no models/model.json in it; ")


def test_a_size_is_checked_before_it_is_unpacked(tmp_path: Path) -> None:
    """The archive's directory claims 3 GiB of a member."""
    path = tmp_path / "n.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/models/model.json", json.dumps(program([ADD])))
        archive.writestr("net/data/weights/weight_0", b"")
        archive.infolist()[1].file_size = 3 << 30
    with pytest.raises(LimitError, match="bytes that the archive unpacks to"):
        read(path)


def test_an_archive_of_much_content_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checksums would be compared for hours."""
    monkeypatch.setattr(limits, "MODEL_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "net.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", bytes(2000))
    with pytest.raises(LimitError, match="content of the archive in bytes: expected at most 1000, found 2000"):
        choose_pytorch(tmp_path / "net.pt", {})
