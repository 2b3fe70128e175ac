# SPDX-License-Identifier: BSD-2-Clause
"""Weights as a GGUF file has them: whole numbers of a few bits, whose blocks share scales.

The forms are those of ggml/src/ggml-common.h and ggml/src/ggml-quants.c. A weight is

    scale * (number - zero) + least

where scale and least are of GROUP columns of a row. They are two halves (names that end with 0 or 1), or small
whole numbers times two halves that 256 columns share (the K forms). Nothing is rounded here: `floats` gives what
ggml's own code gives, and kernels get the numbers and the parts of the scales with as many bits as the file has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.file import Tensor
from host_tools.extras.gguf.types import TYPES

COLUMNS = 32  # of a block: what has one word of scales
SUPER = 256  # columns that share two halves, in the K forms
FLOATS = {"F32": "<f4", "F16": "<f2"}


@dataclass(frozen=True)
class Form:
    """How numbers of one element type become weights.

    Attributes:
        bits: of a number.
        zero: the number whose weight is `least`.
        group: columns that share a scale.
        least: a least is added; without, it is zero.
        is_super: scales are small numbers times halves of SUPER columns.
    """

    bits: int
    zero: int = 0
    group: int = COLUMNS
    least: bool = False
    is_super: bool = False


FORMS = {
    "Q4_0": Form(4, zero=8),
    "Q4_1": Form(4, least=True),
    "Q5_0": Form(5, zero=16),
    "Q5_1": Form(5, least=True),
    "Q8_0": Form(8, zero=128),
    "Q4_K": Form(4, least=True, is_super=True),
    "Q5_K": Form(5, least=True, is_super=True),
    "Q6_K": Form(6, zero=32, group=16, is_super=True),
}


@dataclass(frozen=True)
class Blocks:
    """A matrix of such weights.

    Attributes:
        form: what its numbers mean.
        numbers: uint8 (rows, columns).
        scales: uint32 (rows, columns / 32), a word for each block: the halves scale and least, low half first; of
            the K forms the 6-bit numbers of scale and least, or the signed bytes of two groups' scales (Q6_K).
        supers: uint32 (rows, columns / 256): the halves by which these are multiplied; None: there are none.
    """

    form: Form
    numbers: NDArray[np.uint8]
    scales: NDArray[np.uint32]
    supers: NDArray[np.uint32] | None = None

    def floats(self) -> NDArray[np.float32]:
        """The weights, float32 (rows, columns)."""
        rows, columns = self.numbers.shape
        scale, least = self._of_groups()
        groups = (self.numbers.astype(np.float32) - np.float32(self.form.zero)).reshape(*scale.shape, -1)
        return (scale[..., None] * groups + least[..., None]).reshape(rows, columns)

    def _of_groups(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scale and least of each group, float32 (rows, groups)."""
        if self.supers is None:
            return _halves(self.scales)
        high, low = (np.repeat(part, SUPER // COLUMNS, axis=1) for part in _halves(self.supers))
        first, second = (self.scales & 0xFF).astype(np.uint8), (self.scales >> 8 & 0xFF).astype(np.uint8)
        if self.form.group == COLUMNS:
            return high * first, -low * second
        pair = np.stack([first, second], -1).view(np.int8).astype(np.float32)
        scale = (high[..., None] * pair).reshape(len(self.scales), -1)
        return scale, np.zeros_like(scale)


def matrix(tensor: Tensor, data: bytes) -> Blocks | NDArray[Any]:
    """A tensor's weights: blocks, or an array of float32 or float16, of the tensor's rows and columns.

    Args:
        tensor: of one of `TYPES`; dimensions before the last are joined.
        data: the file's bytes.
    """
    rows, columns = tensor.elements // tensor.shape[-1], tensor.shape[-1]
    raw = np.frombuffer(data, np.uint8, tensor.size, tensor.offset)
    if tensor.kind in FLOATS:
        return raw.view(FLOATS[tensor.kind]).reshape(rows, columns)
    block, size = TYPES[tensor.kind]
    return _READERS[tensor.kind](raw.reshape(rows, columns // block, size))


def floats(found: Blocks | NDArray[Any]) -> NDArray[np.float32]:
    """The weights of `matrix`, as float32."""
    return found.floats() if isinstance(found, Blocks) else found.astype(np.float32)


def _halves(words: NDArray[np.uint32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The low and the high halves of words."""
    both = words.astype("<u4").view("<f2").reshape(*words.shape, 2).astype(np.float32)
    return both[..., 0], both[..., 1]


def _words(raw: NDArray[np.uint8], size: int) -> NDArray[np.uint32]:
    """The first bytes of each block, 2 or 4, as a word."""
    return np.ascontiguousarray(raw[..., :size]).view(f"<u{size}")[..., 0].astype(np.uint32)


def _nibbles(raw: NDArray[np.uint8]) -> NDArray[Any]:
    """The low halves of some bytes, then their high halves."""
    return np.concatenate([raw & 15, raw >> 4], -1)


def _rows(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return numbers.astype(np.uint8, copy=False).reshape(len(numbers), -1)


def _q4_0(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q4_0"], _rows(_nibbles(raw[..., 2:])), _words(raw, 2))


def _q4_1(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q4_1"], _rows(_nibbles(raw[..., 4:])), _words(raw, 4))


def _fives(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Four bytes with a fifth bit for each of 32 columns, then 16 with nibbles."""
    fifth = np.unpackbits(raw[..., :4], axis=-1, bitorder="little")
    return _rows(_nibbles(raw[..., 4:]) | fifth << 4)


def _q5_0(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q5_0"], _fives(raw[..., 2:]), _words(raw, 2))


def _q5_1(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q5_1"], _fives(raw[..., 4:]), _words(raw, 4))


def _q8_0(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q8_0"], _rows(raw[..., 2:] ^ 128), _words(raw, 2))


def _six_bits(raw: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Twelve bytes with eight 6-bit scales and as many leasts, as words of `Blocks.scales`."""
    first, second, third = (raw[..., at : at + 4].astype(np.uint32) for at in (0, 4, 8))
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], -1)
    least = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], -1)
    return _joined(scale | least << 8)


def _joined(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return words.reshape(len(words), -1)


def _pieces(raw: NDArray[np.uint8]) -> NDArray[Any]:
    """128 bytes of nibbles: each 32 bytes have 32 columns in their low halves, the next 32 in their high ones."""
    return _nibbles(raw.reshape(*raw.shape[:-1], 4, 32)).reshape(*raw.shape[:-1], SUPER)


def _q4_k(raw: NDArray[np.uint8]) -> Blocks:
    return Blocks(FORMS["Q4_K"], _rows(_pieces(raw[..., 16:])), _six_bits(raw[..., 4:16]), _words(raw, 4))


def _q5_k(raw: NDArray[np.uint8]) -> Blocks:
    fifth = raw[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # bit n of byte c: column 32 n + c
    numbers = _pieces(raw[..., 48:]) | fifth.reshape(*raw.shape[:-1], SUPER) << 4
    return Blocks(FORMS["Q5_K"], _rows(numbers), _six_bits(raw[..., 4:16]), _words(raw, 4))


def _q6_k(raw: NDArray[np.uint8]) -> Blocks:
    low = raw[..., :128].reshape(*raw.shape[:-1], 2, 64)
    high = raw[..., 128:192].reshape(*raw.shape[:-1], 2, 1, 32)
    pairs = (high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(*low.shape[:-1], 128)
    numbers = (_nibbles(low) | pairs << 4).reshape(*raw.shape[:-1], SUPER)
    scales = _joined(np.ascontiguousarray(raw[..., 192:208]).view("<u2").astype(np.uint32))
    return Blocks(FORMS["Q6_K"], _rows(numbers), scales, _words(raw[..., 208:], 2))


_READERS = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0}
_READERS |= {"Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k}
