# SPDX-License-Identifier: BSD-2-Clause
"""Tensors in .npy files, without NumPy: versions 1.0 to 3.0 of the format, as numpy.lib.format describes it."""

from __future__ import annotations

import array
import ast
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from trace_format.errors import TraceError
from trace_format.files import read_file

MAGIC = b"\x93NUMPY"
# (major version) -> bytes of the header's length, encoding of the header
VERSIONS = {1: (2, "latin1"), 2: (4, "latin1"), 3: (4, "utf-8")}
MAX_HEADER_BYTES = 10_000  # NumPy's own limit: the header is text for Python's parser
ALIGNMENT = 64  # of the data in the file
# DType of the trace format -> (name, NumPy's description of the element type)
ELEMENTS = {
    1: ("float32", "<f4"),
    2: ("float16", "<f2"),
    3: ("int32", "<i4"),
    4: ("uint32", "<u4"),
    5: ("int16", "<i2"),
    6: ("uint16", "<u2"),
    7: ("int8", "|i1"),
    8: ("uint8", "|u1"),
}


class NpyError(TraceError):
    """A file that is not a .npy file, or not one that a slot takes."""


@dataclass(frozen=True)
class Tensor:
    """Dense data in C order.

    Attributes:
        descr: NumPy's description of the element type.
        shape: outermost dimension first.
        data: the elements.
    """

    descr: str
    shape: tuple[int, ...]
    data: bytes


def read(path: Path) -> Tensor:
    """The tensor in a file.

    Raises:
        NpyError: not a .npy file, one of another version, in Fortran order, or of another size than it says.
        OSError: the file cannot be read.
    """
    file, content = str(path), read_file(path)
    if not content.startswith(MAGIC):
        found = content[: len(MAGIC)].hex() or "nothing"
        raise NpyError("not a .npy file", offset=0, expected=MAGIC.hex(), found=found, file=file)
    version = content[6:8]
    if len(version) < 2 or version[0] not in VERSIONS or version[1]:
        raise NpyError(
            "version", offset=6, expected="1.0, 2.0 or 3.0", found=version.hex(".") or "nothing", file=file
        )
    width, encoding = VERSIONS[version[0]]
    start = 8 + width
    length = int.from_bytes(content[8:start], "little")
    if len(content) < start or length > min(MAX_HEADER_BYTES, len(content) - start):
        most = min(MAX_HEADER_BYTES, max(len(content) - start, 0))
        raise NpyError("bytes of the header", offset=8, expected=f"at most {most}", found=length, file=file)
    try:
        descr, fortran, shape = _fields(content[start : start + length].decode(encoding))
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise NpyError("header", offset=start, expected=HEADER, found="something else", file=file) from None
    if fortran:
        raise NpyError("order of the elements", offset=start, expected="C", found="Fortran", file=file)
    return Tensor(descr, shape, content[start + length :])


# Element types that no slot has -> those that take their values.
WIDER = {"<i8": "<i4", "|b1": "|u1"}
HEADER = "a dictionary of descr (text), fortran_order (boolean) and shape (whole numbers)"


def _fields(header: str) -> tuple[str, bool, tuple[int, ...]]:
    """The header's three values; any of the errors that `read` knows when it has others."""
    values = ast.literal_eval(header.strip())
    if not isinstance(values, dict):
        raise ValueError(header)
    descr, fortran, shape = values.pop("descr"), values.pop("fortran_order"), values.pop("shape")
    whole = type(shape) is tuple and all(type(size) is int and size >= 0 for size in shape)
    if values or type(descr) is not str or type(fortran) is not bool or not whole:
        raise ValueError(header)
    return descr, fortran, shape


def load(path: Path, name: str, dtype: int, shape: tuple[int, ...]) -> bytes:
    """Data for a slot; a missing or extra leading dimension of 1 is forgiven, and int64 or bool where they fit.

    Args:
        path: the file.
        name: the slot's, for errors.
        dtype: its element type, as in the trace format.
        shape: its shape.

    Raises:
        NpyError: as `read`, or another element type, shape or size than the slot's.
        OSError: the file cannot be read.
    """
    tensor = read(path)
    descr = ELEMENTS[dtype][1]
    if tensor.descr in WIDER and WIDER[tensor.descr] == descr:
        tensor = _narrowed(tensor, name, str(path))
    if tensor.descr != descr:
        raise NpyError(f"element type for slot {name}", expected=descr, found=tensor.descr, file=str(path))
    if squeezed(tensor.shape) != squeezed(shape):
        raise NpyError(f"shape for slot {name}", expected=shape, found=tensor.shape, file=str(path))
    expected = element_bytes(dtype) * prod(shape)
    if len(tensor.data) != expected:
        raise NpyError("bytes of data", expected=expected, found=len(tensor.data), file=str(path))
    return tensor.data


def _narrowed(tensor: Tensor, name: str, file: str) -> Tensor:
    """Booleans as bytes, and whole numbers of 64 bits as ones of 32, if they fit."""
    descr = WIDER[tensor.descr]
    if tensor.descr == "|b1":
        return replace(tensor, descr=descr)
    if len(tensor.data) % 8:
        raise NpyError("bytes of data", expected="a multiple of 8", found=len(tensor.data), file=file)
    values = array.array("q", tensor.data)
    if wrong := next((value for value in values if not -(1 << 31) <= value < 1 << 31), None):
        raise NpyError(f"value for slot {name}", expected="within 32 bits", found=wrong, file=file)
    return replace(tensor, descr=descr, data=array.array("i", values).tobytes())


def element_bytes(dtype: int) -> int:
    """Size of an element."""
    return int(ELEMENTS[dtype][1][2:])


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without leading dimensions of 1."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def npy(dtype: int, shape: tuple[int, ...], data: bytes) -> bytes:
    """Bytes of a .npy file, version 1.0.

    Args:
        dtype: element type, as in the trace format.
        shape: outermost dimension first; at most six.
        data: dense, in C order.
    """
    header = f"{{'descr': {ELEMENTS[dtype][1]!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    fixed = len(MAGIC) + 4
    header = header.ljust(-(-(fixed + len(header) + 1) // ALIGNMENT) * ALIGNMENT - fixed - 1) + "\n"
    return MAGIC + b"\x01\x00" + len(header).to_bytes(2, "little") + header.encode("ascii") + data
