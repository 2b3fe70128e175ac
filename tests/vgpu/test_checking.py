# SPDX-License-Identifier: BSD-2-Clause
"""A recording whose slots lie is found by a replay with another input, before it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.machine.errors import RecordError
from host_tools.record.checking import check_replay, save_case
from host_tools.record.inputs import Tensors, held_out, telling_inputs
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.tolerances import TOLERANCE
from trace_format.trace import Trace

Cases = list[tuple[Tensors, Tensors]]
SHAPES = {"data": (1, 28, 28)}
WHOSE = "ncnn's CPU result"


def compute(inputs: Tensors) -> Tensors:
    return ncnn_cpu.run(PARAM, WEIGHTS, inputs)


@pytest.fixture(scope="module")
def third() -> Cases:
    return held_out(SHAPES, compute)


def moved(name: str, by: int) -> Trace:
    """LeNet's recording with a slot that many bytes away from its tensor."""
    raw = Trace.read(RAW)
    slots = [replace(slot, address=slot.address + by * (slot.name == name)) for slot in raw.slots]
    return raw.with_(slots=slots)


@pytest.mark.parametrize("made_of_it", [np.nan, np.inf, 2.4061436e38])
def test_inputs_whose_outputs_say_nothing(made_of_it: float) -> None:
    """Powers of negative numbers: ncnn's CPU code has the last one where a GPU has no number."""

    def power(inputs: Tensors) -> Tensors:
        (x,) = inputs.values()
        return {"y": np.where(x < 0, np.float32(made_of_it), np.abs(x) ** np.float32(2.5))}

    ((inputs, expected),) = held_out({"x": (64,)}, power)
    assert (inputs["x"] >= 0).all()
    assert (expected["y"] <= 1).all()
    second = telling_inputs({"x": (64,)}, power)[1]
    assert (second["x"] >= 0).all()
    ((inputs, _),) = held_out({"x": (64,)}, lambda inputs: {"y": inputs["x"] * np.float32(1e9)})
    assert (inputs["x"] < 0).any()


def test_the_demo_recording(third: Cases) -> None:
    found = check_replay(Trace.read(RAW), third, TOLERANCE, WHOSE)
    np.testing.assert_allclose(found[0]["prob"], third[0][1]["prob"], atol=TOLERANCE)


@pytest.mark.parametrize(("name", "by"), [("prob", 4), ("prob", 64), ("data", 4), ("data", 112)])
def test_a_slot_that_lies(name: str, by: int, third: Cases) -> None:
    wrong = moved(name, by)
    with pytest.raises(RecordError) as error:
        check_replay(wrong, third, TOLERANCE, WHOSE)
    text = str(error.value)
    assert text.startswith(f"output prob: a replay with another input differs from {WHOSE} by ")
    slot, expected = wrong.slot("prob"), third[0][1]["prob"]
    number = int(text.partition("element [")[2].partition("]")[0])
    assert f"at GPU address {slot.address + 4 * number:#x}, is " in text
    assert f"should be {expected[number]:.7g}" in text


def test_a_slot_that_is_not_mapped(third: Cases) -> None:
    with pytest.raises(RecordError, match=r"be replayed: slot prob is not mapped at GPU address .* job 13;"):
        check_replay(moved("prob", 16 << 20), third, TOLERANCE, WHOSE)


def test_parameters_are_not_touched(third: Cases) -> None:
    raw = Trace.read(RAW)
    before = raw.build(compress=False)
    check_replay(raw, third, TOLERANCE, WHOSE)
    assert raw.build(compress=False) == before


def test_a_case_is_saved(third: Cases, tmp_path: Path) -> None:
    """Before it is replayed; a slot's name may be no file's."""
    given, expected = third[0]
    check_replay(Trace.read(RAW), third[:1], TOLERANCE, WHOSE, tmp_path / "expected")
    assert np.array_equal(np.load(tmp_path / "expected/inputs/data.npy"), given["data"])
    (name,) = expected
    assert np.array_equal(np.load(tmp_path / f"expected/outputs/{name}.npy"), expected[name])
    save_case(tmp_path, ({"../a/b": given["data"]}, {}))
    assert [file.name for file in (tmp_path / "inputs").iterdir()] == ["_._a_b.npy"]
