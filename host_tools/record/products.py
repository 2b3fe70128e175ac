# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs of a recording are products of matrices, found by what they access.

A layer's weights are constants, which no compiler computes with if they are its: so a job that reads them, as they
are or in one of a few layouts, is the layer's. Its bias is found in the same way, its input among the rest of what
it reads, and its result is what it writes, if the product of the former is that. Nothing here depends on the
compiler; what is not found is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.accesses.by_job import ByJob
from host_tools.accesses.proof import AccessMap
from host_tools.families.page_tables import DivergenceError
from host_tools.model.memory import Conflict, Memory
from host_tools.model.products import LAYOUTS, NOTE, Product, laid_out, note_of
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN, VgpuError
from trace_format.actions import Action, Op
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Array = NDArray[Any]
NEAR = 1e-4  # of a product to what the job wrote, relative to the largest value
CLAMPS = ((None, None), (0.0, None), (0.0, 6.0))  # none, ReLU, ReLU6
SMALLEST = 64  # elements of weights that are told from others


@dataclass(frozen=True, eq=False)
class Layer:
    """A network's product: a row of weights for each output, and the bias, if there is one."""

    weights: Array
    bias: Array | None


def note_products(trace: Trace, model: bytes, inputs: Mapping[str, Array]) -> None:
    """Put the claims into a recording's notes, if there are any.

    Args:
        trace: with its slots.
        model: the network as the compiler had it.
        inputs: values of the input slots.
    """
    layers = list(layers_of(onnx.load_model_from_string(model)))
    if not layers:
        return
    with phase("finding products among the jobs"):
        try:
            run = _Finder(trace, layers)
            run.replay({name: tensor.reshape(trace.slot(name).shape) for name, tensor in inputs.items()})
        except (Conflict, DivergenceError, VgpuError) as error:
            LOG.info("products are not looked for: %s", error)
            return
    if run.found:
        trace.notes[NOTE] = note_of(run.announced, run.found)


def layers_of(model: onnx.ModelProto) -> Iterator[Layer]:
    """Pointwise convolutions and fully connected layers whose weights are constants."""
    constants = {item.name: item for item in model.graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }

    def value(name: str) -> Array | None:
        return np.asarray(onnx.numpy_helper.to_array(constants[name])) if name in constants else None

    for node in model.graph.node:
        settings = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        weights = value(node.input[1]) if len(node.input) > 1 else None
        bias = value(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if weights is None or weights.dtype != np.float32 or weights.size < SMALLEST:
            continue
        if node.op_type == "Conv" and _is_pointwise(weights, settings):
            yield Layer(weights.reshape(weights.shape[:2]), bias)
        elif node.op_type == "Gemm" and settings.get("alpha", 1) == settings.get("beta", 1) == 1:
            yield Layer(
                weights if settings.get("transB") else weights.T, None if bias is None else bias.reshape(-1)
            )
        elif node.op_type == "MatMul" and weights.ndim == 2:
            yield Layer(weights.T, None)


def _is_pointwise(weights: Array, settings: Mapping[str, Any]) -> bool:
    return (
        all(size == 1 for size in weights.shape[2:])
        and settings.get("group", 1) == 1
        and all(step == 1 for step in settings.get("strides", ()))
        and not any(settings.get("pads", ()))
    )


@dataclass(frozen=True)
class _Run:
    """Pages of a job that follow one another: their GPU address, what they hold, and what the job did to them."""

    address: int
    data: bytes
    flags: NDArray[np.uint8]

    def ranges(self, flag: int) -> Iterator[tuple[int, int]]:
        """Where it did so: first byte and how many."""
        edges = np.flatnonzero(np.diff((self.flags & flag) != 0, prepend=False, append=False)).tolist()
        yield from ((first, end - first) for first, end in zip(edges[::2], edges[1::2], strict=True))

    def without(self, first: int, size: int) -> _Run:
        """As if the job had not accessed some bytes."""
        flags = self.flags.copy()
        flags[first : first + size] = 0
        return _Run(self.address, self.data, flags)

    def floats(self, first: int, count: int) -> Array:
        """Elements from a byte on."""
        return np.frombuffer(self.data, np.float32, count, first)


class _Finder(ByJob):
    """Looks at each job of a replay."""

    def __init__(self, trace: Trace, layers: Sequence[Layer]) -> None:
        super().__init__(trace)
        mappings = Memory.of(trace).mappings
        self._keys = dict(zip(mappings.frames.tolist(), mappings.keys.tolist(), strict=True))
        self._layers = list(layers)
        self.announced = 0  # JOB actions so far
        self._number = -1  # of the latest job's JOB action
        self.found: list[Product] = []

    def _step(self, row: Action) -> None:
        self.announced += row.op == Op.JOB
        super()._step(row)
        if self._starts.of(row):
            self._number = self.announced - 1

    def take(self, seen: AccessMap) -> None:
        """What the latest job did."""
        if self._number < 0 or not self._layers:
            return
        runs = self._runs(seen)
        for layer in self._layers:
            if claim := _claimed(self._number, layer, runs):
                self.found.append(claim)
                self._layers.remove(layer)
                return

    def _runs(self, seen: AccessMap) -> list[_Run]:
        pages = sorted((self._keys[frame], frame) for frame in seen if frame in self._keys)
        found: list[_Run] = []
        at = 0
        while at < len(pages):
            end = at + 1
            while end < len(pages) and pages[end][0] == pages[end - 1][0] + 1:
                end += 1
            frames = [frame for _, frame in pages[at:end]]
            data = b"".join(self.memory[frame * PAGE_BYTES :][:PAGE_BYTES].tobytes() for frame in frames)
            found.append(_Run(pages[at][0] * PAGE_BYTES, data, np.concatenate([seen[frame] for frame in frames])))
            at = end
        return found


def _claimed(job: int, layer: Layer, runs: list[_Run]) -> Product | None:
    """The claim that a job is a layer, if it is."""
    rows, inner = layer.weights.shape
    for layout in LAYOUTS:
        packed = laid_out(layer.weights, layout).tobytes()
        rest, weights = _taken(runs, packed)
        if weights is None:
            continue
        bias = None
        if layer.bias is not None:
            rest, bias = _taken(rest, layer.bias.astype(np.float32).tobytes())
            if bias is None:
                return None
        for out, result in _written(rest, rows):
            columns = result.shape[1]
            for given, data in _read(rest, inner, columns):
                sums = layer.weights.astype(np.float64) @ data + (0 if layer.bias is None else layer.bias[:, None])
                for low, high in CLAMPS:
                    expected = np.clip(sums, -np.inf if low is None else low, np.inf if high is None else high)
                    if np.abs(expected - result).max() <= NEAR * np.abs(expected).max():
                        sizes = (job, rows, inner, columns)
                        return Product(*sizes, out, given, weights, layout, bias, low, high)
    return None


def _taken(runs: Sequence[_Run], data: bytes) -> tuple[list[_Run], int | None]:
    """Where data lies that a job reads, and the rest of what it accesses; None: it does not read it."""
    for number, run in enumerate(runs):
        at = run.data.find(data)
        while at >= 0:
            if at % 4 == 0 and (run.flags[at : at + len(data)] & (ACCESS_READ | ACCESS_READ_FIRST)).all():
                return [*runs[:number], run.without(at, len(data)), *runs[number + 1 :]], run.address + at
            at = run.data.find(data, at + 1)
    return list(runs), None


def _written(runs: Sequence[_Run], rows: int) -> Iterator[tuple[int, Array]]:
    """Where so many rows lie that a job writes, if they are all that it writes there."""
    for run in runs:
        for first, size in run.ranges(ACCESS_WRITTEN):
            if size % (4 * rows) == 0:
                yield run.address + first, run.floats(first, size // 4).reshape(rows, -1)


def _read(runs: Sequence[_Run], inner: int, columns: int) -> Iterator[tuple[int, Array]]:
    """Where so many rows may lie that a job reads."""
    for run in runs:
        for first, size in run.ranges(ACCESS_READ | ACCESS_READ_FIRST):
            if size >= 4 * inner * columns:
                yield run.address + first, run.floats(first, inner * columns).reshape(inner, columns)
