# SPDX-License-Identifier: BSD-2-Clause
"""A GGUF file with its matrices in another element type, rounded as ggml's plain code rounds.

The steps are those of ggml-quants.c's `quantize_row_*_ref`, but for Q4_K's search of better scales, which changes
what a model says and not what its weights mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.model import Model
from tests.support.gguf_file import BLOCKS, written

Floats = NDArray[np.float32]
OTHERWISE = "Q5_0"  # for rows that are no whole blocks: what llama.cpp takes in Q4_K's place


def requantized(model: Model, kind: str) -> bytes:
    """The file of a decoder, with the same keys; vectors stay as they are.

    Args:
        model: the decoder.
        kind: of `ROUND`; a matrix whose rows are no multiple of its blocks gets OTHERWISE.
    """
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, tensor in model.head.tensors.items():
        if len(tensor.shape) == 1:
            raw = model.data[tensor.offset : tensor.offset + tensor.size]
            tensors[name] = (tensor.kind, tensor.shape, raw)
            continue
        chosen = kind if tensor.shape[-1] % BLOCKS[kind][0] == 0 else OTHERWISE
        tensors[name] = (chosen, tensor.shape, rounded(chosen, model.floats(name)))
    return written(model.head.values, tensors)


def rounded(kind: str, weights: Floats) -> bytes:
    """Blocks of a kind, of weights (rows, columns)."""
    block, size = BLOCKS[kind]
    raw = ROUND[kind](weights.reshape(-1, block))
    assert raw.shape == (weights.size // block, size)
    return raw.tobytes()


def _bytes(part: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    """Numbers of each block as bytes."""
    return np.ascontiguousarray(part.astype(dtype)).view(np.uint8).reshape(len(part), -1)


def _over(part: Floats, scale: Floats) -> Floats:
    """Zero where the scale is."""
    return np.divide(part, scale, out=np.zeros_like(part), where=scale != 0)


def _nibbles(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Two numbers a byte: the first half of a row in the low bits."""
    half = numbers.shape[-1] // 2
    both = numbers.astype(np.uint8)
    return both[..., :half] | both[..., half:] << np.uint8(4)


def _q8_0(w: Floats) -> NDArray[np.uint8]:
    scale = np.abs(w).max(-1, keepdims=True) / np.float32(127)
    return np.hstack([_bytes(scale, "<f2"), _bytes(np.rint(_over(w, scale)), "i1")])


def _from_largest(w: Floats, zero: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Halves of scales, with which the largest weight has the number 0; and the numbers."""
    largest = np.take_along_axis(w, np.abs(w).argmax(-1)[:, None], -1)
    scale = largest / np.float32(-zero)
    numbers = np.clip(np.floor(_over(w, scale) + np.float32(zero + 0.5)), 0, 2 * zero - 1)
    return _bytes(scale, "<f2"), numbers.astype(np.uint8)


def _q4_0(w: Floats) -> NDArray[np.uint8]:
    scale, numbers = _from_largest(w, 8)
    return np.hstack([scale, _nibbles(numbers)])


def _q5_0(w: Floats) -> NDArray[np.uint8]:
    scale, numbers = _from_largest(w, 16)
    return np.hstack([scale, np.packbits(numbers >> 4, axis=-1, bitorder="little"), _nibbles(numbers & 15)])


def _q4_1(w: Floats) -> NDArray[np.uint8]:
    least = w.min(-1, keepdims=True)
    scale = (w.max(-1, keepdims=True) - least) / np.float32(15)
    numbers = np.clip(np.floor(_over(w - least, scale) + np.float32(0.5)), 0, 15)
    return np.hstack([_bytes(scale, "<f2"), _bytes(least, "<f2"), _nibbles(numbers)])


def _q4_k(w: Floats) -> NDArray[np.uint8]:
    groups = w.reshape(len(w), 8, 32)
    least = np.minimum(groups.min(-1), 0)
    scale = (groups.max(-1) - least) / np.float32(15)
    supers = [(part.max(-1, keepdims=True) / np.float32(63)).astype("<f2") for part in (scale, -least)]
    six = [
        np.clip(np.rint(_over(part, one.astype(np.float32))), 0, 63).astype(np.uint8)
        for part, one in zip((scale, -least), supers, strict=True)
    ]
    scale, below = (one.astype(np.float32) * part for one, part in zip(supers, six, strict=True))
    numbers = np.clip(np.rint(_over(groups + below[..., None], scale[..., None])), 0, 15)
    return np.hstack([*(_bytes(one, "<f2") for one in supers), _sixes(*six), _pairs(numbers)])


def _sixes(scale: NDArray[np.uint8], least: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Eight pairs of 6-bit numbers in 12 bytes: get_scale_min_k4 reads them."""
    first = [part[:, :4] | part[:, 4:] >> 4 << 6 for part in (scale, least)]
    return np.hstack([*first, scale[:, 4:] & 15 | (least[:, 4:] & 15) << 4])


def _pairs(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Groups of 32 two by two, the first one in the low bits."""
    return _nibbles(numbers.reshape(len(numbers), 4, 64)).reshape(len(numbers), -1)


ROUND: dict[str, Callable[[Floats], NDArray[np.uint8]]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q4_K": _q4_k,
}
