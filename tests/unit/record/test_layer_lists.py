# SPDX-License-Identifier: BSD-2-Clause
"""The list of layers says what the recorders then take and refuse."""

from __future__ import annotations

import json

import ncnn
import onnx
import pytest
from click.testing import CliRunner
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from host_tools.cli import main
from host_tools.record import layer_lists
from host_tools.record.ncnn.cpu_layers import layers_on_cpu
from host_tools.record.ncnn.cpu_operators import DETECTIONS, LAYERS
from host_tools.record.ncnn.param import Layer, WrongError
from tests.support import json_schemas


def test_ncnn_has_no_layer_besides() -> None:
    """All numbers up to one that ncnn itself counts are in the list, but those that it does not make."""
    found = layer_lists.ncnn_layers()
    names = [*found.on_gpu, *found.by_operator, *found.neither]
    assert len(names) == len(set(names))
    numbers = {ncnn.layer_to_index(name) for name in names}
    made = {number for number in range(200) if ncnn.create_layer(number) is not None}
    assert made == numbers | {ncnn.layer_to_index("Input")}


@pytest.mark.parametrize("name", [*layer_lists.ncnn_layers().neither, *LAYERS])
def test_what_a_recording_says(name: str) -> None:
    """`record` refuses what the list says it refuses, and no other."""
    found = layer_lists.ncnn_layers()
    before = Layer("Convolution", "first", {}, ["in0"], ["a"], 1)
    layer = Layer(name, "it", {}, ["a"], ["b"], 2)
    if name in found.neither:
        with pytest.raises(WrongError, match="which no operator of a trace computes"):
            layers_on_cpu([before, layer])
    elif name in found.by_operator:
        assert layers_on_cpu([before, layer]) == [layer]
    assert name not in DETECTIONS or name in found.by_operator


def test_operators_of_onnx() -> None:
    """They are ONNX's or ONNX Runtime's, each by name."""
    names = layer_lists.onnx_operators()
    assert {"Conv", "Gemm", "LSTM", "GRU", "MatMul", "Softmax", "Scan", "Loop", "Resize"} <= set(names)
    known = {schema.name for schema in (*onnx.defs.get_all_schemas_with_history(), *get_all_operator_schema())}
    assert set(names) <= known


@pytest.mark.parametrize("word", ["", "lstm", "nothing-like-it"])
def test_command(word: str) -> None:
    done = CliRunner().invoke(main, ["record", "layers", "--json", *(("--find", word) if word else ())])
    assert done.exit_code == (1 if word == "nothing-like-it" else 0)
    data = json.loads(done.stdout)
    json_schemas.check("record layers", data)
    listed = [*data["ncnn"]["on_gpu"], *data["ncnn"]["by_operator"], *data["ncnn"]["neither"], *data["onnx"]]
    assert all(word.lower() in name.lower() for name in listed)
    assert bool(listed) == (word != "nothing-like-it")
    assert not data["gpus"]["mali_g31"]["ncnn"]
    text = CliRunner().invoke(main, ["record", "layers", *(("--find", word) if word else ())]).stdout
    assert all(name in text for name in listed)
    assert text != "no layer and no operator has 'nothing-like-it' in its name\n" or not listed
    assert " (0):" not in text


def test_a_misspelt_name() -> None:
    text = CliRunner().invoke(main, ["record", "layers", "--find", "Sofmax"]).stdout
    assert text == "no layer and no operator has 'Sofmax' in its name (did you mean 'Softmax'?)\n"
