# SPDX-License-Identifier: BSD-2-Clause
"""A compiler of networks that are a single Relu: all that a further one must have (docs/PORTING.md)."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

from host_tools.record.compiled.compilers import program_of
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View

KERNEL = """#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer B0 { float x[]; };
layout(std430, binding = 1) buffer B1 { float y[]; };
void main() { uint at = gl_WorkGroupID.x; y[at] = max(x[at], 0.0); }
"""


def compiled(path: Path) -> Plan:
    graph = onnx.load(path).graph
    (layer,) = graph.node
    if layer.op_type != "Relu":
        raise NotImplementedError(f"{layer.op_type} is none of mine")
    shape = tuple(item.dim_value for item in graph.input[0].type.tensor_type.shape.dim)
    size = 4
    for part in shape:
        size *= part
    x = Buffer(Kind.INPUT, size, b"", graph.input[0].name, "float32", shape)
    y = Buffer(Kind.OUTPUT, size, b"", graph.output[0].name, "float32", shape)
    return Plan([x, y], [KERNEL], [Call(0, (size // 4, 1, 1), (View(0, 0, size), View(1, 0, size)), (1,), "relu")])


if __name__ == "__main__":
    sys.exit(program_of(compiled))
