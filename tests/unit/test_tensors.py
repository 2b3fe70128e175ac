# SPDX-License-Identifier: BSD-2-Clause
"""Following tensors through memory by differences: any affine layout is found, and nothing else."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.record.tensors import PairedMemory, Placement, find, joined, pairs_of

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


def _memory(size: int, placements: Sequence[tuple[Pair, Placement]], seed: int = 0) -> PairedMemory:
    """Two noise memories of `size` words at GPU address 0x1000 with (tensor pair, placement) laid into them."""
    generator = np.random.default_rng(seed)
    noise = generator.integers(1 << 31, 1 << 32, size, np.uint32)
    memories = [noise.copy(), noise.copy()]
    for tensors, placement in placements:
        for memory, tensor in zip(memories, tensors, strict=True):
            for index in np.ndindex(tensor.shape):
                at = placement.address + sum(i * s for i, s in zip(index, placement.strides, strict=True))
                memory[(at - 0x1000) // 4] = np.float32(tensor[index]).view(np.uint32)
    return PairedMemory({0x1000: memories[0]}, {0x1000: memories[1]})


def _tensors(shape: tuple[int, ...], seed: int = 1) -> Pair:
    generator = np.random.default_rng(seed)
    return generator.random(shape, np.float32), generator.random(shape, np.float32)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    order=st.randoms(use_true_random=False),
    pad=st.integers(0, 3),
    start=st.integers(0, 50),
)
def test_any_affine_layout_is_found(shape: tuple[int, ...], order: random.Random, pad: int, start: int) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    strides = [0] * len(shape)
    step = 4
    for axis in axes:
        strides[axis] = step
        step *= shape[axis] + pad
    placement = Placement(0x1000 + 4 * start, tuple(strides))
    tensors = _tensors(shape)
    found = find(_memory(start + step // 4 + 64, [(tensors, placement)]), pairs_of(*tensors))
    assert len(found) == 1
    assert found[0].address == placement.address
    for axis, size in enumerate(shape):
        assert size == 1 or found[0].strides[axis] == strides[axis]


def test_two_copies_are_both_found() -> None:
    tensors = _tensors((2, 3))
    places = [Placement(0x1000, (12, 4)), Placement(0x1100, (32, 8))]
    memory = _memory(256, [(tensors, p) for p in places])
    assert find(memory, pairs_of(*tensors)) == places


def test_zeros_of_an_activation_do_not_hide_the_tensor() -> None:
    first, second = _tensors((4, 5, 6))
    tensors = np.maximum(first - 0.5, 0), np.maximum(second - 0.5, 0)
    place = Placement(0x1040, (128, 24, 4))
    memory = _memory(256, [(tensors, place)])
    assert place in find(memory, pairs_of(*tensors))


def test_a_tensor_that_is_not_there_is_not_found() -> None:
    memory = _memory(256, [])
    assert find(memory, pairs_of(*_tensors((3, 3)))) == []


def test_a_tensor_with_one_wrong_element_is_not_found() -> None:
    tensors = _tensors((3, 3))
    place = Placement(0x1000, (12, 4))
    memory = _memory(256, [(tensors, place)])
    other = tensors[0].copy()
    other[2, 2] += 1
    assert find(memory, pairs_of(other, tensors[1])) == []


def test_constant_tensors_cannot_be_followed() -> None:
    tensors = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    memory = _memory(8192, [(tensors, Placement(0x1000, (256, 4)))])
    with pytest.raises(ValueError, match="repeat too often"):
        find(memory, pairs_of(*tensors))


def test_differing_words() -> None:
    tensors = _tensors((2, 2))
    memory = _memory(64, [(tensors, Placement(0x1008, (8, 4)))])
    assert memory.differing().tolist() == [0x1008, 0x100C, 0x1010, 0x1014]


@pytest.mark.parametrize("axis", [0, 1])
def test_a_tensor_packed_by_four_is_found(axis: int) -> None:
    """As ncnn keeps channels: four of one pixel together."""
    tensors = _tensors((8, 12, 3))
    parts = (2, 4, 12, 3) if axis == 0 else (8, 3, 4, 3)
    placed = [tensor.reshape(parts) for tensor in tensors]
    strides = (640, 4, 48, 16) if axis == 0 else (160, 48, 4, 16)
    memory = _memory(1024, [((placed[0], placed[1]), Placement(0x1010, strides))])
    assert find(memory, pairs_of(*tensors)) == [Placement(0x1010, strides, split=axis)]


def test_memory_that_does_not_differ_is_not_indexed() -> None:
    """The search takes a fraction of the memories' size: weights are most of it."""
    pages = np.random.default_rng(1).integers(0, 1 << 32, (4096, 1024), np.uint32)
    tensors = _tensors((3, 100))
    second = dict(enumerate(pages))
    first = dict(second)
    first[7], second[7] = pages[7].copy(), pages[7].copy()
    for memory, tensor in zip((first, second), tensors, strict=True):
        memory[7][:300] = tensor.reshape(-1).view(np.uint32)
    tracemalloc.start()
    try:
        runs = [{page * 4096: words for page, words in memory.items()} for memory in (first, second)]
        paired = PairedMemory(*runs)
        assert find(paired, pairs_of(*tensors)) == [Placement(7 * 4096, (400, 4))]
        assert paired.stretches(64) == [(7 * 4096, 7 * 4096 + 299 * 4)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < pages.nbytes / 8


@given(st.lists(st.integers(0, 400), unique=True, max_size=40), st.integers(1, 40).map(lambda words: 4 * words))
def test_stretches_join_what_is_close(where: list[int], gap: int) -> None:
    first = np.zeros(401, np.uint32)
    second = first.copy()
    second[where] = 1
    cuts = [0, 13, 100, 101, 401]
    runs = [{a * 4: m[a:b] for a, b in itertools.pairwise(cuts)} for m in (first, second)]
    addresses = [4 * at for at in sorted(where)]
    expected: list[tuple[int, int]] = []
    for at in addresses:
        if expected and at - expected[-1][1] <= gap:
            expected[-1] = expected[-1][0], at
        else:
            expected.append((at, at))
    assert PairedMemory(*runs).stretches(gap) == expected
    assert joined(PairedMemory(*runs).stretches(4), gap) == expected
