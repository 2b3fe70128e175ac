# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's STFT and DFT as products with a matrix of cosines and sines, which is a constant of the network.

Source: the operators' text in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.nn.onnx import Domain, OpSetId


class SpectrumError(NotImplementedError):
    """A variant of the operators that is not computed."""


def stft(
    signal: Tensor,
    frame_step: Tensor | int,
    window: Tensor | None = None,
    frame_length: Tensor | int | None = None,
    onesided: int = 1,
) -> Tensor:
    """ONNX's STFT: [batch, samples, 1 or 2] -> [batch, frames, bins, 2]; a last dimension of 1 may be left out."""
    size = _number(frame_length) if window is None else window.shape[0]
    if size is None:
        raise SpectrumError("STFT without a window and without a length")
    parts = signal if signal.ndim == 3 else signal.unsqueeze(-1)
    frames = parts.unfold(1, size, _number(frame_step)).transpose(-1, -2)  # [batch, frames, size, 1 or 2]
    if window is not None:
        frames = frames * window.reshape(size, 1)
    return _transformed(frames, size, bool(onesided), inverse=False)


def _dft(x: Tensor, dft_length: Tensor | int | None, axis: int, inverse: int, onesided: int) -> Tensor:
    moved = x.transpose(axis, -2)
    half = inverse and onesided
    found = (moved.shape[-2] - 1) * 2 if half else moved.shape[-2]
    size = found if dft_length is None else _number(dft_length)
    taken = size // 2 + 1 if half else size
    outer = (None,) * (x.ndim - 2)
    missing = max(taken - moved.shape[-2], 0)
    fit = moved.pad((*outer, (0, missing), None)).shrink((*outer, (0, taken), None))
    if half:
        return _real(fit, size).transpose(axis, -2)
    return _transformed(fit, size, bool(onesided), bool(inverse)).transpose(axis, -2)


def _dft17(
    x: Tensor, dft_length: Tensor | int | None = None, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _dft(x, dft_length, axis, inverse, onesided)


def _dft20(
    x: Tensor,
    dft_length: Tensor | int | None = None,
    axis: Tensor | int = -2,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    return _dft(x, dft_length, _number(axis), inverse, onesided)


OPERATORS: dict[str, Any] = {
    "STFT": stft,
    "DFT": {OpSetId(Domain.ONNX, 17): _dft17, OpSetId(Domain.ONNX, 20): _dft20},  # where the axis is an input
}


def _real(x: Tensor, size: int) -> Tensor:
    """[.., bins, 2], half of a spectrum -> [.., size, 1], real values; the other half are its conjugates."""
    bins = size // 2 + 1
    angle = 2 * np.pi / size * (np.outer(np.arange(bins), np.arange(size)) % size)
    twice = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == size), 1, 2)[:, None] / size
    matrix = np.stack([twice * np.cos(angle), -twice * np.sin(angle)], 1).reshape(2 * bins, size)
    flat = x.reshape(*x.shape[:-2], 2 * bins) @ Tensor(matrix.astype(np.float32)).realize()
    return flat.unsqueeze(-1)


def _number(value: Any) -> Any:
    return int(value.item()) if isinstance(value, Tensor) else value


def _transformed(x: Tensor, size: int, onesided: bool, inverse: bool) -> Tensor:
    """[.., size, 1 or 2] -> [.., bins, 2]; real and imaginary parts are the last dimension."""
    parts = x.shape[-1]
    bins = size // 2 + 1 if onesided else size
    # Modulo the size before it is an angle, so that large products are as exact as small ones.
    angle = 2 * np.pi / size * (np.outer(np.arange(size), np.arange(bins)) % size)
    turn = np.exp((1j if inverse else -1j) * angle) / (size if inverse else 1)
    of_real, of_imaginary = (np.stack([value.real, value.imag], -1) for value in (turn, 1j * turn))
    matrix = np.stack([of_real, of_imaginary][:parts], 1).reshape(size * parts, bins * 2).astype(np.float32)
    flat = x.reshape(*x.shape[:-2], size * parts) @ Tensor(matrix).realize()
    return flat.reshape(*x.shape[:-2], bins, 2)
