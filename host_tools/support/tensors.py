# SPDX-License-Identifier: BSD-2-Clause
"""Tensors on the command line: `SLOT=FILE.npy`, or a folder of `SLOT.npy`."""

from __future__ import annotations

import io
import lzma
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any

import click
import numpy as np
from numpy.typing import ArrayLike, NDArray

from host_tools.support.npy import MAGIC, MAX_HEADER_BYTES, squeezed
from trace_format import operators
from trace_format.errors import GramophoneError, SlotError, listed, meant, printable
from trace_format.files import read_file
from trace_format.schema import SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

ZIP_MAGIC = b"PK"
# What zipfile raises for a file that is no zip archive, is damaged, encrypted, or packed in another way.
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    EOFError,
    OSError,
    struct.error,
)


class Assignment(click.ParamType[Any]):
    """SLOT=FILE; where `folders` are taken, also the path of a folder of SLOT.npy files, which has no slot."""

    def __init__(self, *, folders: bool = False) -> None:
        self.folders = folders
        self.name = "SLOT=FILE.npy|FOLDER" if folders else "SLOT=FILE.npy"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """As help shows it; click would write it in capitals."""
        return self.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, Path]:
        """The two sides."""
        if self.folders and Path(value).is_dir():
            return None, Path(value)
        slot, equals, path = str(value).partition("=")
        if not (slot and equals and path):
            folder = " or a folder of such files" if self.folders else ""
            self.fail(f"expected SLOT=FILE.npy{folder}, found {value!r}", param, ctx)
        return slot, Path(path)


def assigned(what: str, given: Iterable[tuple[str | None, Path]]) -> dict[str, Path]:
    """The files of slots, by slot.

    Args:
        what: what the option is about, for errors.
        given: what `Assignment` makes of it.

    Raises:
        GramophoneError: a slot is given twice, or a folder has no .npy file.
        OSError: a folder cannot be read.
    """
    files: dict[str, Path] = {}
    for name, path in given:
        found = [path] if name is not None else sorted(item for item in path.iterdir() if item.suffix == ".npy")
        if not found:
            raise GramophoneError(f"{path}: no .npy file in this folder")
        for file in found:
            slot = file.stem if name is None else name
            if slot in files:
                raise GramophoneError(f"{what} {slot!r} is given twice: {files[slot]} and {file}")
            files[slot] = file
    return files


def load_all(trace: Trace, files: dict[str, Path], *kinds: SlotKind) -> dict[str, NDArray[Any]]:
    """Tensors for a trace's slots of some kinds.

    Raises:
        SlotError: no such slot.
        GramophoneError, OSError: as `load`.
    """
    return {name: load(path, slot_of(trace, name, *kinds)) for name, path in files.items()}


def slot_of(trace: Trace, name: str, *kinds: SlotKind) -> Slot:
    """The slot of one of some kinds; SlotError naming those that there are."""
    slots = {slot.name: slot for slot in trace.slots if slot.kind in kinds}
    if name not in slots:
        raise SlotError(f"no {kinds[0].name.lower()} {name!r}{meant(name, slots)}; there are: {listed(slots)}")
    return slots[name]


TAKEN = (SlotKind.INPUT, SlotKind.PARAMETER)


def without_value(trace: Trace, *kinds: SlotKind) -> list[str]:
    """Names of the slots (of some kinds; left out: of all) that a replay must be given, inputs first."""
    return [slot.name for kind in kinds or TAKEN for slot in trace.slots if slot.kind == kind and not slot.bound]


def load_series(path: Path, slot: Slot) -> NDArray[Any]:
    """A slot's tensors in replays that follow one another, from a .npy file whose first dimension is the replay's.

    Raises:
        GramophoneError, OSError: as `load`.
    """
    array = array_of(read_file(path), str(path))
    _check_type(array, slot, str(path))
    if array.shape[1:] != slot.tensor_shape or not len(array):
        expected = ("replays", *slot.tensor_shape)
        raise GramophoneError(f"{path}: shape for slot {slot.name}: expected {expected}, found {array.shape}")
    return np.ascontiguousarray(array)


def fitted_all(
    trace: Trace, values: Mapping[str, ArrayLike | os.PathLike[str] | str], where: str, *kinds: SlotKind
) -> dict[str, NDArray[Any]]:
    """As `load_all`, for values that are arrays, or paths of .npy files; `where`: whose they are, for errors."""
    found = {}
    for name, value in values.items():
        slot = slot_of(trace, name, *kinds)
        if isinstance(value, str | os.PathLike):
            found[name] = load(Path(value), slot)
        else:
            found[name] = fitted(_array(value, slot, where), slot, where)
    return found


def _array(value: Any, slot: Slot, where: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise GramophoneError(f"{where}: no array for slot {slot.name}: {error}") from None


def _check_type(array: NDArray[Any], slot: Slot, where: str) -> None:
    if array.dtype != slot.numpy_dtype:
        raise GramophoneError(
            f"{where}: element type for slot {slot.name}: expected {slot.numpy_dtype}, found {array.dtype}"
        )


def load(path: Path, slot: Slot, *, fewer: bool = False) -> NDArray[Any]:
    """A tensor for a slot from a .npy file; a missing or extra leading dimension of 1 is forgiven.

    Args:
        path: the file.
        slot: whose tensor it is.
        fewer: it may have fewer rows.

    Raises:
        GramophoneError: not a .npy file of numbers, or another shape or element type than the slot's.
        OSError: the file cannot be read.
    """
    return fitted(array_of(read_file(path), str(path)), slot, str(path), fewer=fewer)


def fitted(array: NDArray[Any], slot: Slot, where: str, *, fewer: bool = False) -> NDArray[Any]:
    """As `load`, for an array from somewhere (`where`, for the error)."""
    _check_type(array, slot, where)
    shape = slot.tensor_shape
    if fewer and array.ndim == len(shape) and len(array) < shape[0]:
        shape = (len(array), *shape[1:])
    if squeezed(array.shape) != squeezed(shape):
        raise GramophoneError(f"{where}: shape for slot {slot.name}: expected {shape}, found {array.shape}")
    return np.ascontiguousarray(array).reshape(shape)


def array_of(data: bytes, path: str) -> NDArray[Any]:
    """The array in the content of a .npy file; GramophoneError when there is none."""
    if data.startswith(ZIP_MAGIC):
        raise GramophoneError(f"{path}: expected one array (.npy), found an archive of several (.npz)")
    if not data.startswith(MAGIC):
        found = data[: len(MAGIC)].hex() or "nothing"
        raise GramophoneError(f"{path} at offset 0x0: not a .npy file: expected {MAGIC.hex()}, found {found}")
    try:
        # The header is text that NumPy hands to Python's parser, and its shape decides how much is allocated.
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, EOFError, OverflowError, MemoryError, TokenError):
        raise GramophoneError(f"{path}: a damaged .npy file, or one with elements that are not numbers") from None
    return array


def arrays_of(
    data: bytes, path: str, shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any]
) -> dict[str, NDArray[Any]]:
    """The arrays in the content of a .npz file, which must have those of `shapes`, all of one type, and no others.

    Raises:
        GramophoneError: not such a file; the message says what was expected.
    """
    wanted = listed(f"{name} {shape}" for name, shape in shapes.items())
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename.removesuffix(".npy"), info) for info in archive.infolist()]
            names = Counter(name for name, _ in members)
            missing, more = Counter(shapes.keys()) - names, names - Counter(shapes.keys())
            if missing or more:
                raise GramophoneError(
                    f"{path}: expected arrays of {dtype} {wanted}; "
                    f"missing: {listed(missing)}; superfluous: {listed(more)}"
                )
            return {
                name: _member(archive, info, f"{path}: {printable(name)}", shapes[name], dtype)
                for name, info in members
            }
    except DAMAGED_ZIP as error:
        raise GramophoneError(f"{path}: not a readable .npz file of {wanted}: {error}") from None


def _member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    most = prod(shape) * dtype.itemsize + MAX_HEADER_BYTES
    if info.file_size > most:
        raise GramophoneError(f"{where}: expected at most {most} bytes, found {info.file_size}")
    array = array_of(archive.read(info), where)
    if (array.dtype, array.shape) != (dtype, shape):
        raise GramophoneError(f"{where}: expected {dtype} {shape}, found {array.dtype} {array.shape}")
    return array


def boxes_found(trace: Trace, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A replay's outputs; those of boxes with the rows that were found, in place of all that there is room for."""
    counts = operators.counted(trace.actions, trace.slots)
    return {
        name: array[: int(outputs[counts[name]][0])] if counts.get(name) in outputs else array
        for name, array in outputs.items()
    }


def npy(array: NDArray[Any]) -> bytes:
    """Bytes of a .npy file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
