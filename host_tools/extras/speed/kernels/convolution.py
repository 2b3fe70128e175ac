# SPDX-License-Identifier: BSD-2-Clause
"""Convolutions and what is beside them, with tensors laid out so that a search finds fast kernels.

A schedule cannot change how tensors lie in memory. What costs most in a V3D's kernels besides multiply-additions
is a load: an address, its request, and, at a picture's edges, five instructions more that choose between a value
and zero. So, before a search:

- Weights lie in blocks of which a load has four at once. They are constants, so that this costs a replay nothing.
- Pictures are padded by a kernel of their own, rows to multiples of four elements: no load has a condition, and
  neighbours are loaded together. A V3D loads four elements at once where their address divides by 16 bytes.
- What is joined, or padded for a pool, is computed first: tinygrad would compute all parts at each place, and
  choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor
from tinygrad.nn.onnx import onnx_ops
from tinygrad.uop.ops import Ops

from host_tools.record.compiled.pieces import joined

TOGETHER = 4  # elements of 32 bits that one load has


def _up(size: int) -> int:
    """The next multiple of what is loaded together."""
    return -(-size // TOGETHER) * TOGETHER


def _computed(x: Tensor) -> bool:
    """Whether a value needs sums that have no memory of their own."""
    known = (Ops.CONTIGUOUS, Ops.BUFFER)
    return any(op.op is Ops.REDUCE for op in x.uop.toposort(gate=lambda op: op.op not in known))


def _in_memory(x: Tensor) -> Tensor:
    """The same, with memory of its own if sums are in it: for this use and all later ones."""
    if _computed(x):
        x.replace(x.contiguous())
    return x


def _constant(x: Tensor) -> bool:
    return x.uop.base.op is Ops.BUFFER


def _in_blocks(weights: Tensor) -> Tensor:
    """The same weights in blocks of four inputs by all outputs.

    A load has four inputs of one output, whose products are summed up at once, so that few of them are live.
    Outputs lie side by side, so that lanes with neighbouring ones touch few lines, and those of different sets
    of a cache.
    """
    outputs, inputs, *window = map(int, weights.shape)
    rank, many = len(window), (_up(outputs), _up(inputs))
    whole = weights.pad(((0, many[0] - outputs), (0, many[1] - inputs), *[None] * rank))
    blocks = whole.reshape(many[0] // TOGETHER, TOGETHER, many[1] // TOGETHER, TOGETHER, *window)
    kept = blocks.permute(*range(4, 4 + rank), 2, 0, 1, 3).contiguous()
    back = kept.permute(rank + 1, rank + 2, rank, rank + 3, *range(rank))
    return back.reshape(*many, *window).shrink(((0, outputs), (0, inputs), *[None] * rank))


def _rows_apart(weights: Tensor) -> Tensor:
    """The same weights of a layer that sums over one channel: a row of the window can be loaded at once."""
    width, rank = int(weights.shape[-1]), weights.ndim
    if width > TOGETHER or weights[0, 0].numel() == width == 1:
        return weights
    wide = weights.pad((*[None] * (rank - 1), (0, TOGETHER - width))).contiguous()
    return wide.shrink((*[None] * (rank - 1), (0, width)))


def _padded(x: Tensor, pads: Sequence[int]) -> Tensor:
    """A picture with zeros around it, in memory; `pads` as ONNX has them."""
    rank = len(pads) // 2
    around = [[low, high] for low, high in zip(pads[:rank], pads[rank:], strict=True)]
    sizes = [int(size) + low + high for size, (low, high) in zip(x.shape[2:], around, strict=True)]
    around[-1][1] += _up(sizes[-1]) - sizes[-1]
    whole = x.pad((None, None, *map(tuple, around))).contiguous()
    return whole.shrink((None, None, *((0, size) for size in sizes)))


def conv(X: Tensor, W: Tensor, B: Tensor | None = None, **settings: Any) -> Tensor:
    """Conv."""
    X = _in_memory(X)
    rank, groups = X.ndim - 2, int(settings.get("group", 1))
    pads = settings.get("pads", 0)
    listed = [pads] * 2 * rank if isinstance(pads, int) else list(pads) * (2 * rank // max(len(pads), 1))
    if settings.get("auto_pad", "NOTSET") == "NOTSET" and any(listed) and min(listed) >= 0:
        X = _padded(X, listed)
        settings = {**settings, "pads": 0}
    if _constant(W):
        W = _in_blocks(W) if groups == 1 else _rows_apart(W) if int(W.shape[1]) == 1 else W
    made: Tensor = onnx_ops["Conv"](X, W, B, **settings)
    return made


def concat(*xs: Tensor, axis: int) -> Tensor:
    """Concat."""
    return joined([_in_memory(x) for x in xs], axis)


def _of_two(name: str) -> Callable[..., Tensor]:
    """An operation on two tensors, of which one has memory if both are sums: a kernel with two nests of loops has
    no schedule that suits both."""

    def made(A: Tensor, B: Tensor, **settings: Any) -> Tensor:
        if _computed(A) and _computed(B):
            _in_memory(B)
        found: Tensor = onnx_ops[name](A, B, **settings)
        return found

    return made


def max_pool(X: Tensor, **settings: Any) -> Any:
    """MaxPool. A kernel that computed a convolution and what a pool pads would have minus infinity among its
    results, and more conditions."""
    pads = settings.get("pads", 0)
    if settings.get("auto_pad", "NOTSET") != "NOTSET" or (pads if isinstance(pads, int) else any(pads)):
        X = _in_memory(X)
    return onnx_ops["MaxPool"](X, **settings)


OPERATORS = {
    "Conv": conv,
    "Concat": concat,
    **{name: _of_two(name) for name in ("Add", "Mul", "Sub")},
    "MaxPool": max_pool,
}
