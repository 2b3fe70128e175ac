# SPDX-License-Identifier: BSD-2-Clause
"""What trained tables answer in texts and maps, as numbers: a GPU has nothing else.

A map from classes to scores (ZipMap) becomes the scores, in the classes' order. A label that is a text becomes its
place among the classes. What changed is said.
"""

from __future__ import annotations

from typing import Any

import onnx

from host_tools.support.messages import LOG
from trace_format.errors import listed

LABELS = {"classlabels_strings": "classlabels_int", "values_strings": "values_int64s"}
STRING, INT64, FLOAT = onnx.TensorProto.STRING, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def numbers_only(model: Any) -> None:
    """Change a network's message so that its outputs are numbers."""
    graph = model.graph
    maps = set()
    for node in graph.node:
        if node.op_type == "ZipMap":
            maps.update(node.output)
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
        elif node.op_type == "Cast":
            for item in node.attribute:
                item.i = INT64 if item.i == STRING else item.i
        _number_labels(node)
    for tensor in graph.initializer:
        if tensor.data_type == STRING:
            count = len(tensor.string_data)
            _said(tensor.name, tensor.string_data)
            tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, INT64, list(tensor.dims), range(count)))
    for item in graph.output:
        if item.name in maps:
            LOG.info("note: output %s has the scores of all classes, in their order, and no map", item.name)
            item.type.CopyFrom(onnx.helper.make_tensor_type_proto(FLOAT, None))
        elif item.type.tensor_type.elem_type == STRING:
            item.type.tensor_type.elem_type = INT64


def _number_labels(node: Any) -> None:
    """Give a classifier or an encoder places of labels in place of texts."""
    for item in node.attribute:
        if item.name in LABELS and len(item.strings):
            count = len(item.strings)
            _said(node.output[0], item.strings)
            name = LABELS[item.name]
            if name == "classlabels_int":  # each operator has a name of its own for it
                name += "64s" if node.op_type.startswith("Tree") else "s"
            item.CopyFrom(onnx.helper.make_attribute(name, list(range(count))))
        elif item.name == "default_string":
            item.CopyFrom(onnx.helper.make_attribute("default_int64", -1))


def _said(name: str, texts: Any) -> None:
    words = (f"{at} is {text.decode(errors='replace')}" for at, text in enumerate(texts))
    LOG.info("note: %s is a number in place of a text: %s", name, listed(words))
