# SPDX-License-Identifier: BSD-2-Clause
"""A node that is rewritten: what it reads, and its attributes as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


@dataclass(frozen=True)
class Node:
    """A node.

    Attributes:
        kind: its operator.
        inputs: names; empty: left out. As many as the operator may have, and more.
        attributes: lists are arrays, of float32, int64 or bytes; tensors are arrays.
        constants: the network's initializers by name, and what Constant nodes make.
    """

    kind: str
    inputs: Sequence[Name]
    attributes: Mapping[str, Any]
    constants: Mapping[Name, Any]

    def input(self, at: int) -> Name | None:
        """The name of an input, None where it is left out."""
        return (self.inputs[at] if at < len(self.inputs) else "") or None

    def floats(self, name: str, default: Sequence[float] = ()) -> NDArray[np.float32]:
        """A list of numbers, or the tensor that later versions of an operator have in its place."""
        for key in (name, f"{name}_as_tensor"):
            if key in self.attributes:
                return np.asarray(self.attributes[key], np.float32).reshape(-1)
        return np.array(default, np.float32)

    def integers(self, name: str, default: Sequence[int] = ()) -> NDArray[np.int64]:
        """A list of whole numbers."""
        return np.asarray(self.attributes.get(name, default), np.int64).reshape(-1)

    def text(self, name: str, default: str) -> str:
        """A word."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def number(self, name: str, default: float) -> Any:
        """A number."""
        return self.attributes.get(name, default)

    def constant(self, at: int) -> NDArray[Any] | None:
        """The value of an input that is a constant; None: it is computed, or left out."""
        tensor = self.constants.get(self.input(at) or "")
        return None if tensor is None else np.asarray(onnx.numpy_helper.to_array(tensor))


# Names of the outputs, in their order ("": it is not made); None: the node stays as it is.
Rewrite = Callable[[Graph, Node], Sequence[Name] | None]


def read(node: Any, constants: Mapping[Name, Any]) -> Node:
    """A node of ONNX's message.

    Args:
        node: a NodeProto.
        constants: as `Node`.
    """
    return Node(node.op_type, list(node.input), {item.name: _value(item) for item in node.attribute}, constants)


def _value(item: Any) -> Any:
    kinds = onnx.AttributeProto
    if item.type == kinds.FLOATS:
        return np.array(item.floats, np.float32)
    if item.type == kinds.INTS:
        return np.array(item.ints, np.int64)
    if item.type == kinds.STRINGS:
        return np.array(list(item.strings), object)
    if item.type == kinds.TENSOR:
        return onnx.numpy_helper.to_array(item.t)
    return onnx.helper.get_attribute_value(item)


def plain(value: Any) -> Any:
    """An attribute's value as a new node takes it."""
    return value.tolist() if hasattr(value, "tolist") else value


def as_float(graph: Graph, name: Name) -> Name:
    """A tensor of numbers as float32."""
    return graph.node("Cast", name, to=FLOAT)
