# SPDX-License-Identifier: BSD-2-Clause
"""Following tensors through memory by differences: a framework's layouts are found, and nothing else."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Sequence

import ncnn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.record.layouts import in_order, of_ncnn
from host_tools.record.tensors import PairedMemory, Placement, RepeatedError, find, joined, pairs_of

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]
BASE = 0x1000
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


def _memory(size: int, placements: Sequence[tuple[Pair, Placement]], seed: int = 0) -> PairedMemory:
    """Two noise memories of `size` words at GPU address BASE with (tensor pair, placement) laid into them."""
    generator = np.random.default_rng(seed)
    noise = generator.integers(1 << 31, 1 << 32, size, np.uint32)
    memories = [noise.copy(), noise.copy()]
    for tensors, placement in placements:
        where = (placement.addresses() - BASE) // 4
        for memory, tensor in zip(memories, tensors, strict=True):
            memory[where] = np.ascontiguousarray(tensor, "<f4").view(np.uint32).reshape(-1)
    return PairedMemory({BASE: memories[0]}, {BASE: memories[1]})


def _tensors(shape: tuple[int, ...], seed: int = 1) -> Pair:
    generator = np.random.default_rng(seed)
    return generator.random(shape, np.float32), generator.random(shape, np.float32)


def _at(address: int, shape: tuple[int, ...]) -> Placement:
    return Placement(address, of_ncnn(shape)[0])


@given(shape=SHAPES)
def test_the_layout_is_that_of_ncnn_itself(shape: tuple[int, ...]) -> None:
    """Its Mat's own channel step, by the package."""
    *inner, width = shape
    sizes = {1: ("w",), 2: ("w", "h"), 3: ("w", "h", "c"), 4: ("w", "h", "d", "c")}[len(shape)]
    mat = ncnn.Mat(**dict(zip(sizes, (width, *reversed(inner)), strict=True)))
    layout = of_ncnn(shape)[0]
    assert (layout.shape, layout.split) == (shape, None)
    if len(shape) > 2:
        assert layout.strides[0] == mat.cstep * 4
    assert layout.strides[-1] == 4
    assert layout.offsets().max() + 4 <= mat.total() * 4


@settings(max_examples=60)
@given(shape=SHAPES, start=st.integers(0, 50), number=st.integers(0, 1), file=st.booleans())
def test_each_layout_is_found(shape: tuple[int, ...], start: int, number: int, file: bool) -> None:
    layouts = in_order(shape) if file else of_ncnn(shape)
    placement = Placement(BASE + 4 * start, layouts[min(number, len(layouts) - 1)])
    tensors = _tensors(shape)
    size = start + int(placement.layout.offsets().max()) // 4 + 64
    found = find(_memory(size, [(tensors, placement)]), pairs_of(*tensors), layouts)
    assert len(found) == 1
    assert np.array_equal(found[0].addresses(), placement.addresses())
    assert math.prod(found[0].layout.shape) == math.prod(shape)


@given(shape=st.lists(st.integers(1, 5), max_size=3).map(tuple), seed=st.integers(0, 1000))
def test_parts_of_two_copies_are_not_one_tensor(shape: tuple[int, ...], seed: int) -> None:
    """As a U-Net's output was: one channel here, the next 16 MB away, each by itself as it should be."""
    shape = (2, *shape)
    tensors = _tensors(shape, seed)
    first, last = _at(BASE + 16, shape), _at(BASE + 8192, shape)
    damaged = [(place.addresses()[[-1, 0][number]] - BASE) // 4 for number, place in enumerate((first, last))]
    whole = _memory(4096, [(tensors, place) for place in (first, last)])
    assert find(whole, pairs_of(*tensors), of_ncnn(shape)) == [first, last]
    pairs, _ = whole.at(BASE + 4 * np.arange(4096))
    pairs[damaged] ^= np.uint64(1)
    words = (pairs >> np.uint64(32)).astype(np.uint32), (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    torn = PairedMemory({BASE: words[0]}, {BASE: words[1]})
    assert find(torn, pairs_of(*tensors), of_ncnn(shape)) == []


def test_zeros_of_an_activation_do_not_hide_the_tensor() -> None:
    first, second = _tensors((4, 5, 6))
    tensors = np.maximum(first - 0.5, 0), np.maximum(second - 0.5, 0)
    place = _at(0x1040, (4, 5, 6))
    memory = _memory(256, [(tensors, place)])
    assert place in find(memory, pairs_of(*tensors), of_ncnn((4, 5, 6)))


@pytest.mark.parametrize("share", [0.5, 0.01, 0.99])
def test_a_mask_is_found(share: float) -> None:
    """Four pairs in all: by the first words of each buffer, if nothing else tells."""
    shape = (3, 40, 50)
    first, second = _tensors(shape)
    tensors = (first < share).astype(np.float32), (second < share).astype(np.float32)
    places = [_at(0x2000, shape), _at(0x20000, shape)]
    memory = _memory(1 << 16, [(tensors, place) for place in places])
    assert find(memory, pairs_of(*tensors), of_ncnn(shape)) == places


def test_a_tensor_of_one_pair_begins_where_a_buffer_does() -> None:
    """All 0 with one input, all 1 with the other, among more of the same."""
    tensors = np.zeros((1000,), np.float32), np.ones((1000,), np.float32)
    around = np.zeros((4000,), np.float32), np.ones((4000,), np.float32)
    memory = _memory(8192, [(around, _at(BASE + 64, (4000,)))])
    with pytest.raises(RepeatedError, match=r"fit 30\d\d places"):
        find(memory, pairs_of(*tensors), of_ncnn((1000,)))
    starts = np.array([BASE, BASE + 64 + 4000])
    assert find(memory, pairs_of(*tensors), of_ncnn((1000,)), lambda: starts) == [_at(int(starts[1]), (1000,))]


def test_a_tensor_that_is_not_there_is_not_found() -> None:
    memory = _memory(256, [])
    assert find(memory, pairs_of(*_tensors((3, 3))), of_ncnn((3, 3))) == []


def test_a_tensor_with_one_wrong_element_is_not_found() -> None:
    tensors = _tensors((3, 3))
    memory = _memory(256, [(tensors, _at(BASE, (3, 3)))])
    other = tensors[0].copy()
    other[2, 2] += 1
    assert find(memory, pairs_of(other, tensors[1]), of_ncnn((3, 3))) == []


def test_constant_tensors_cannot_be_followed() -> None:
    tensors = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    memory = _memory(8192, [(tensors, _at(BASE, (64, 64)))])
    with pytest.raises(RepeatedError, match="the same with both inputs"):
        find(memory, pairs_of(*tensors), of_ncnn((64, 64)))


def test_differing_words() -> None:
    tensors = _tensors((2, 2))
    memory = _memory(64, [(tensors, _at(0x1008, (2, 2)))])
    assert memory.differing().tolist() == [0x1008, 0x100C, 0x1010, 0x1014]


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
        assert find(paired, pairs_of(*tensors), of_ncnn((3, 100))) == [_at(7 * 4096, (3, 100))]
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
