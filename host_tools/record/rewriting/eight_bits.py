# SPDX-License-Identifier: BSD-2-Clause
"""What ONNX Runtime's quantizer writes of operators of its own (com.microsoft), as what each is said to compute:
numbers that are dequantised, computed with, and quantised again. Products are of whole numbers, and exact.

Source: ONNX Runtime's docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.rewriting.node import FLOAT, Node, Rewrite, plain

INSIDE = "DynamicQuantizeLSTM"  # rounds within, where nothing can be cut: its results are cut
ROUNDING = ("DynamicQuantizeLinear", INSIDE, "QLinearConv", "QLinearMatMul", "QuantizeLinear")  # of activations
POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _number(graph: Graph, node: Node, at: int) -> Name:
    """Three inputs as numbers: what is quantised, its scale, its zero point."""
    return graph.node("DequantizeLinear", node.input(at), node.input(at + 1), node.input(at + 2))


def _rounded(graph: Graph, node: Node, name: Name, at: int) -> list[Name]:
    """Numbers quantised by two inputs: a scale and a zero point."""
    return [graph.node("QuantizeLinear", name, node.input(at), node.input(at + 1))]


def of_two(kind: str) -> Rewrite:
    """QLinearAdd, QLinearMul: an operator of ONNX's on two quantised tensors."""

    def rewrite(graph: Graph, node: Node) -> list[Name]:
        made = graph.node(kind, _number(graph, node, 0), _number(graph, node, 3))
        return _rounded(graph, node, made, 6)

    return rewrite


def of_one(kind: str, *names: str) -> Rewrite:
    """QLinearSigmoid and others: an operator of ONNX's on one quantised tensor, with these of its attributes."""

    def rewrite(graph: Graph, node: Node) -> list[Name]:
        def computed(x: Name) -> Name:
            attributes = {name: plain(node.attributes[name]) for name in names if name in node.attributes}
            return graph.node(kind, x, **attributes)

        return _rounded(graph, node, _channels_first(graph, node, _number(graph, node, 0), computed), 3)

    return rewrite


def _channels_first(graph: Graph, node: Node, x: Name, computed: Callable[[Name], Name]) -> Name:
    """A picture's operator, which may have channels last."""
    if not node.number("channels_last", 0):
        return computed(x)
    return graph.node("Transpose", computed(graph.node("Transpose", x, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1])


def concat(graph: Graph, node: Node) -> list[Name]:
    """QLinearConcat: its result's scale and zero point come first."""
    parts = [_number(graph, node, at) for at in range(2, len(node.inputs), 3)]
    return _rounded(graph, node, graph.node("Concat", *parts, axis=int(node.number("axis", 0))), 0)


def gemm(graph: Graph, node: Node) -> list[Name]:
    """QGemm: a product of whole numbers, a bias of whole numbers, and a result that may be left as numbers."""
    sides = []
    for at, name in ((0, "transA"), (3, "transB")):
        side = node.inputs[at]
        sides.append(graph.node("Transpose", side, perm=[1, 0]) if node.number(name, 0) else side)
    made = graph.node("MatMulInteger", *sides, node.input(2), node.input(5))
    if node.input(6):
        made = graph.node("Add", made, node.input(6))
    scale = graph.node("Mul", node.input(1), node.input(4))
    made = graph.node("Mul", graph.node("Cast", made, to=FLOAT), scale)
    if (alpha := float(node.number("alpha", 1.0))) != 1:
        made = graph.node("Mul", made, graph.of(alpha, "float32"))
    return _rounded(graph, node, made, 7) if node.input(7) else [made]


def integer_to_float(graph: Graph, node: Node) -> list[Name]:
    """MatMulIntegerToFloat: a product of whole numbers, as numbers."""
    whole = graph.node("MatMulInteger", node.inputs[0], node.inputs[1], node.input(4), node.input(5))
    scale = graph.node("Mul", node.input(2), node.input(3))
    return [_biased(graph, node, graph.node("Mul", graph.node("Cast", whole, to=FLOAT), scale), 6)]


def dynamic_product(graph: Graph, node: Node) -> list[Name]:
    """DynamicQuantizeMatMul: the first side is rounded by its own range."""
    rounded, scale, zero = graph.nodes_of("DynamicQuantizeLinear", 3, node.inputs[0])
    whole = graph.node("MatMulInteger", rounded, node.inputs[1], zero, node.input(3))
    both = graph.node("Mul", scale, node.input(2))
    return [_biased(graph, node, graph.node("Mul", graph.node("Cast", whole, to=FLOAT), both), 4)]


def _biased(graph: Graph, node: Node, name: Name, at: int) -> Name:
    return graph.node("Add", name, node.input(at)) if node.input(at) else name


def attention(graph: Graph, node: Node) -> list[Name]:
    """QAttention: Attention of what is dequantised, its weights too."""
    x = graph.node("DequantizeLinear", node.input(0), node.input(3), node.input(6))
    weights = graph.node("DequantizeLinear", node.input(1), node.input(4), node.input(7), axis=1)
    names = ("mask_filter_value", "num_heads", "scale", "unidirectional")
    attributes = {name: plain(node.attributes[name]) for name in names if name in node.attributes}
    parts = (node.input(2), node.input(5), node.input(8))
    return graph.nodes_of("Attention", 2, x, weights, *parts, domain="com.microsoft", **attributes)


def same(kind: str) -> Rewrite:
    """An operator that ONNX has, too, with the same inputs."""

    def rewrite(graph: Graph, node: Node) -> list[Name]:
        attributes = {name: plain(value) for name, value in node.attributes.items()}
        return [graph.node(kind, *(name or None for name in node.inputs), **attributes)]

    return rewrite


OPERATORS: dict[str, Rewrite] = {
    "DequantizeLinear": same("DequantizeLinear"),
    "DynamicQuantizeMatMul": dynamic_product,
    "MatMulIntegerToFloat": integer_to_float,
    "QAttention": attention,
    "QGemm": gemm,
    "QLinearAdd": of_two("Add"),
    "QLinearAveragePool": of_one("AveragePool", *POOL),
    "QLinearConcat": concat,
    "QLinearGlobalAveragePool": of_one("GlobalAveragePool"),
    "QLinearLeakyRelu": of_one("LeakyRelu", "alpha"),
    "QLinearMul": of_two("Mul"),
    "QLinearSigmoid": of_one("Sigmoid"),
    "QLinearSoftmax": of_one("Softmax", "axis"),
    "QuantizeLinear": same("QuantizeLinear"),
}
