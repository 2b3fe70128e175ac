# SPDX-License-Identifier: BSD-2-Clause
"""Random networks of TensorFlow Lite, translated: each is compared with LiteRT when it is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.tflite.choose import translated
from host_tools.extras.tflite.convert import converted
from host_tools.extras.tflite.file import read
from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from tests.support.tflite_file import File
from tests.support.tflite_networks import network

SEEDS = {False: 200, True: 200}
# ONNX Runtime's own optimizer moves a transposition past a Resize and then refuses the node.
REFUSED = {(True, 59)}


@pytest.mark.parametrize("is_quantized", SEEDS, ids=["float32", "8 bits"])
def test_random_networks(is_quantized: bool, tmp_path: Path, budget: int) -> None:
    kinds: Counter[str] = Counter()
    refused = set()
    for seed in range(budget):
        data, found = network(seed, is_quantized)
        path = tmp_path / f"{seed}.tflite"
        path.write_bytes(data)
        try:
            translated(path, {})
        except RecordError as error:
            if "ONNX Runtime cannot run" not in str(error):
                raise
            refused.add((is_quantized, seed))
        kinds.update(found)
    assert refused <= REFUSED
    assert len(kinds) >= 15, kinds


@pytest.fixture
def budget(request: pytest.FixtureRequest) -> int:
    """How many seeds of each kind."""
    return 200 if request.config.getoption("--exhaustive") else 25


def one_product(path: Path) -> Path:
    """A file that multiplies its input by weights of 8 bits."""
    file = File()
    x, y = file.tensor((1, 3), "int8", (0.1, 0)), file.tensor((1, 2), "int8", (1, 0))
    weights = file.constant(np.array([[1, 2, 3], [4, 5, 6]], np.int8), (0.5, 0))
    file.add("FULLY_CONNECTED", [x, weights, -1], [y], "FullyConnectedOptions")
    return file.write(path, [x], [y])


def test_a_product_by_hand(tmp_path: Path) -> None:
    """(10, 20, 30) * 0.1 by ((1, 2, 3), (4, 5, 6)) * 0.5 is (7, 16)."""
    model = translated(one_product(tmp_path / "n.tflite"), {}).model
    (found,) = onnx_model.run(model, {"t0": np.array([[10, 20, 30]], np.int8)}).values()
    assert found.tolist() == [[7, 16]]


def test_the_judge_can_say_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translation that forgets an activation, and one that rounds another way, are found by name."""
    from host_tools.extras.tflite import graph

    data, _ = network(3)
    path = tmp_path / "n.tflite"
    path.write_bytes(data)
    assert translated(path, {})
    monkeypatch.setattr(graph.Build, "activated", lambda self, made, activation: made)
    with pytest.raises(RecordError, match=r"tensor t\d+ at \[.*\]: LiteRT's reference kernels compute"):
        _translate_all(path, range(20))


def _translate_all(path: Path, seeds: range) -> None:
    for seed in seeds:
        path.write_bytes(network(seed)[0])
        translated(path, {})


def test_a_wrong_step_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from host_tools.extras.tflite.graph import Build

    path = one_product(tmp_path / "n.tflite")
    right = Build.dequantized

    def wrong(self: Build, source: str, steps: object, *more: object) -> str:
        made: str = right(self, source, steps, *more)  # type: ignore[arg-type]
        return self.g.node("Add", made, self.number_of(0.2))

    monkeypatch.setattr(Build, "dequantized", wrong)
    with pytest.raises(RecordError, match="tensor t1 at"):
        translated(path, {})


def test_pictures_stay_as_they_are(tmp_path: Path) -> None:
    """Between layers of pictures nothing is transposed: once at the input, once at the output."""
    file = File()
    x = at = file.tensor((1, 8, 8, 3))
    for _ in range(4):
        weights = file.constant(np.ones((3, 3, 3, 3), np.float32))
        bias, made, added = (
            file.constant(np.zeros(3, np.float32)),
            file.tensor((1, 8, 8, 3)),
            file.tensor((1, 8, 8, 3)),
        )
        file.add("CONV_2D", [at, weights, bias], [made], "Conv2DOptions", strideH=1, strideW=1)
        file.add("ADD", [made, at], [added], "AddOptions")
        at = added
    graphs = read(file.write(tmp_path / "n.tflite", [x], [at]))
    kinds = [node.op_type for node in converted(graphs).model.graph.node]
    assert kinds.count("Transpose") == 2
    assert kinds.count("Conv") == 4


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sums_by_segment(dtype: str, tmp_path: Path) -> None:
    """LiteRT computes the same; a segment may have no rows, and a row no segment."""
    file = File()
    x, y = file.tensor((4, 2, 3), dtype), file.tensor((3, 2, 3), dtype)
    of = [2, -1, 0, 2]
    numbers = (file.constant(np.array(value, np.int32)) for value in (of, 3))
    file.add("UNSORTED_SEGMENT_SUM", [x, *numbers], [y])
    model = translated(file.write(tmp_path / "n.tflite", [x], [y]), {}).model
    value = np.arange(24).reshape(4, 2, 3).astype(dtype)
    (found,) = onnx_model.run(model, {"t0": value}).values()
    expected = np.zeros((3, 2, 3))
    for row, segment in zip(value, of, strict=True):
        if segment >= 0:
            expected[segment] += row
    assert found.tolist() == expected.tolist()
