"""Tensors on the command line: `SLOT=FILE.npy`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from trace_format.errors import GramophoneError
from trace_format.trace import Slot


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
        GramophoneError: not a .npy file, or another shape or element type than the slot's.
    """
    try:
        array = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise GramophoneError(f"{path}: not a .npy file ({error})") from None
    if not isinstance(array, np.ndarray):
        raise GramophoneError(f"{path}: expected one array (.npy), found an archive of several")
    if array.dtype != slot.numpy_dtype:
        raise GramophoneError(
            f"{path}: element type for slot {slot.name}: expected {slot.numpy_dtype}, found {array.dtype}"
        )
    if squeezed(array.shape) != squeezed(slot.shape):
        raise GramophoneError(f"{path}: shape for slot {slot.name}: expected {slot.shape}, found {array.shape}")
    return np.ascontiguousarray(array).reshape(slot.shape)


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
