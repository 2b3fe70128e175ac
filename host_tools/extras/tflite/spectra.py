# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite's operators of spectra, as ONNX. A complex number is two numbers in a dimension of its own, the
last, as DFT of ONNX has it.

Source: lite/kernels/rfft2d.cc and complex_support.cc of TensorFlow.
"""

from __future__ import annotations

from functools import partial

from host_tools.extras.tflite.file import COMPLEX, Operator
from host_tools.extras.tflite.graph import Build, tflite
from host_tools.record.onnx_graph import Name
from host_tools.record.preflight import NetworkError

TAKEN = {"CAST", "COMPLEX_ABS", "EXPAND_DIMS", "IMAG", "REAL", "RESHAPE", "RFFT2D", "SQUEEZE"}


def check_complex(b: Build, operator: Operator) -> None:
    """NetworkError: an operator has complex numbers, and no translation that knows of them."""
    numbers = (at for at in (*operator.inputs, *operator.outputs) if at >= 0)
    if operator.kind not in TAKEN and any(b.graph.values[at].dtype == COMPLEX for at in numbers):
        raise NetworkError("of complex numbers, which it is not taken with")


@tflite("RFFT2D")
def _transformed(b: Build, operator: Operator) -> None:
    """Along the last axis, then along the one before, if there is more than a row."""
    rows, columns = (int(size) for size in b.constant(operator, 1))
    shape = b.value(operator, 0).shape
    rank = len(shape)
    numbers = b.g.node("Unsqueeze", b.x(operator), b.g.constant([-1]))
    size = b.number_of(columns, "int64")
    made = b.g.node("DFT", numbers, size, axis=rank - 1, onesided=1)
    if (rows, shape[-2]) != (1, 1):
        made = b.g.node("DFT", made, b.number_of(rows, "int64"), axis=rank - 2, onesided=0)
    b.put(operator, made)


@tflite("COMPLEX_ABS")
def _length(b: Build, operator: Operator) -> None:
    b.put(operator, b.g.node("ReduceL2", b.x(operator), axes=[-1], keepdims=0))


def part(at: int, b: Build, name: Name) -> Name:
    """Real parts (0) or imaginary ones (1)."""
    return b.g.node("Gather", name, b.number_of(at, "int64"), axis=-1)


def _part(at: int, b: Build, operator: Operator) -> None:
    b.put(operator, part(at, b, b.x(operator)))


tflite("REAL")(partial(_part, 0))
tflite("IMAG")(partial(_part, 1))
