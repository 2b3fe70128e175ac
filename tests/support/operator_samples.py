# SPDX-License-Identifier: BSD-2-Clause
"""Traces that compute on the CPU: one operator, its operands in scattered pages and with gaps between elements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ncnn
import numpy as np
from numpy.typing import NDArray

from host_tools.model.interpreter import interpreter
from host_tools.runners.buffers import bind
from tests.support import ncnn_text
from tests.support import replayer_samples as s
from tests.support.replayer_samples import PAGE, VA, Device
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.operators import OPERATORS, ROW_ALIGNMENT, Operator
from trace_format.schema import DTYPE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Array = NDArray[Any]
GAP = 3  # elements left out between rows
_generator = np.random.default_rng(5)


def numbers(*shape: int) -> Array:
    """Random numbers."""
    return _generator.normal(0, 1.5, shape).astype(np.float32)


def empty(*shape: int, dtype: str = "float32") -> Array:
    """What an operator writes to."""
    return np.zeros(shape, dtype)


_COUNT = empty(1, dtype="int32")
_INDICES = np.array([3, -1, 99], np.int32)
_HEADS = [numbers(2, 8, 3, 4), np.abs(numbers(2, 2)), numbers(2, 8, 2, 2), np.abs(numbers(2, 2))]
_YOLO = [empty(9, 6), _COUNT, empty(32, 7), np.array([0.2, 0.45], np.float32), *_HEADS]
_PRIORS = np.abs(numbers(2, 30, 4))
_SSD = [
    empty(9, 6),
    _COUNT,
    empty(30, 7),
    np.array([0.3, 0.45, 20], np.float32),
    numbers(30, 4),
    np.abs(numbers(30, 4)) / 4,
    _PRIORS,
]
_CLAMP = np.array([0, 6], np.float32)
# Operands of every operator: core, firmware and interpreter compute the same of them.
OPERANDS: dict[Operator, list[Array]] = {
    Operator.COPY: [empty(6, 5), numbers(3, 2, 5)],
    Operator.DETECTION_OUTPUT: _SSD,
    Operator.YOLO_DETECTION_OUTPUT: _YOLO,
    Operator.YOLOV3_DETECTION_OUTPUT: _YOLO,
    Operator.MATMUL: [empty(5, 7), numbers(5, 9), numbers(9, 7), numbers(7)],
    Operator.EMBED: [empty(3, 4), _INDICES, numbers(6, 4), numbers(4)],
    Operator.ARGMAX: [empty(4, dtype="int32"), numbers(20)],
    Operator.GLU: [empty(2, 5, 3), numbers(2, 5, 3), numbers(2, 5, 3)],
    Operator.CUMULATIVE_SUM: [empty(3, 7, 2), numbers(3, 7, 2)],
    Operator.FLIP: [empty(2, 6, 3), numbers(2, 6, 3)],
    Operator.CONV1X1: [empty(11, 15), numbers(11, 9), numbers(9, 15), numbers(11), _CLAMP],
    Operator.DENSE: [empty(11), numbers(11, 9), numbers(9), numbers(11), _CLAMP],
}


def slots_of(operator: Operator, arrays: Sequence[Array], *, gap: int = GAP) -> list[Slot]:
    """Slots for operands that look like the arrays: read ones are inputs, working memory is internal.

    Args:
        gap: elements left out between rows, at least.
    """
    slots: list[Slot] = []
    at = VA * PAGE
    for type, array in zip(OPERATORS[operator].types(len(arrays)), arrays, strict=True):
        dtype = DType[array.dtype.name.upper()]
        step = DTYPE_BYTES[dtype]
        strides = [step]
        for axis in range(array.ndim - 1, 0, -1):
            strides.insert(0, strides[0] * array.shape[axis] + gap * step * (axis == array.ndim - 1))
            if type.whole and not type.packed:
                strides[0] += -strides[0] % ROW_ALIGNMENT
        kind = SlotKind.INPUT if not type.written else SlotKind.OUTPUT
        kind = SlotKind.INTERNAL if type.scratch else kind
        name = f"{type.name}{len(slots)}"
        slots.append(Slot(name, kind, dtype, array.shape, tuple(strides), at))
        at += -(-slots[-1].span // 64) * 64
    return slots


def trace_of(operator: Operator, slots: list[Slot], *, scattered: bool | None = None) -> Trace:
    """A trace that takes the inputs, computes and gives the outputs; neighbouring pages lie apart if they may."""
    pages = -(-max(slot.address + slot.span for slot in slots) // PAGE) - VA
    first = s.MEMORY_PAGE
    if scattered is None:
        scattered = not any(type.whole for type in OPERATORS[operator].operands)
    maps = [
        action(
            Op.MAP_GPU_MEM,
            flags=MAP_READ | MAP_WRITE,
            pages=1,
            a=VA + i,
            frame=first + (pages - 1 - i if scattered else i),
        )
        for i in range(pages)
    ]
    rows: list[Action] = [*maps, action(Op.SET_GPU_PGTABLE), s.write("hub.MMU_CTL", s.MMU_ON)]
    rows += [action(Op.REPLAY_START)]
    rows += [action(Op.COPY_TO_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind == SlotKind.INPUT]
    rows += [action(Op.OPERATE, slot=0, operator=operator, operands=len(slots))]
    rows += [action(Op.COPY_FROM_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind == SlotKind.OUTPUT]
    return s.trace(
        actions=array_of(rows),
        slots=slots,
        carveout_bytes=(first + pages) * PAGE,
        va_bytes=-(-(VA + pages) // 32) * 32 * PAGE,
    )


def on_core(trace: Trace, inputs: dict[str, Array]) -> dict[str, Array]:
    """What the C core makes of it."""
    device = Device(carveout_bytes=trace.carveout_bytes + (1 << 20))
    device.replayer.load(s.signed(trace), s.KEY)
    buffers = bind(trace, inputs)
    for row in buffers.rows:
        device.replayer.bind(row.index, row.data)
    device.replayer.run()
    return buffers.outputs


def on_host(trace: Trace, inputs: dict[str, Array]) -> dict[str, Array]:
    """What the interpreter makes of it."""
    with interpreter(trace) as run:
        return run.run(inputs)


def both(operator: Operator, arrays: Sequence[Array], *, gap: int = GAP) -> tuple[list[Array], list[Array]]:
    """What core and interpreter write, in the order of the operands; working memory is left out."""
    slots = slots_of(operator, arrays, gap=gap)
    trace = trace_of(operator, slots)
    inputs = {slot.name: array for slot, array in zip(slots, arrays, strict=True) if slot.kind == SlotKind.INPUT}
    one, two = on_core(trace, inputs), on_host(trace, inputs)
    names = [slot.name for slot in slots if slot.kind == SlotKind.OUTPUT]
    return [one[name] for name in names], [two[name] for name in names]


def by_ncnn(layer: str, parameters: str, inputs: Sequence[Array], folder: Path) -> Array | None:
    """What ncnn's layer makes of its inputs on the CPU; None: nothing."""
    blobs = " ".join(f"in{i}" for i in range(len(inputs)))
    lines = [f"Input in{i} 0 1 in{i}" for i in range(len(inputs))]
    lines.append(f"{layer} layer {len(inputs)} 1 {blobs} out {parameters}")
    (folder / "net.param").write_bytes(ncnn_text.param(lines))
    (folder / "net.bin").write_bytes(b"")
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    assert net.load_param(str(folder / "net.param")) == 0
    net.load_model(str(folder / "net.bin"))
    extractor = net.create_extractor()
    kept = [ncnn.Mat(np.ascontiguousarray(array)).clone() for array in inputs]
    for i, mat in enumerate(kept):
        extractor.input(f"in{i}", mat)
    status, out = extractor.extract("out")
    assert status == 0
    return None if out.empty() else np.array(out)
