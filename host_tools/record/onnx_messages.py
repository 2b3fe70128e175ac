# SPDX-License-Identifier: BSD-2-Clause
"""What an ONNX file's messages have inside, subgraphs included, and other operators in place of a graph's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import onnx


def tensors_of(message: Any) -> Iterator[Any]:
    """All tensors in a message of ONNX's, those of attributes and subgraphs among them."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if isinstance(value, Sequence) else [value]:
                if isinstance(item, onnx.TensorProto):
                    yield item
                else:
                    yield from tensors_of(item)


def nodes_of(message: Any) -> Iterator[Any]:
    """All operators in a message of ONNX's, those of subgraphs and functions among them."""
    for field, value in message.ListFields():
        if field.message_type is not None and not isinstance(value, onnx.TensorProto):
            for item in value if isinstance(value, Sequence) else [value]:
                if isinstance(item, onnx.NodeProto):
                    yield item
                yield from nodes_of(item)


def put_nodes(graph: Any, nodes: Iterable[Any]) -> None:
    """Let a graph have these operators, its own among them, which lose their memory with the graph's list."""
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
