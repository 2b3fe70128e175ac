# SPDX-License-Identifier: BSD-2-Clause
"""What ONNX Runtime's optimizer and its tools for transformers write: an operator of theirs for several of ONNX's.

Source: ONNX Runtime's docs/ContribOperators.md; of what it leaves open, core/graph/contrib_ops/contrib_defs.cc.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import FLOAT, Node, Rewrite, plain

ALPHA = 1.702  # of QuickGelu
EPSILON = 1e-5  # of normalisations
CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
GEMM = ("alpha", "beta", "transA", "transB")
# Names of numbers that an activation has.
ACTIVATIONS = {"HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Relu": (), "Sigmoid": (), "Tanh": ()}


def product(graph: Graph, node: Node) -> list[Name]:
    """FusedMatMul, TransposeMatMul: a product of sides that may be transposed, times a number."""
    if node.number("transBatchA", 0) or node.number("transBatchB", 0):
        raise NetworkError(f"{node.kind} with transposed batches, which is not taken: export without optimisation")
    sides = [swapped if node.number(name, 0) else usual for name, usual, swapped in SIDES]
    made = graph.node("Einsum", *node.inputs[:2], equation=f"{','.join(sides)}->...ik")
    alpha = float(node.number("alpha", 1.0))
    return [made if alpha == 1 else graph.node("Mul", made, graph.of(alpha, "float32"))]


SIDES = (("transA", "...ij", "...ji"), ("transB", "...jk", "...kj"))


def activated(kind: str, names: tuple[str, ...]) -> Rewrite:
    """FusedConv, FusedGemm: an operator of ONNX's with these of its attributes, then an activation."""

    def rewrite(graph: Graph, node: Node) -> list[Name]:
        attributes = {name: plain(node.attributes[name]) for name in names if name in node.attributes}
        made = graph.node(kind, *(name or None for name in node.inputs[:3]), **attributes)
        if node.input(3):  # FusedConv's fourth input is added
            made = graph.node("Add", made, node.input(3))
        then = node.text("activation", "Relu")
        if then == "Clip":
            return [graph.node("Clip", made, *(graph.of(float(value), "float32") for value in _numbers(node, 2)))]
        if then not in ACTIVATIONS:
            raise NetworkError(
                f"{node.kind} with the activation {then}, which is none of {', '.join(ACTIVATIONS)}"
            )
        given = zip(ACTIVATIONS[then], _numbers(node, len(ACTIVATIONS[then])), strict=False)
        return [graph.node(then, made, **dict(given))]

    return rewrite


def _numbers(node: Node, count: int) -> list[float]:
    """An activation's numbers: of FusedConv a list, of FusedGemm attributes."""
    of_gemm = [node.attributes[key] for key in ("activation_alpha", "activation_beta") if key in node.attributes]
    return [float(value) for value in (*node.floats("activation_params"), *of_gemm)][:count]


def quick_gelu(graph: Graph, node: Node) -> list[Name]:
    """QuickGelu: x times the sigmoid of alpha x."""
    x = node.inputs[0]
    inner = graph.node("Mul", x, graph.of(float(node.number("alpha", ALPHA)), "float32"))
    return [graph.node("Mul", x, graph.node("Sigmoid", inner))]


def turned(graph: Graph, node: Node) -> list[Name]:
    """RotaryEmbedding: ONNX's, which has positions last."""
    if node.number("scale", 1.0) != 1 or node.number("is_packed_batching", 0):
        raise NetworkError(f"{node.kind} with a scale or packed batches, which is not taken")
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    x, positions, *tables = node.inputs
    return [graph.node("RotaryEmbedding", x, *tables, positions, **attributes)]


def root_mean_square(graph: Graph, node: Node) -> list[Name]:
    """SimplifiedLayerNormalization: x over the root of its mean square, of the last dimension, times a scale."""
    if int(node.number("axis", -1)) != -1:
        raise NetworkError(f"{node.kind} over axis {node.number('axis', -1)}: expected -1")
    return [_normalised(graph, node, node.inputs[0], node.inputs[1])]


def skip_root_mean_square(graph: Graph, node: Node) -> list[Name]:
    """SkipSimplifiedLayerNormalization: of a sum, which is its fourth result."""
    added = graph.node("Add", node.inputs[0], node.inputs[1])
    if node.input(3):
        added = graph.node("Add", added, node.input(3))
    made = _normalised(graph, node, added, node.inputs[2])
    return [made, "", "", added]  # ONNX Runtime's CPU code does not make the second and the third


def _normalised(graph: Graph, node: Node, x: Name, scale: Name) -> Name:
    total = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant([-1]), keepdims=1)
    mean = graph.node("Div", total, graph.node("Cast", graph.node("Size", scale), to=FLOAT))
    root = graph.node("Sqrt", graph.node("Add", mean, graph.of(float(node.number("epsilon", EPSILON)), "float32")))
    return graph.node("Mul", graph.node("Div", x, root), scale)


def few_bits(graph: Graph, node: Node) -> list[Name]:
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


def _unpacked(values: NDArray[np.uint8], bits: int) -> NDArray[np.float32]:
    """Whole numbers of a few bits, the lowest of a byte first: a row a row."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found = values[..., None] >> shifts & ((1 << bits) - 1)
    return found.reshape(len(values), -1).astype(np.float32)


OPERATORS: dict[str, Rewrite] = {
    "FusedConv": activated("Conv", CONV),
    "FusedGemm": activated("Gemm", GEMM),
    "FusedMatMul": product,
    "MatMulNBits": few_bits,
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": turned,
    "SkipSimplifiedLayerNormalization": skip_root_mean_square,
    "TransposeMatMul": product,
}
ONNX_OPERATORS: dict[str, Rewrite] = {
    "SimplifiedLayerNormalization": root_mean_square
}  # in ONNX's domain, but not of it
