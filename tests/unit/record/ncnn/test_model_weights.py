# SPDX-License-Identifier: BSD-2-Clause
"""Weights as the recorder varies them: scales and tags stay, data differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.demo import PARAM, WEIGHTS
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.model_weights import INT8_MAX, ModelWeights
from host_tools.record.ncnn.network import program_options
from host_tools.record.preflight import NetworkError, preflight
from host_tools.record.tolerances import INT8_TOLERANCE, default_tolerance
from tests.support.int8 import quantised

SHAPES = {"data": (1, 28, 28)}
PICTURE = {"data": np.random.default_rng(1).random((1, 28, 28), dtype=np.float32)}


@pytest.fixture(scope="module")
def lenet() -> tuple[bytes, bytes]:
    return quantised(PARAM.read_bytes(), WEIGHTS.read_bytes(), PICTURE)


def computed(folder: Path, param: bytes, weights: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    (folder / "net.param").write_bytes(param)
    (folder / "net.bin").write_bytes(weights)
    return ncnn_cpu.run(folder / "net.param", folder / "net.bin", PICTURE, ["prob"])["prob"]


def test_an_int8_network_is_taken_apart(lenet: tuple[bytes, bytes], tmp_path: Path) -> None:
    param, weights = lenet
    found = preflight(param, weights, SHAPES).weights
    assert found.data == weights
    assert [end - start for start, end in found.int8] == [200, 3200, 16384, 640]
    assert sum(end - start for start, end in (*found.int8, *found.fixed)) == len(weights)
    prob, other, exact = (
        computed(tmp_path, *files)
        for files in (lenet, (param, found.other()), (PARAM.read_bytes(), WEIGHTS.read_bytes()))
    )
    assert 0 < relative_difference(prob, exact) < INT8_TOLERANCE
    assert not np.array_equal(prob, other)
    assert program_options(found) == ("--int8",)
    assert default_tolerance(program_options(found)) == INT8_TOLERANCE


def test_int8_weights_that_end_too_early_are_named(lenet: tuple[bytes, bytes]) -> None:
    param, weights = lenet
    with pytest.raises(
        NetworkError, match=r"conv1 \(Convolution\).* its 200 weights need 200 bytes at offset 0x4"
    ):
        preflight(param, weights[:150], SHAPES)


def test_float32_weights_are_all_varied() -> None:
    """As they were before there was int8: committed recordings depend on it."""
    found = preflight(PARAM.read_bytes(), WEIGHTS.read_bytes(), SHAPES).weights
    assert (found.int8, found.fixed) == ((), ())
    before, after = (np.frombuffer(data, "<f4") for data in (found.data, found.other()))
    changed = before != after
    assert np.array_equal(changed, np.abs(before) > 1e-30)
    ratio = after[changed] / before[changed]
    assert 0.749 < ratio.min() < 0.76
    assert 1.24 < ratio.max() < 1.251
    assert found.blank() == bytes(len(found.data))


@given(st.binary(min_size=16, max_size=64), st.lists(st.integers(-INT8_MAX, INT8_MAX), min_size=1, max_size=40))
def test_int8_weights_move_by_one_and_the_rest_stays(fixed: bytes, values: list[int]) -> None:
    int8 = np.array(values, np.int8).tobytes()
    end = len(fixed) + len(int8)
    weights = ModelWeights(fixed + int8 + fixed, ((len(fixed), end),), ((0, len(fixed)), (end, end + len(fixed))))
    other, blank = weights.other(), weights.blank()
    for data in (other, blank):
        assert data[: len(fixed)] == data[end:] == fixed
    found = np.frombuffer(other[len(fixed) : end], "i1").astype(int)
    assert set(np.abs(found - values).tolist()) == {1}
    assert np.abs(found).max() <= INT8_MAX
    assert not any(blank[len(fixed) : end])
