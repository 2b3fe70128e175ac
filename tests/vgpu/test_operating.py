# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that end in operators: from tensors as GPUs leave them to what ncnn's layers make of the tensors.

The recordings are small traces without jobs, whose callers give what the GPU would have computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.passes.pipeline import build
from host_tools.record.layouts import PACK
from host_tools.record.ncnn.cpu_layers import cpu_end
from host_tools.record.ncnn.param import layers_of
from host_tools.record.operating import check_operators, with_operators
from host_tools.support.tensors import boxes_found
from tests.support import ncnn_text
from tests.support import replayer_samples as s
from tests.support.operator_samples import on_core, on_host
from tests.support.replayer_samples import PAGE, VA
from trace_format.actions import MAP_READ, MAP_WRITE, Op, action, array_of
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Array = NDArray[Any]
few = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
GAP = 16  # bytes from a channel's end to the next: ncnn aligns channels


def recording(tensors: dict[str, Array]) -> Trace:
    """One in which inputs `given.NAME` become outputs NAME; channels in groups of four where there are so many."""
    slots: list[Slot] = []
    at = VA * PAGE
    for name, tensor in tensors.items():
        split = 0 if tensor.ndim == 3 and tensor.shape[0] % PACK == 0 else None
        shape = tensor.shape if split is None else (tensor.shape[0] // PACK, PACK, *tensor.shape[1:])
        if split is None:
            strides = [4]
            for size in reversed(shape[1:]):
                strides.insert(0, strides[0] * size + GAP * (len(strides) == len(shape) - 1))
        else:
            _, _, height, width = shape
            strides = [4 * PACK * width * height + GAP, 4, 4 * PACK * width, 4 * PACK]
        for kind, called in ((SlotKind.INPUT, f"given.{name}"), (SlotKind.OUTPUT, name)):
            as_given = None if kind is SlotKind.INPUT else split
            slots.append(Slot(called, kind, DType.FLOAT32, shape, tuple(strides), at, split=as_given))
        at += -(-slots[-1].span // 64) * 64
    pages = -(-at // PAGE) - VA
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, va_page=VA, pages=pages, frame=s.MEMORY_PAGE),
        action(Op.SET_GPU_PGTABLE),
        s.write("hub.MMU_CTL", s.MMU_ON),
        action(Op.REPLAY_START),
        *(action(Op.COPY_TO_GPU, slot=i) for i in range(0, len(slots), 2)),
        *(action(Op.COPY_FROM_GPU, slot=i) for i in range(1, len(slots), 2)),
    ]
    return s.trace(
        actions=array_of(rows),
        slots=slots,
        carveout_bytes=(s.MEMORY_PAGE + pages) * PAGE,
        va_bytes=-(-(VA + pages + 64) // 32) * 32 * PAGE,
    )


def given_by(tensors: dict[str, Array]) -> dict[str, Array]:
    """Inputs of `recording`, as they lie in memory."""
    slots = {slot.name: slot for slot in recording(tensors).slots}
    return {f"given.{name}": tensor.reshape(slots[name].shape) for name, tensor in tensors.items()}


def param(tensors: dict[str, Array], *layers: str) -> bytes:
    return ncnn_text.param([*(f"Split from.{name} 0 1 {name}" for name in tensors), *layers])


def checked(tensors: dict[str, Array], fixed: set[str], *layers: str) -> tuple[Trace, dict[str, Array]]:
    """The trace that computes the layers, after all passes, and its outputs; ncnn's layers agree with them."""
    text = param(tensors, *layers)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    for line in layers:
        if line.startswith("ExpandDims"):
            _, _, _, _, bottom, top, *_ = line.split()
            shapes[top] = (1, *shapes[bottom])
    end = cpu_end(layers_of(text.decode()), [], shapes)
    inner = {name: tensor for name, tensor in tensors.items() if name not in fixed}
    whole = with_operators(recording(inner), end, {name: tensors[name] for name in fixed})
    inputs = given_by(inner)
    check_operators(whole, end, (text, b""), [(inputs, tensors)])
    trace = build(whole)
    trace = Trace.parse(trace.build())
    one, two = on_core(trace, inputs), on_host(trace, inputs)
    assert one.keys() == two.keys() == {slot.name for slot in trace.slots if slot.kind is SlotKind.OUTPUT}
    for name, tensor in one.items():
        np.testing.assert_array_equal(tensor, two[name])
    wrong = {name: (tensor + 1).astype(np.float32) for name, tensor in tensors.items()}
    with pytest.raises(RecordError, match="computes otherwise than ncnn's own layer"):
        check_operators(whole, end, (text, b""), [(inputs, wrong)])
    return trace, boxes_found(trace, one)


@few
@given(seed=st.integers(0, 2**32 - 1), boxes=st.sampled_from([1, 2, 4]), classes=st.integers(1, 3))
def test_heads_of_a_yolo_are_unpacked(seed: int, boxes: int, classes: int) -> None:
    """Of 4 boxes, groups of four channels begin within a box."""
    generator = np.random.default_rng(seed)
    channels = boxes * (5 + classes)
    heads = {
        name: generator.normal(0, 2, (channels, h, h + 1)).astype(np.float32) for name, h in (("a", 2), ("b", 3))
    }
    for head in heads.values():
        head.reshape(boxes, -1, *head.shape[1:])[:, 4].flat[:3] = 4  # some are sure
    biases = ",".join(f"{x:.2f}" for x in generator.uniform(10, 60, 4 * boxes))
    mask = ",".join(f"{i:.1f}" for i in range(2 * boxes))
    layer = (
        f"Yolov3DetectionOutput boxes 2 1 a b boxes 0={classes} 1={boxes} 2=0.3 3=0.45 "
        f"-23304={4 * boxes},{biases} -23305={2 * boxes},{mask} -23306=2,32.0,16.0"
    )
    trace, found = checked(heads, set(), layer)
    assert len(found["boxes"]) == found["boxes.count"][0] > 0
    copies = [slot.name for slot in trace.slots if slot.name.endswith(".unpacked")]
    assert len(copies) == (2 if channels % PACK == 0 else 0)


def test_an_ssd_whose_priors_do_not_depend_on_the_picture() -> None:
    """Their values are constants of the trace, as the scores' are not."""
    generator = np.random.default_rng(5)
    low = generator.random((30, 2))
    prior = np.concatenate([low, low + 0.3], axis=1).reshape(-1)
    scores = generator.dirichlet(np.ones(3) / 2, 30)
    tensors = {
        "location": generator.normal(0, 1, 120).astype(np.float32),
        "confidence": scores.reshape(-1).astype(np.float32),
        "priors": np.stack([prior, np.full(120, 0.1)]).astype(np.float32),
    }
    layer = "DetectionOutput boxes 3 1 location confidence priors boxes 0=3 1=0.45 2=50 3=10 4=0.3"
    trace, found = checked(tensors, {"priors"}, layer)
    assert found["boxes"].shape == (10, 6)
    assert [slot.bound for slot in trace.slots if "priors" in slot.name] == [True]


@pytest.mark.parametrize("transposed", [0, 1])
def test_products_and_shapes_at_the_end(transposed: int) -> None:
    """An operator on what another one computed."""
    generator = np.random.default_rng(6)
    right = (5, 6) if transposed else (6, 5)
    shapes = {"a": (4, 6), "b": right}
    tensors = {name: generator.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    layers = f"MatMul mm 2 1 a b product 0={transposed}", "ExpandDims more 1 1 product out -23303=1,0"
    text = param(tensors, *layers)
    end = cpu_end(
        layers_of(text.decode()),
        [],
        {**{n: t.shape for n, t in tensors.items()}, "out": (1, 4, 5), "product": (4, 5)},
    )
    whole = with_operators(recording(tensors), end, {})
    inputs = given_by(tensors)
    check_operators(whole, end, (text, b""), [(inputs, tensors)])
    found = on_core(build(whole), inputs)
    assert found.keys() == {"out"}
    expected = tensors["a"] @ (tensors["b"].T if transposed else tensors["b"])
    np.testing.assert_allclose(found["out"], expected[None], rtol=1e-5, atol=1e-5)


SEQUENCES = {
    "halves": ("GLU layer 1 1 a out 0=1", (4, 6, 5), (4, 3, 5)),
    "halves of channels": ("GLU layer 1 1 a out 0=0", (8, 6, 5), (4, 6, 5)),
    "sums": ("CumulativeSum layer 1 1 a out 0=-1", (4, 6), (4, 6)),
    "backwards": ("Flip layer 1 1 a out -23300=1,0", (8, 3, 2), (8, 3, 2)),
}


@pytest.mark.parametrize("what", SEQUENCES)
def test_layers_along_an_axis_at_the_end(what: str) -> None:
    """Outputs have the network's shape, whatever the operator takes it for."""
    layer, shape, result = SEQUENCES[what]
    tensors = {"a": np.random.default_rng(7).normal(0, 1, shape).astype(np.float32)}
    text = param(tensors, layer)
    end = cpu_end(layers_of(text.decode()), [], {"a": shape, "out": result})
    whole = with_operators(recording(tensors), end, {})
    check_operators(whole, end, (text, b""), [(given_by(tensors), tensors)])
    assert on_core(build(whole), given_by(tensors))["out"].shape == result


@pytest.mark.parametrize("shapes", [((3, 4, 6), (3, 6, 5)), ((2, 3, 4, 6), (3, 6, 5)), ((4, 6), (3, 6, 5))])
def test_products_of_many_matrices(shapes: tuple[tuple[int, ...], ...]) -> None:
    """One operator for each, in one tensor."""
    generator = np.random.default_rng(8)
    tensors = {name: generator.normal(0, 1, s).astype(np.float32) for name, s in zip("ab", shapes, strict=True)}
    expected = tensors["a"] @ tensors["b"]
    text = param(tensors, "MatMul mm 2 1 a b out")
    end = cpu_end(
        layers_of(text.decode()), [], {**{n: t.shape for n, t in tensors.items()}, "out": expected.shape}
    )
    whole = with_operators(recording(tensors), end, {})
    check_operators(whole, end, (text, b""), [(given_by(tensors), tensors)])
    found = on_core(build(whole), given_by(tensors))["out"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_memory_moves_up_where_the_image_grows_into_it() -> None:
    """In recordings of a Mali, memory begins after the image."""
    generator = np.random.default_rng(1)
    left, table = (generator.random(shape).astype(np.float32) for shape in ((3, 2), (2, 4096)))
    text = param({"left": left, "table": table}, "MatMul mm 2 1 left table out")
    end = cpu_end(layers_of(text.decode()), [], {"left": left.shape, "table": table.shape, "out": (3, 4096)})
    full = replace(recording({"left": left}), image=bytes(s.MEMORY_PAGE * PAGE))
    found = on_host(with_operators(full, end, {"table": table}), given_by({"left": left}))["out"]
    np.testing.assert_allclose(found, left @ table, rtol=1e-5)


def test_an_output_that_is_fixed() -> None:
    tensors = {"a": np.zeros((4, 6), np.float32)}
    end = cpu_end(
        layers_of(param(tensors, "ExpandDims more 1 1 a out -23303=1,0").decode()),
        ["out", "a"],
        {"a": (4, 6), "out": (1, 4, 6)},
    )
    with pytest.raises(RecordError, match="output a does not depend on the inputs"):
        with_operators(recording(tensors), end, {"a": tensors["a"]})
