# SPDX-License-Identifier: BSD-2-Clause
"""Who takes a network, and why: decided once, without a boot."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from host_tools.machine.errors import RecordError
from host_tools.record import choosing, onnx_model, ways
from host_tools.record.choosing import AUTO, FASTEST, NCNN, TINYGRAD, Asked, Choice, choose
from host_tools.record.ncnn.cpu_layers import Between, CpuEnd
from host_tools.record.preflight import NetworkError
from tests.support import onnx_networks

STEP: Any = SimpleNamespace(layer=SimpleNamespace(place="layer odd (Odd)"), results=())
WITHOUT_NCNN = "mali_g31"


class Ncnn:
    """Stands for the conversion: what it finds, and how often it was asked."""

    def __init__(self, end: CpuEnd | RecordError) -> None:
        self.end, self.asked = end, 0

    def __call__(self, *_: object) -> tuple[Any, Any, Any]:
        self.asked += 1
        if isinstance(self.end, RecordError):
            raise self.end
        return SimpleNamespace(), SimpleNamespace(end=self.end), {}


def chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: CpuEnd | RecordError, **asked: Any
) -> tuple[Choice, int]:
    """The choice, and how often ncnn was asked."""
    ncnn, path = Ncnn(end), onnx_networks.classifier(tmp_path / "net.onnx")
    monkeypatch.setattr(choosing, "converted", ncnn)
    return choose(path, onnx_model.read(path), {}, Asked(**asked)), ncnn.asked


AT_END, BETWEEN = CpuEnd(steps=(STEP,)), CpuEnd(between=Between(steps=(STEP,)))
VALUES = {"image": np.zeros(onnx_networks.SHAPE, np.float32)}
SEARCH: Any = SimpleNamespace(option="--search")
# What ncnn says, what is asked; who takes it, words of why, how often ncnn was asked.
CASES: dict[str, tuple[CpuEnd | RecordError, dict[str, Any], str, str, int]] = {
    "all on the GPU": (CpuEnd(), {}, NCNN, "runs all of the network on the GPU", 1),
    "layers at the end": (AT_END, {}, NCNN, "but for layers at its end", 1),
    "layers between": (BETWEEN, {}, TINYGRAD, r"computes layer odd \(Odd\), on the CPU, between others", 1),
    "refused": (RecordError("no such layer"), {}, TINYGRAD, "^ncnn does not take it: no such layer$", 1),
    "no ncnn there": (CpuEnd(), {"gpu": WITHOUT_NCNN}, TINYGRAD, "^ncnn does not take it: ", 0),
    "values": (CpuEnd(), {"values": VALUES}, NCNN, "runs all of the network on the GPU", 1),
    "half precision": (BETWEEN, {"fp16": True}, NCNN, "half precision", 1),
    "ncnn": (BETWEEN, {"compiler": NCNN}, NCNN, "asked for", 1),
    "tinygrad": (CpuEnd(), {"compiler": TINYGRAD}, TINYGRAD, "asked for", 0),
    "fastest": (CpuEnd(), {"compiler": FASTEST}, FASTEST, "both take it", 1),
    "a search": (CpuEnd(), {"kernels": SEARCH}, FASTEST, "both take it", 1),
    "a search with values": (CpuEnd(), {"kernels": SEARCH, "values": VALUES}, FASTEST, "both take it", 1),
    "fastest, no time": (AT_END, {"compiler": FASTEST}, TINYGRAD, "the time model does not know the layers", 1),
    "fastest, refused": (RecordError("no"), {"compiler": FASTEST}, TINYGRAD, "ncnn does not take it: no", 1),
}


@pytest.mark.parametrize("name", CASES)
def test_who_takes_it(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    end, asked, how, why, times = CASES[name]
    choice, found = chosen(monkeypatch, tmp_path, end, **asked)
    assert choice.how == how
    assert [way.name for way in choice.ways] == ([TINYGRAD, NCNN] if how == FASTEST else [how])
    assert found == times
    with pytest.raises(ValueError, match=why):
        raise ValueError(choice.why)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"compiler": NCNN, "kernels": SEARCH}, "--search: ncnn's kernels are fixed"),
        (
            {"values": {"imag": VALUES["image"]}},
            r"no input 'imag' \(did you mean 'image'\?\); the network has image",
        ),
        ({"values": {"image": np.zeros(3)}}, "input image: expected a value of shape .*x.*, found 3"),
        ({"compiler": TINYGRAD, "fp16": True}, "--fp16: compiled networks keep the precision"),
        ({"compiler": FASTEST, "gpu": "mali_g52"}, "--compiler fastest: no chip with GPU"),
    ],
)
def test_what_contradicts_itself(
    asked: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(NetworkError, match=said):
        chosen(monkeypatch, tmp_path, CpuEnd(), **asked)


def test_an_input_that_ncnn_does_not_take(tmp_path: Path) -> None:
    model = onnx_model.read(onnx_networks.classifier(tmp_path / "net.onnx"))
    model.types["image"] = "int64"
    with pytest.raises(NetworkError, match="input image: ncnn takes float32, found int64"):
        ways.converted(tmp_path / "net.onnx", model, model.shapes({}), None, {})


def test_a_recording_that_fails_is_not_tried_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The choice stands; the error says what else there is, but not where it was asked for."""

    def fails(*_: object, **__: object) -> None:
        raise RecordError("it computes something else")

    monkeypatch.setattr(ways.ByNcnn, "record", fails)
    advice = "; '--compiler tinygrad' may take it"
    for compiler, said in ((AUTO, f"something else{advice}$"), (NCNN, "something else$")):
        choice, _ = chosen(monkeypatch, tmp_path, CpuEnd(), compiler=compiler)
        with pytest.raises(RecordError, match=said):
            choice.record(name="net")
