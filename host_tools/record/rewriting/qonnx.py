# SPDX-License-Identifier: BSD-2-Clause
"""QONNX's Quant, which neither ONNX nor ONNX Runtime has, as ONNX's own operators.

Source: the operator's text in QONNX's documentation, docs/qonnx-custom-ops/quant_op.md; Brevitas and FINN write it
in domains of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.onnx_messages import put_nodes
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import Node, read

DOMAINS = ("finn.custom_op.general", "onnx.brevitas", "qonnx.custom_op.general")
KIND, MOST_BITS, OPSET = "Quant", 8, 11
ROUNDED = {"ROUND": np.rint, "CEIL": np.ceil, "FLOOR": np.floor, "ROUND_TO_ZERO": np.trunc}


def without_quant(network: Any) -> None:
    """Rewrite each Quant in ONNX's message of a network: of constants, to what it makes of them; of what is
    computed, to a rounding to 8 bits and back.

    Raises:
        NetworkError: a Quant is of a variant that is not taken.
    """
    graph = network.graph
    if not any(node.op_type == KIND and node.domain in DOMAINS for node in graph.node):
        return
    if next((item.version for item in network.opset_import if item.domain in ("", "ai.onnx")), 0) < OPSET:
        raise NetworkError(f"{KIND} of QONNX beside operators older than those of set {OPSET}")
    constants = {item.name: item for item in graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    made, nodes = Graph("qonnx/"), []
    for node in graph.node:
        if node.op_type != KIND or node.domain not in DOMAINS:
            nodes.append(node)
            continue
        result = _rewritten(made, read(node, constants), node.name or node.output[0])
        nodes += [*made.nodes, onnx.helper.make_node("Identity", [result], [node.output[0]])]
        made.nodes.clear()
    put_nodes(graph, nodes)
    graph.initializer.extend(made.constants)


def _rewritten(graph: Graph, node: Node, name: str) -> Name:
    scale, zero, bits = (node.constant(at) for at in (1, 2, 3))
    if scale is None or zero is None or bits is None or bits.size != 1:
        raise NetworkError(f"node {name} ({KIND}): a scale, a zero point or a width that is computed")
    least, most = _range(float(bits.reshape(())), bool(node.number("signed", 1)), bool(node.number("narrow", 0)))
    rounding = node.text("rounding_mode", "ROUND")
    content = node.constant(0)
    if content is not None:
        if rounding not in ROUNDED:
            raise NetworkError(f"node {name} ({KIND}): the rounding {rounding}, which is not taken")
        steps = ROUNDED[rounding](np.clip(content / scale + zero, least, most))
        return graph.constant(np.asarray((steps - zero) * scale, np.float32))
    is_plain = scale.size == zero.size == 1 and rounding == "ROUND" and bits.reshape(()) <= MOST_BITS
    middle = float(zero.reshape(-1)[0])
    if not is_plain or middle != np.rint(middle) or not least <= middle <= most:
        raise NetworkError(
            f"node {name} ({KIND}): activations of more than {MOST_BITS} bits, of several scales, or rounded "
            "otherwise than to the nearest"
        )
    return _of_activations(graph, node, (least, most), scale.reshape(()), middle)


def _of_activations(
    graph: Graph, node: Node, ends: tuple[float, float], scale: NDArray[Any], middle: float
) -> Name:
    kind = np.int8 if ends[0] < 0 else np.uint8
    bounds = (graph.constant(np.asarray((end - middle) * scale, np.float32)) for end in ends)
    x = graph.node("Clip", node.inputs[0], *bounds)
    steps = graph.constant(scale.astype(np.float32)), graph.constant(np.array(middle, kind))
    return graph.node("DequantizeLinear", graph.node("QuantizeLinear", x, *steps), *steps)


def _range(bits: float, is_signed: bool, is_narrow: bool) -> tuple[float, float]:
    """The least and the largest whole number of a width."""
    if is_signed:
        return -(2.0 ** (bits - 1)) + is_narrow, 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1 - is_narrow
