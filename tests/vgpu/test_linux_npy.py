# SPDX-License-Identifier: BSD-2-Clause
"""The .npy files of `gramophone-gpu` (tee_replayer/linux/npy.c), compiled for this machine, against NumPy."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tee_replayer.generator.linux_folder import HERE
from tee_replayer.generator.strictness import STRICT, WARNINGS
from tee_replayer.linux.gramophone_gpu import _Slot

TYPES = {1: "<f4", 2: "<f2", 3: "<i4", 4: "<u4", 5: "<i2", 6: "<u2", 7: "|i1", 8: "|u1"}
SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
Tensor = np.ndarray[tuple[int, ...], Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("npy") / "npy.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-fsanitize=undefined", *WARNINGS, *STRICT]
    subprocess.run(["cc", *flags, "-o", str(path), str(HERE / "npy.c"), str(HERE / "sysfs.c")], check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.gr_npy_read.restype = loaded.gr_npy_write.restype = ctypes.c_bool
    loaded.gramophone_gpu_error.restype = ctypes.c_char_p
    return loaded


def slot_of(tensor: Tensor) -> _Slot:
    dtype = next(number for number, descr in TYPES.items() if np.dtype(descr) == tensor.dtype)
    dims = (ctypes.c_uint32 * 6)(*tensor.shape)
    return _Slot(name=b"data", kind=1, dtype=dtype, rank=tensor.ndim, dims=dims, bytes=tensor.nbytes)


def read(library: ctypes.CDLL, path: Path, slot: _Slot, replays: int = 0) -> bytes:
    """The data; AssertionError with the message when it is refused."""
    data = ctypes.create_string_buffer(slot.bytes * max(replays, 1))
    good = library.gr_npy_read(str(path).encode(), ctypes.byref(slot), replays, data)
    assert good, library.gramophone_gpu_error().decode()
    return data.raw


@SAME_FOLDER
@given(
    st.sampled_from(list(TYPES.values())).flatmap(
        lambda descr: arrays.arrays(np.dtype(descr), arrays.array_shapes(max_dims=6, max_side=4))
    )
)
def test_files_are_numpy_s(library: ctypes.CDLL, tmp_path: Path, tensor: Tensor) -> None:
    path, slot = tmp_path / "x.npy", slot_of(tensor)
    assert library.gr_npy_write(str(path).encode(), ctypes.byref(slot), 0, tensor.tobytes())
    found = np.load(path, allow_pickle=False)
    assert (found.dtype, found.shape, found.tobytes()) == (tensor.dtype, tensor.shape, tensor.tobytes())
    assert (len(path.read_bytes()) - tensor.nbytes) % 64 == 0
    np.save(path, tensor)
    assert read(library, path, slot) == tensor.tobytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (1, 2, 1, 2, 1, 2)])
def test_values_of_all_replays(library: ctypes.CDLL, tmp_path: Path, shape: tuple[int, ...]) -> None:
    """They lie along a first dimension, as NumPy has them; a file of fewer replays is refused."""
    path, tensor = tmp_path / "x.npy", np.arange(5 * np.prod(shape, dtype=int), dtype="<i4").reshape(5, *shape)
    slot = slot_of(tensor[0])
    np.save(path, tensor)
    assert read(library, path, slot, 5) == tensor.tobytes()
    assert library.gr_npy_write(str(path).encode(), ctypes.byref(slot), 5, tensor.tobytes())
    assert np.array_equal(np.load(path), tensor)
    np.save(path, tensor[:4])
    with pytest.raises(AssertionError, match=r"slot data: expected .*'shape': \(5,.*, found .*'shape': \(4,"):
        read(library, path, slot, 5)


GOOD = np.arange(6, dtype="<f4").reshape(2, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.asfortranarray(GOOD), "expected {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, found"),
        (GOOD.astype("<f8"), "found {'descr': '<f8'"),
        (GOOD.reshape(3, 2), r"found {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"),
        (b"", "not a .npy file of version 1.0"),
        (b"\x93NUMPY\x02\x00" + bytes(100), "not a .npy file of version 1.0"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(100), "offset 8: a header of 65535 bytes"),
        (-1, "slot data: expected 24 bytes of data, found less"),
        (1, "slot data: expected 24 bytes of data, found more"),
    ],
)
def test_other_files_are_refused(
    library: ctypes.CDLL, tmp_path: Path, given: Tensor | bytes | int, message: str
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, given if isinstance(given, np.ndarray) else GOOD)
    whole = path.read_bytes()
    if isinstance(given, bytes):
        path.write_bytes(given)
    elif isinstance(given, int):
        path.write_bytes(whole[:given] if given < 0 else whole + bytes(given))
    with pytest.raises(AssertionError) as error:
        read(library, path, slot_of(GOOD))
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_file_that_cannot_be_written_is_not_there(library: ctypes.CDLL, tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.npy"
    assert not library.gr_npy_write(str(path).encode(), ctypes.byref(slot_of(GOOD)), 0, GOOD.tobytes())
    assert "No such file" in library.gramophone_gpu_error().decode()
