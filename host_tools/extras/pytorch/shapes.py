# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's operators that arrange, choose and make elements, as ONNX. Argument names as in arithmetic.py.

All shapes are known, so that most of what only changes a shape is a Reshape to the one that the program has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from host_tools.extras.pytorch.graph import aten, axes_of, axis_of, each
from host_tools.extras.pytorch.program import Dtype
from host_tools.record.onnx_graph import Graph, Name, Number, Tensor
from host_tools.record.preflight import NetworkError


@aten("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as")
def _reshape(g: Graph, x: Tensor, **shape: Any) -> Name:
    if isinstance(shape.get("dtype"), Dtype):
        raise NetworkError("view with another type")
    return g.reshaped(x.name, g.results[0].shape)


@aten(
    "alias", "detach", "contiguous", "clone", "dropout", "feature_dropout", "lift_fresh_copy", "lift", "_to_copy"
)
@aten("to", "type_as", "float", "positive", "alpha_dropout", "resolve_conj", "resolve_neg")
def _same(g: Graph, x: Tensor, other: Tensor | None = None, p: float = 0.0, train: bool = False, **_: Any) -> Name:
    if train and p:
        raise NetworkError("dropout of a training step: export the network in eval()")
    return g.of(x, g.results[0].dtype)


@aten("permute")
def _permute(g: Graph, x: Tensor, dims: Sequence[int]) -> Name:
    return g.node("Transpose", x.name, perm=[axis_of(dim, len(x.shape)) for dim in dims])


@aten("transpose", "swapdims")
def _transpose(g: Graph, x: Tensor, dim0: int, dim1: int) -> Name:
    order = list(range(len(x.shape)))
    a, b = axis_of(dim0, len(order)), axis_of(dim1, len(order))
    if order:
        order[a], order[b] = b, a
    return g.node("Transpose", x.name, perm=order)


@aten("swapaxes")
def _swapaxes(g: Graph, x: Tensor, axis0: int, axis1: int) -> Name:
    return _transpose(g, x, axis0, axis1)


@aten("t", "numpy_T", "mT")
def _t(g: Graph, x: Tensor) -> Name:
    order = list(range(len(x.shape)))
    return g.node("Transpose", x.name, perm=[*order[:-2], *reversed(order[-2:])])


@aten("movedim")
def _movedim(g: Graph, x: Tensor, source: Any, destination: Any) -> Name:
    rank = len(x.shape)
    moved = [axis_of(at, rank) for at in ([source] if isinstance(source, int) else source)]
    places = [axis_of(at, rank) for at in ([destination] if isinstance(destination, int) else destination)]
    left = iter(axis for axis in range(rank) if axis not in moved)
    to = dict(zip(places, moved, strict=True))
    return g.node("Transpose", x.name, perm=[to[at] if at in to else next(left) for at in range(rank)])


@aten("expand", "expand_as", "broadcast_to")
def _expand(g: Graph, x: Tensor, **_: Any) -> Name:
    return g.node("Expand", x.name, g.constant(g.results[0].shape))


@aten("copy")
def _copy(g: Graph, x: Tensor, src: Tensor, non_blocking: bool = False) -> Name:
    return g.node("Expand", g.of(src, x.dtype), g.constant(x.shape))


@aten("repeat", "tile")
def _repeat(g: Graph, x: Tensor, repeats: Sequence[int] = (), dims: Sequence[int] = ()) -> Name:
    times = list(repeats or dims)
    rank = max(len(times), len(x.shape))
    times = [1] * (rank - len(times)) + times
    shaped = g.reshaped(x.name, (1,) * (rank - len(x.shape)) + x.shape)
    return g.node("Tile", shaped, g.constant(times))


@aten("repeat_interleave")
def _repeat_interleave(
    g: Graph, x: Tensor, repeats: int | Tensor, dim: int | None = None, output_size: int | None = None
) -> Name:
    if isinstance(repeats, Tensor):
        raise NetworkError("repeat_interleave by a tensor")
    axis = axis_of(dim, len(x.shape)) if dim is not None else 0
    size = x.shape[axis] if dim is not None else int(np.prod(x.shape))
    whole = x.name if dim is not None else g.reshaped(x.name, [size])
    return g.node("Gather", whole, g.constant(np.arange(size).repeat(repeats)), axis=axis)


@aten("cat", "concat", "concatenate")
def _cat(g: Graph, tensors: Sequence[Tensor], dim: int = 0) -> Name:
    dtype, rank = g.results[0].dtype, len(g.results[0].shape)
    some = [tensor for tensor in tensors if tensor.shape != (0,)]  # which PyTorch lets stand for nothing
    return g.node("Concat", *(g.of(tensor, dtype) for tensor in some), axis=axis_of(dim, rank))


@aten("stack")
def _stack(g: Graph, tensors: Sequence[Tensor], dim: int = 0) -> Name:
    shape = g.results[0].shape
    axis = axis_of(dim, len(shape))
    wide = [
        g.reshaped(g.of(tensor, g.results[0].dtype), (*shape[:axis], 1, *shape[axis + 1 :])) for tensor in tensors
    ]
    return g.node("Concat", *wide, axis=axis)


@aten("chunk", "split", "split_with_sizes", "tensor_split")
def _split(g: Graph, x: Tensor, dim: int = 0, **_: Any) -> list[Name]:
    axis = axis_of(dim, len(x.shape))
    sizes = g.constant([tensor.shape[axis] for tensor in g.results])
    return g.nodes_of("Split", len(g.results), x.name, sizes, axis=axis)


@aten("unbind")
def _unbind(g: Graph, x: Tensor, dim: int = 0) -> list[Name]:
    return [_select(g, x, dim, at) for at in range(x.shape[axis_of(dim, len(x.shape))])]


@aten("select")
def _select(g: Graph, x: Tensor, dim: int, index: int) -> Name:
    axis = axis_of(dim, len(x.shape))
    return g.node("Gather", x.name, g.constant(np.array(index % x.shape[axis])), axis=axis)


@aten("slice", "narrow")
def slice_of(
    g: Graph,
    x: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    length: int | None = None,
) -> Name:
    axis = axis_of(dim, len(x.shape))
    size = x.shape[axis]
    first, last, _ = slice(start, end).indices(size)
    if length is not None:
        last = first + length
    return g.node("Slice", x.name, *(g.constant([at]) for at in (first, max(last, first), axis, step)))


@aten("index_select")
def _index_select(g: Graph, x: Tensor, dim: int, index: Tensor) -> Name:
    return g.node("Gather", x.name, index.name, axis=axis_of(dim, len(x.shape)))


@aten("gather")
def _gather(g: Graph, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Name:
    if index.shape == () or x.shape == ():
        raise NetworkError("gather of a tensor without dimensions")
    return g.node("GatherElements", x.name, index.name, axis=axis_of(dim, len(x.shape)))


@aten("index")
def _index(g: Graph, x: Tensor, indices: Sequence[Tensor | None]) -> Name:
    """x[a, :, b]: the indexed axes first, then gathered together."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in ("bool", "uint8") for index in given):
        raise NetworkError("an index by a mask, whose result has a size that is known when it runs only")
    if len(given) == 1:
        return g.node("Gather", x.name, given[0].name, axis=axes[0])
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    shape = np.broadcast_shapes(*(index.shape for index in given))
    wide = [g.node("Expand", g.of(index, "int64"), g.constant(shape)) for index in given]
    last = g.node("Concat", *(g.reshaped(name, (*shape, 1)) for name in wide), axis=len(shape))
    first = g.node("Transpose", x.name, perm=[*axes, *others])
    made = g.node("GatherND", first, last)
    before = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    order = list(range(len(shape), len(shape) + len(others)))
    perm = [*order[:before], *range(len(shape)), *order[before:]]
    return g.node("Transpose", made, perm=perm) if perm != sorted(perm) else made


@aten("scatter")
def _scatter(g: Graph, x: Tensor, dim: int, index: Tensor, src: Tensor | None = None, value: Number = 0) -> Name:
    if src is not None and src.shape != index.shape:
        raise NetworkError("scatter of a part of its source")
    new = src.name if src is not None else g.constant(np.full(index.shape, value, x.dtype))
    return g.node("ScatterElements", x.name, index.name, new, axis=axis_of(dim, len(x.shape)))


@aten("select_scatter", "slice_scatter")
def _written(
    g: Graph,
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    index: int | None = None,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Name:
    """x with a part that is another's: the part's rows are scattered along their axis."""
    axis = axis_of(dim, len(x.shape))
    size = x.shape[axis]
    rows = np.arange(size)[start:end:step] if index is None else np.array([index % size])
    shape = (*x.shape[:axis], len(rows), *x.shape[axis + 1 :])
    places = np.broadcast_to(rows.reshape([-1] + [1] * (len(shape) - axis - 1)), shape)
    new = g.node("Expand", g.of(src, x.dtype), g.constant(src.shape)) if index is None else src.name
    return g.node("ScatterElements", x.name, g.constant(places), g.reshaped(new, shape), axis=axis)


@aten("embedding")
def _embedding(
    g: Graph,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Name:
    return g.node("Gather", weight.name, indices.name)


@aten("pad", "constant_pad_nd")
def _pad(g: Graph, x: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Name:
    rank = len(x.shape)
    if mode == "circular":
        return _circular(g, x, pad)
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    before, after = [0] * rank, [0] * rank
    for at in range(len(pad) // 2):
        before[rank - 1 - at], after[rank - 1 - at] = pad[2 * at], pad[2 * at + 1]
    fill = g.constant(np.array(value or 0, x.dtype)) if mode == "constant" else None
    return g.node("Pad", x.name, g.constant([*before, *after]), *([fill] if fill else []), mode=kinds[mode])


def _circular(g: Graph, x: Tensor, pad: Sequence[int]) -> Name:
    made = x.name
    for at in range(len(pad) // 2):
        axis = len(x.shape) - 1 - at
        rows = np.arange(-pad[2 * at], x.shape[axis] + pad[2 * at + 1]) % x.shape[axis]
        made = g.node("Gather", made, g.constant(rows), axis=axis)
    return made


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflect(g: Graph, x: Tensor, padding: Sequence[int]) -> Name:
    return _pad(g, x, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replicate(g: Graph, x: Tensor, padding: Sequence[int]) -> Name:
    return _pad(g, x, padding, "replicate")


@aten("roll")
def _roll(g: Graph, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Name:
    if not dims:
        flat = int(np.prod(x.shape))
        rows = (np.arange(flat) - each(shifts, 1)[0]) % flat
        return g.reshaped(g.node("Gather", g.reshaped(x.name, [flat]), g.constant(rows)), x.shape)
    made = x.name
    for shift, dim in zip(each(shifts, len(dims)), dims, strict=True):
        axis = axis_of(dim, len(x.shape))
        rows = (np.arange(x.shape[axis]) - shift) % x.shape[axis]
        made = g.node("Gather", made, g.constant(rows), axis=axis)
    return made


@aten("flip")
def _flip(g: Graph, x: Tensor, dims: Sequence[int]) -> Name:
    axes = axes_of(dims, len(x.shape))
    steps = ([-1] * len(axes), [-x.shape[axis] - 1 for axis in axes], axes, [-1] * len(axes))
    return g.node("Slice", x.name, *map(g.constant, steps))


@aten("pixel_shuffle")
def _pixel_shuffle(g: Graph, x: Tensor, upscale_factor: int) -> Name:
    return g.node("DepthToSpace", x.name, blocksize=upscale_factor, mode="CRD")


@aten("pixel_unshuffle")
def _pixel_unshuffle(g: Graph, x: Tensor, downscale_factor: int) -> Name:
    *outer, channels, height, width = x.shape
    by = downscale_factor
    parts = g.reshaped(x.name, [*outer, channels, height // by, by, width // by, by])
    lead = list(range(len(outer)))
    order = [*lead, *(len(outer) + at for at in (0, 2, 4, 1, 3))]
    return g.reshaped(g.node("Transpose", parts, perm=order), g.results[0].shape)


@aten("channel_shuffle")
def _channel_shuffle(g: Graph, x: Tensor, groups: int) -> Name:
    first, channels, *size = x.shape
    parts = g.reshaped(x.name, [first, groups, channels // groups, *size])
    order = [0, 2, 1, *range(3, 3 + len(size))]
    return g.reshaped(g.node("Transpose", parts, perm=order), x.shape)


def _triangle(upper: bool, g: Graph, x: Tensor, diagonal: int = 0) -> Name:
    kept = np.tri(x.shape[-2], x.shape[-1], diagonal - upper, dtype=bool) ^ upper
    zero = g.constant(np.zeros((), x.dtype))
    return g.node("Where", g.constant(kept), x.name, zero)


aten("tril")(partial(_triangle, False))
aten("triu")(partial(_triangle, True))


def _filled(constant: Number | None, g: Graph, /, **arguments: Any) -> Name:
    """A tensor all of whose elements are the same: those of a constant, or of an argument."""
    given = next((arguments[key] for key in FILLED_BY if key in arguments), 0) if constant is None else constant
    of, shape = g.results[0].dtype, g.results[0].shape
    if isinstance(given, Tensor):
        return g.node("Expand", g.of(given, of), g.constant(shape))
    return g.constant(np.full(shape, given, of))


FILLED_BY = ("fill_value", "value", "s")
aten("zeros", "zeros_like", "new_zeros", "zero")(partial(_filled, 0))
aten("ones", "ones_like", "new_ones")(partial(_filled, 1))
aten("full", "full_like", "new_full", "fill", "scalar_tensor")(partial(_filled, None))


@aten("arange")
def _arange(g: Graph, end: Number, start: Number = 0, step: Number = 1, **_: Any) -> Name:
    (count,), dtype = g.results[0].shape, g.results[0].dtype
    return g.constant((start + np.arange(count) * step).astype(dtype))


@aten("linspace")
def _linspace(g: Graph, start: Number, end: Number, steps: int, **_: Any) -> Name:
    return g.constant(np.linspace(start, end, steps).astype(g.results[0].dtype))


@aten("eye")
def _eye(g: Graph, n: int, m: int | None = None, **_: Any) -> Name:
    return g.constant(np.eye(n, m, dtype=g.results[0].dtype))


@aten("meshgrid")
def _meshgrid(g: Graph, tensors: Sequence[Tensor], indexing: str = "ij") -> list[Name]:
    made = []
    for at, (tensor, result) in enumerate(zip(tensors, g.results, strict=True)):
        axis = 1 - at if indexing == "xy" and at < 2 else at
        shape = [1] * len(result.shape)
        shape[axis] = -1
        made.append(g.node("Expand", g.reshaped(tensor.name, shape), g.constant(result.shape)))
    return made


@aten("one_hot")
def _one_hot(g: Graph, x: Tensor, num_classes: int = -1) -> Name:
    depth = g.constant([g.results[0].shape[-1]])
    return g.node("OneHot", x.name, depth, g.constant(np.array([0, 1], g.results[0].dtype)))
