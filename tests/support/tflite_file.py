# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite files that tests make, by the schema's own classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import Builder
from numpy.typing import NDArray

Array = NDArray[Any]
TYPES = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "int8": "INT8",
    "uint8": "UINT8",
    "int32": "INT32",
    "bool": "BOOL",
    "complex64": "COMPLEX64",
}


class File:
    """A file with one subgraph; its numbers are those of tensors."""

    def __init__(self) -> None:
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version = 3
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.model.subgraphs = [self.graph]
        self.graph.tensors, self.graph.operators = [], []

    def tensor(
        self, shape: Sequence[int], dtype: str = "float32", steps: tuple[Any, Any] | None = None, axis: int = 0
    ) -> int:
        """A tensor; `steps` are scales and zero points."""
        made = schema.TensorT()
        made.shape, made.type, made.buffer = list(shape), getattr(schema.TensorType, TYPES[dtype]), 0
        made.name = f"t{len(self.graph.tensors)}".encode()
        if steps is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = [float(at) for at in np.atleast_1d(steps[0])]
            made.quantization.zeroPoint = [int(at) for at in np.atleast_1d(steps[1])]
            made.quantization.quantizedDimension = axis
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def constant(self, value: Array, steps: tuple[Any, Any] | None = None, axis: int = 0) -> int:
        """A tensor that the file has."""
        number = self.tensor(value.shape, value.dtype.name, steps, axis)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        self.graph.tensors[number].buffer = len(self.model.buffers) - 1
        return number

    def add(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **how: Any) -> None:
        """An operator; `options` is what the schema calls the table of its options."""
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        self.model.operatorCodes.append(code)
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in how.items():
                setattr(operator.builtinOptions, name, value)
        self.graph.operators.append(operator)

    def data(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        builder = Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def write(self, path: Path, inputs: Sequence[int], outputs: Sequence[int]) -> Path:
        """The file, on disk."""
        path.write_bytes(self.data(inputs, outputs))
        return path
