# SPDX-License-Identifier: BSD-2-Clause
"""What ONNX Runtime's optimizer and its tools for transformers write: an operator of theirs for several of ONNX's.

Source: ONNX Runtime's docs/ContribOperators.md; of what it leaves open, core/graph/contrib_ops/contrib_defs.cc.
"""

from __future__ import annotations

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


def grouped_attention(graph: Graph, node: Node) -> list[Name]:
    """GroupQueryAttention: checked, and with the number that its seventh input is."""
    total = node.constant(6)
    if total is None:
        raise NetworkError(
            f"{node.kind}: expected a total_sequence_length that follows from the shapes, found one that is "
            "computed: --constant NAME=FILE.npy fixes an input"
        )
    left = [name for name in WITHOUT if node.number(name, 0) not in (0, -1, b"NONE")]
    left += [name for at, name in BEYOND.items() if node.input(at)]
    if left:
        raise NetworkError(f"{node.kind} with {left[0]}, which is not taken")
    given = [node.input(at) for at in (*range(6), *range(7, 11))]
    attributes = {name: plain(value) for name, value in node.attributes.items() if name in GROUPED}
    attributes |= {"total": int(total.reshape(-1)[0]), "domain": "com.microsoft"}
    return graph.nodes_of(node.kind, 3, *given, **attributes)


# Of GroupQueryAttention: attributes that are computed, those that must have no effect, inputs that are not taken.
GROUPED = ("do_rotary", "kv_num_heads", "local_window_size", "num_heads", "rotary_interleaved", "scale", "softcap")
WITHOUT = ("k_quant_type", "kv_cache_bit_width", "qk_output", "smooth_softmax", "v_quant_type")
BEYOND = {11: "head_sink", 12: "k_scale", 13: "v_scale"}


OPERATORS: dict[str, Rewrite] = {
    "FusedConv": activated("Conv", CONV),
    "FusedGemm": activated("Gemm", GEMM),
    "FusedMatMul": product,
    "GroupQueryAttention": grouped_attention,
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": turned,
    "SkipSimplifiedLayerNormalization": skip_root_mean_square,
    "TransposeMatMul": product,
}
ONNX_OPERATORS: dict[str, Rewrite] = {
    "SimplifiedLayerNormalization": root_mean_square
}  # in ONNX's domain, but not of it
