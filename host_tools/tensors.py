"""Tensors on the command line: `SLOT=FILE.npy`."""

from __future__ import annotations

import io
from pathlib import Path
from tokenize import TokenError
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from trace_format.errors import GramophoneError
from trace_format.trace import Slot

NPY_MAGIC = b"\x93NUMPY"  # numpy.lib.format
ZIP_MAGIC = b"PK"


class Assignment(click.ParamType[Any]):
    """SLOT=FILE."""

    name = "SLOT=FILE.npy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        """The two sides."""
        slot, equals, path = str(value).partition("=")
        if not (slot and equals and path):
            self.fail(f"expected SLOT=FILE.npy, found {value!r}", param, ctx)
        return slot, Path(path)


def load(path: Path, slot: Slot) -> NDArray[Any]:
    """A tensor for a slot from a .npy file; a missing or extra leading dimension of 1 is forgiven.

    Raises:
        GramophoneError: not a .npy file of numbers, or another shape or element type than the slot's.
        OSError: the file cannot be read.
    """
    array = _read(path)
    if array.dtype != slot.numpy_dtype:
        raise GramophoneError(
            f"{path}: element type for slot {slot.name}: expected {slot.numpy_dtype}, found {array.dtype}"
        )
    if squeezed(array.shape) != squeezed(slot.shape):
        raise GramophoneError(f"{path}: shape for slot {slot.name}: expected {slot.shape}, found {array.shape}")
    return np.ascontiguousarray(array).reshape(slot.shape)


def _read(path: Path) -> NDArray[Any]:
    """The array in a .npy file; GramophoneError when there is none."""
    data = path.read_bytes()
    if data.startswith(ZIP_MAGIC):
        raise GramophoneError(f"{path}: expected one array (.npy), found an archive of several (.npz)")
    if not data.startswith(NPY_MAGIC):
        found = data[: len(NPY_MAGIC)].hex() or "nothing"
        raise GramophoneError(f"{path} at offset 0x0: not a .npy file: expected {NPY_MAGIC.hex()}, found {found}")
    try:
        # The header is text that NumPy hands to Python's parser, and its shape decides how much is allocated.
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, TokenError):
        raise GramophoneError(f"{path}: a damaged .npy file, or one of elements that are no numbers") from None
    return array


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without leading dimensions of 1."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def npy(array: NDArray[Any]) -> bytes:
    """Bytes of a .npy file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
