# SPDX-License-Identifier: BSD-2-Clause
"""Tensors without NumPy, compared with NumPy."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from host_tools.support import npy
from trace_format.schema import DTYPE_BYTES, DType

FLOAT32 = 1
TYPES = {int(dtype): np.dtype(dtype.name.lower()) for dtype in DType}
VALUES = st.sampled_from(sorted(TYPES)).flatmap(
    lambda dtype: st.tuples(
        st.just(dtype),
        arrays.arrays(TYPES[dtype], arrays.array_shapes(min_dims=1, max_dims=6, max_side=5)),
    )
)


def saved(array: Any, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version, allow_pickle=False)
    return out.getvalue()


def test_element_types_are_those_of_the_trace_format() -> None:
    assert {dtype: np.dtype(descr) for dtype, (_, descr) in npy.ELEMENTS.items()} == TYPES
    assert {dtype: name for dtype, (name, _) in npy.ELEMENTS.items()} == {t: d.name for t, d in TYPES.items()}
    assert {DType(dtype): npy.element_bytes(dtype) for dtype in npy.ELEMENTS} == DTYPE_BYTES


@given(VALUES, st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_what_numpy_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, value: tuple[int, Any], version: tuple[int, int]
) -> None:
    dtype, array = value
    path = tmp_path_factory.getbasetemp() / "numpy.npy"
    path.write_bytes(saved(array, version))
    assert npy.load(path, "data", dtype, array.shape) == array.tobytes()
    assert npy.load(path, "data", dtype, (1, *array.shape)) == array.tobytes()


@given(VALUES)
def test_numpy_reads_what_is_written(value: tuple[int, Any]) -> None:
    dtype, array = value
    found = np.load(io.BytesIO(npy.npy(dtype, array.shape, array.tobytes())), allow_pickle=False)
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert len(npy.npy(dtype, array.shape, b"")) % npy.ALIGNMENT == 0


def headed(header: str, data: bytes = bytes(24)) -> bytes:
    return npy.MAGIC + b"\1\0" + len(header).to_bytes(2, "little") + header.encode("latin1") + data


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"
MALFORMED = {
    "empty": (b"", "at offset 0x0: not a .npy file: expected 934e554d5059, found nothing"),
    "text": (b"1 2 3\n", "not a .npy file"),
    "npz": (b"PK\3\4" + bytes(60), "not a .npy file"),
    "no version": (npy.MAGIC, "at offset 0x6: version: expected 1.0, 2.0 or 3.0, found nothing"),
    "half a version": (npy.MAGIC + b"\1", "at offset 0x6: version"),
    "version 4": (npy.MAGIC + b"\4\0" + bytes(64), "version: expected 1.0, 2.0 or 3.0, found 04.00"),
    "version 1.1": (npy.MAGIC + b"\1\1" + bytes(64), "found 01.01"),
    "no length": (npy.MAGIC + b"\1\0\5", "at offset 0x8: bytes of the header"),
    "header past the end": (headed(GOOD)[:40], "bytes of the header: expected at most 30, found 57"),
    "header too long": (headed(GOOD.ljust(10001)), "expected at most 10000, found 10001"),
    "no dictionary": (headed("[1]"), "at offset 0xa: header: expected a dictionary"),
    "no Python": (headed("{'descr'"), "header: expected"),
    "code": (headed("__import__('os').abort()"), "header: expected"),
    "nesting": (headed("(" * 5000), "header: expected"),
    "NUL": (headed("\0"), "header: expected"),
    "no shape": (headed("{'descr': '<f4', 'fortran_order': False}"), "header: expected"),
    "one key more": (headed(GOOD[:-1] + ", 'a': 1}"), "header: expected"),
    "shape of booleans": (headed(GOOD.replace("2", "True")), "header: expected"),
    "negative shape": (headed(GOOD.replace("2", "-2")), "header: expected"),
    "shape is a list": (headed(GOOD.replace("(2, 3)", "[2, 3]")), "header: expected"),
    "structure": (headed(GOOD.replace("'<f4'", "[('a', '<f4')]")), "header: expected"),
    "order is a number": (headed(GOOD.replace("False", "0")), "header: expected"),
    "Fortran": (headed(GOOD.replace("False", "True")), "order of the elements: expected C, found Fortran"),
    "big-endian": (headed(GOOD.replace("<f4", ">f4")), "element type for slot data: expected <f4, found >f4"),
    "pickled": (headed(GOOD.replace("<f4", "|O")), "element type for slot data: expected <f4, found |O"),
    "other shape": (headed(GOOD.replace("2", "3")), "shape for slot data: expected (2, 3), found (3, 3)"),
    "other rank": (headed(GOOD.replace("2, 3", "6,")), "shape for slot data: expected (2, 3), found (6,)"),
    "short data": (headed(GOOD, bytes(23)), "bytes of data: expected 24, found 23"),
    "long data": (headed(GOOD, bytes(25)), "bytes of data: expected 24, found 25"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_files(kind: str, tmp_path: Path) -> None:
    content, message = MALFORMED[kind]
    path = tmp_path / "in.npy"
    path.write_bytes(content)
    with pytest.raises(npy.NpyError) as caught:
        npy.load(path, "data", FLOAT32, (2, 3))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@given(st.binary(max_size=200), st.integers(0, 9))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.npy"
    path.write_bytes(headed(GOOD)[:at] + noise)
    with contextlib.suppress(npy.NpyError):
        npy.read(path)
