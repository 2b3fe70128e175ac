# SPDX-License-Identifier: BSD-2-Clause
"""Weights of a few bits, with a scale and a zero point a block, as numbers: they are unfolded when a network is
recorded, so that a trace has them as float32.

Source: ONNX Runtime's docs/ContribOperators.md; ONNX's docs/Operators.md, DequantizeLinear of version 21.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import Node, Rewrite

FEW = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)
Floats = NDArray[np.float32]


def product(graph: Graph, node: Node) -> list[Name]:
    """MatMulNBits: a product with weights of 2, 4 or 8 bits, a scale and a zero point a block."""
    bits, block = int(node.number("bits", 4)), int(node.number("block_size", 32))
    columns, rows = int(node.number("N", 0)), int(node.number("K", 0))
    packed, scales, zeros = node.constant(1), node.constant(2), node.constant(3)
    if packed is None or scales is None or (node.input(3) and zeros is None):
        raise NetworkError(f"{node.kind}: its weights, scales and zero points must be constants")
    if node.input(4) or bits not in (2, 4, 8):
        raise NetworkError(f"{node.kind} of {bits} bits{', with g_idx' * bool(node.input(4))}, which is not taken")
    blocks = -(-rows // block)
    steps = _unpacked(packed.reshape(columns, -1), bits)[:, : blocks * block].reshape(columns, blocks, block)
    if zeros is None:
        zero = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        zero = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks]
    else:
        zero = zeros.reshape(columns, blocks).astype(np.float32)
    weights = (steps - zero[..., None]) * scales.reshape(columns, blocks, 1).astype(np.float32)
    made = graph.node("MatMul", node.inputs[0], graph.constant(weights.reshape(columns, -1)[:, :rows].T))
    return [graph.node("Add", made, node.input(5)) if node.input(5) else made]


def gather(graph: Graph, node: Node) -> list[Name]:
    """GatherBlockQuantized: rows of a table of 4 or 8 bits, such as a vocabulary's."""
    table, scales, zeros = node.constant(0), node.constant(2), node.constant(3)
    if table is None or scales is None or (node.input(3) and zeros is None):
        raise NetworkError(f"{node.kind}: its table, scales and zero points must be constants")
    bits, block = int(node.number("bits", 4)), int(node.number("block_size", 128))
    zero = 0
    if table.dtype == np.uint8:
        if bits not in (4, 8):
            raise NetworkError(f"{node.kind} of {bits} bits, which is not taken: expected 4 or 8")
        zero, shape = 1 << (bits - 1), table.shape
        table = _unpacked(table, bits).reshape(*shape[:-1], -1)
        if zeros is not None:
            zeros = _unpacked(zeros, bits).reshape(*zeros.shape[:-1], -1)[..., : scales.shape[-1]]
    axis = int(node.number("quantize_axis", 1)) % table.ndim
    rows = graph.constant(_scaled(table, scales, zeros, axis, block, zero).astype(scales.dtype))
    return [graph.node("Gather", rows, node.inputs[1], axis=int(node.number("gather_axis", 0)))]


def dequantized(graph: Graph, node: Node) -> list[Name] | None:
    """DequantizeLinear of constants of 4 bits; None: of others, which a compiler has."""
    tensor = node.constants.get(node.inputs[0])
    if tensor is None or tensor.data_type not in FEW:
        return None
    values, scales, zeros = node.constant(0), node.constant(1), node.constant(2)
    if values is None or scales is None or (node.input(2) and zeros is None):
        raise NetworkError(f"{node.kind} of 4 bits: its scales and zero points must be constants")
    axis, block = int(node.number("axis", 1)), int(node.number("block_size", 0))
    if scales.size > 1 and not block:  # one along an axis
        shape = [1] * values.ndim
        shape[axis] = -1
        scales, zeros = scales.reshape(shape), None if zeros is None else zeros.reshape(shape)
    return [graph.constant(_scaled(values, scales, zeros, axis, block, 0).astype(scales.dtype))]


def _scaled(
    values: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any] | None, axis: int, block: int, zero: int
) -> Floats:
    """Numbers that whole numbers stand for.

    Args:
        values: of any shape.
        scales, zeros: of blocks along an axis; with `block` 0 of a shape that is broadcast.
        axis, block: where the blocks lie, and their size.
        zero: in place of zero points that are left out.
    """

    def each(blocks: NDArray[Any]) -> Floats:
        floats = np.asarray(blocks).astype(np.float32)
        return np.repeat(floats, block, axis).take(range(values.shape[axis]), axis) if block else floats

    lowered = values.astype(np.float32) - (zero if zeros is None else each(zeros))
    return np.asarray(lowered * each(scales), np.float32)


def _unpacked(values: NDArray[np.uint8], bits: int) -> Floats:
    """Whole numbers of a few bits, the lowest of a byte first: a row a row."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found = values[..., None] >> shifts & ((1 << bits) - 1)
    return found.reshape(len(values), -1).astype(np.float32)


OPERATORS: dict[str, Rewrite] = {"GatherBlockQuantized": gather, "MatMulNBits": product}
ONNX_OPERATORS: dict[str, Rewrite] = {"DequantizeLinear": dequantized}
