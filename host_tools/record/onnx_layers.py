# SPDX-License-Identifier: BSD-2-Clause
"""What ONNX Runtime makes of each node of a network: jobs are named after these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from host_tools.record import onnx_model
from host_tools.record.job_layers import Result, sums
from host_tools.record.onnx_model import Numbers, OnnxModel
from host_tools.support import contained

MOST = 100  # results that are in memory at once

# Name, type, tensors that it takes, the one that it makes, sums.
Row = tuple[str, str, list[str], str, list[float]]


def layer_results(model: OnnxModel, inputs: Mapping[str, Numbers]) -> list[Result]:
    """The results of a network's nodes that are floating-point numbers; of nodes in nodes, nothing.

    Args:
        model: a network with fixed shapes.
        inputs: by name.

    Raises:
        RecordError: ONNX Runtime does not compute them.
    """
    rows = contained.call("ONNX Runtime", lambda: _rows(model, inputs), list[Row])
    return [Result(name, kind, takes, tensor, np.array(values)) for name, kind, takes, tensor, values in rows]


def _rows(model: OnnxModel, inputs: Mapping[str, Numbers]) -> list[Row]:
    network = onnx.load_model_from_string(model.data)
    nodes = [(node, made) for node in network.graph.node for made in node.output if made]
    outputs = list(network.graph.output)
    found = []
    for first in range(0, len(nodes), MOST):
        wanted = nodes[first : first + MOST]
        names = {made for _, made in wanted}
        del network.graph.output[:]
        network.graph.output.extend(item for item in outputs if item.name in names)
        network.graph.output.extend(
            onnx.ValueInfoProto(name=name) for name in names - {item.name for item in outputs}
        )
        part = replace(model, data=network.SerializeToString(), outputs=tuple(sorted(names)))
        values = onnx_model.session(part)(inputs)
        for node, made in wanted:
            value = values[made]
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found.append((node.name or made, node.op_type, list(node.input), made, sums(value).tolist()))
    return found
