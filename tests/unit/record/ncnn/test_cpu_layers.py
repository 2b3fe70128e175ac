# SPDX-License-Identifier: BSD-2-Clause
"""Layers that ncnn computes on the CPU: those at a network's end become operators, others are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.record.board.kit import kit
from host_tools.record.ncnn.cpu_layers import cpu_end
from host_tools.record.ncnn.cpu_operators import MOST_BOXES, Result, View
from host_tools.record.ncnn.param import WrongError, layers_of
from host_tools.record.operator_slots import dense, restrided
from host_tools.record.preflight import NetworkError, preflight
from tests.support import ncnn_text
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import DType

INPUT = "Input data 0 1 data"
RELU = "ReLU relu 1 1 data relu"
# As ncnn's own mobilenetv2_yolov3.param has it: masks without a point are the bits of floats.
YOLO = (
    "Yolov3DetectionOutput detection 2 1 a b boxes 0=20 1=3 2=2.500000e-01 3=4.500000e-01 "
    "-23304=12,2.0,3.7,4.9,9.4,7.3,20.1,14.3,26.5,15.3,12.1,28.0,27.9 "
    "-23305=6,1077936128,1082130432,1084227584,0,1065353216,1073741824 -23306=2,3.356000e+01,1.678000e+01"
)
SSD = "DetectionOutput detection 3 1 a b c boxes 0=3 1=0.45 2=50 3=10 4=0.3"


def param(*lines: str) -> bytes:
    return ncnn_text.param(lines)


def text(*lines: str) -> str:
    return param(*lines).decode()


REFUSED = {
    "no operator": (
        [INPUT, RELU, "Log log 1 1 relu out"],
        "layer log (Log), line 5 of the .param file, which no operator of a trace computes",
    ),
    "no operator, between jobs": (
        [INPUT, RELU, "Exp exp 1 1 relu exp", "ReLU last 1 1 exp out"],
        "layer exp (Exp), line 5 of the .param file, which no operator of a trace computes",
    ),
    "boxes to the GPU": (
        [
            INPUT,
            "Split split 1 3 data x y z",
            *(f"ReLU relu{i} 1 1 {i} {i}0" for i in "xyz"),
            "DetectionOutput detection 3 1 x0 y0 z0 boxes 0=3",
            "ReLU last 1 1 boxes out",
        ],
        "layer detection (DetectionOutput), line 8 of the .param file, whose result is of varying size and goes "
        "to the GPU, to layer last (ReLU), line 9 of the .param file",
    ),
    "two axes": (
        [INPUT, RELU, "ExpandDims more 1 1 relu two -23303=1,0", "Flip flip 1 1 two out -23300=2,0,1"],
        "layer flip (Flip), line 6 of the .param file: expected one axis, found 2",
    ),
    "an input": (
        [INPUT, "Input other 0 1 other", RELU, "MatMul product 2 1 relu other out"],
        "layer product (MatMul), line 6 of the .param file, whose input 'other' never reaches the GPU",
    ),
    "vectors": (
        [INPUT, "Split split 1 2 data x y", "ReLU one 1 1 x a", "ReLU two 1 1 y b", "MatMul mm 2 1 a b out"],
        "layer mm (MatMul), line 7 of the .param file: expected two matrices, or at most 16 products of such; "
        "found tensors of 8 and 8",
    ),
    "MXNet's boxes": (
        [
            INPUT,
            "Split split 1 3 data x y z",
            *(f"ReLU relu{i} 1 1 {i} {i}0" for i in "xyz"),
            "DetectionOutput detection 3 1 x0 y0 z0 out 0=-233",
        ],
        "layer detection (DetectionOutput), line 8 of the .param file: expected a number of classes, found -233",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_recorded_is_named(what: str) -> None:
    """In the process that asks ncnn, with the line of the file."""
    lines, reason = REFUSED[what]
    names = [line.split()[1] for line in lines if line.startswith("Input ")]
    with pytest.raises(NetworkError) as raised:
        preflight(param(*lines), b"", dict.fromkeys(names, (8,)))
    assert reason in str(raised.value)


SHAPES = {"a": (75, 5, 6), "b": (75, 10, 12)}
HEADS = [INPUT, "Split split 1 2 data x y", "ReLU one 1 1 x a", "ReLU two 1 1 y b"]


def test_a_yolo_becomes_its_operator() -> None:
    end = cpu_end(layers_of(text(*HEADS, YOLO)), [], SHAPES)
    assert (end.outputs, end.until) == (("boxes",), ("a", "b"))
    (step,) = end.steps
    assert step.operator is Operator.YOLOV3_DETECTION_OUTPUT
    boxes, count, work, parameters, head, anchors, _, second = step.operands
    cells = 3 * (5 * 6 + 10 * 12)
    assert boxes == Result("boxes", (MOST_BOXES, 6))
    assert count == Result("boxes.count", (1,), DType.INT32)
    assert work == Result("", (cells, 7))
    np.testing.assert_array_equal(np.asarray(parameters), np.array([0.25, 0.45], np.float32))
    assert head == View("a", (3, 25, 5, 6))
    # 33.56 * 6 and 33.56 * 5 are cut off to whole pixels (ncnn src/layer/yolov3detectionoutput.cpp)
    np.testing.assert_allclose(np.asarray(anchors)[0], [14.3 / 201, 26.5 / 167], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(second)[2], [7.3 / 201, 20.1 / 167], rtol=1e-6)


def test_an_ssd_becomes_its_operator() -> None:
    end = cpu_end(layers_of(text(*HEADS, "ReLU three 1 1 y c", SSD)), [], {"a": (80,), "b": (60,), "c": (2, 80)})
    (step,) = end.steps
    assert [x.shape for x in step.operands] == [(10, 6), (1,), (20, 7), (3,), (20, 4), (20, 3), (2, 20, 4)]
    np.testing.assert_array_equal(np.asarray(step.operands[3]), np.array([0.3, 0.45, 50], np.float32))
    assert len(step.operands) == len(OPERATORS[Operator.DETECTION_OUTPUT].operands)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"a": (74, 5, 6), "b": (75, 10, 12)}, "expected 3 boxes of 25 channels in 'a', found 74x5x6"),
        ({"a": (75, 30), "b": (75, 10, 12)}, "expected 3 boxes of 25 channels in 'a', found 75x30"),
    ],
)
def test_heads_that_do_not_fit(shapes: dict[str, tuple[int, ...]], reason: str) -> None:
    with pytest.raises(WrongError, match=r"layer detection \(Yolov3DetectionOutput\), line 7 of the") as raised:
        cpu_end(layers_of(text(*HEADS, YOLO)), [], shapes)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("-23305=6,", "-23305=7,", "expected an array as option -23305"),
        ("-23305=6,1077936128,", "-23305=6,1.0e9,", "its anchors, masks and scales do not fit its inputs"),
        ("-23306=2,3.356000e+01,", "-23306=2,0.0,", "its anchors, masks and scales do not fit its inputs"),
        (" b boxes ", f" b {'x' * 27} ", "expected an output's name of at most 26 bytes"),
    ],
)
def test_options_that_do_not_fit(old: str, new: str, reason: str) -> None:
    assert old in YOLO
    with pytest.raises(WrongError) as raised:
        cpu_end(layers_of(text(*HEADS, YOLO.replace(old, new))), [], SHAPES)
    assert reason in str(raised.value)


def test_what_comes_before_may_be_asked_for_too() -> None:
    """Then the GPU's tensor is an output besides, and without the boxes there is no step."""
    layers = layers_of(text(*HEADS, YOLO))
    both = cpu_end(layers, ["boxes", "b"], SHAPES)
    assert (both.outputs, both.until, len(both.steps)) == (("boxes", "b"), ("a", "b"), 1)
    assert cpu_end(layers, ["b"], {}).until == ("b",)


def test_a_board_records_no_operators() -> None:
    more = param(INPUT, RELU, "ExpandDims more 1 1 relu more -23303=1,0")
    assert preflight(more, b"", {"data": (8,)}).end.until == ("relu",)
    with pytest.raises(NetworkError, match=r"layer more \(ExpandDims\), line 5"):
        kit(more, b"", {"data": (8,)}, name="more", tolerance=1e-4)


@given(st.data())
def test_strides_of_another_shape_are_numpys(data: st.DataObject) -> None:
    """Where there are none, NumPy copies as well."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(sizes))))
    gaps = data.draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes)))
    memory = np.arange(int(np.prod([size + gap for size, gap in zip(sizes, gaps, strict=True)])), dtype=np.float32)
    whole = memory.reshape([size + gap for size, gap in zip(sizes, gaps, strict=True)])
    tensor = whole[tuple(slice(size) for size in sizes)].transpose(order)
    factors = [f for size in tensor.shape for f in ((2, 2) if size == 4 else (size,))]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
    wanted = [1]
    for factor, cut in zip(factors, cuts, strict=True):
        wanted = [*wanted, factor] if cut else [*wanted[:-1], wanted[-1] * factor]
    found = restrided(tensor.shape, tensor.strides, tuple(wanted), 4)
    expected = tensor.reshape(wanted)
    if found is None:
        assert not np.shares_memory(expected, memory)
    else:
        assert np.array_equal(np.lib.stride_tricks.as_strided(tensor, wanted, found), expected)
        assert np.shares_memory(expected, memory)


def test_strides_without_gaps() -> None:
    assert dense((2, 3, 4), 4) == np.zeros((2, 3, 4), np.float32).strides


def test_ncnn_finds_no_boxes(tmp_path: Path) -> None:
    """An array without a shape; here it is one without elements."""
    from host_tools.record.ncnn import cpu as ncnn_cpu

    (tmp_path / "net.param").write_bytes(param("Input a 0 1 a", "Input b 0 1 b", YOLO))
    (tmp_path / "net.bin").write_bytes(b"")
    heads = {name: np.full(shape, -9, np.float32) for name, shape in SHAPES.items()}
    assert ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", heads)["boxes"].size == 0
