# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's convolutions, products, norms and attention, as ONNX. Argument names as in arithmetic.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from host_tools.extras.pytorch.graph import aten, each
from host_tools.record.onnx_graph import Graph, Name, Number, Tensor
from host_tools.record.preflight import NetworkError

Sizes = int | Sequence[int]


def _convolution(
    g: Graph,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    output_padding: Sizes = 0,
    transposed: bool = False,
) -> Name:
    spatial = len(weight.shape) - 2
    kernel = list(weight.shape[2:])
    steps, apart = each(stride, spatial), each(dilation, spatial)
    if isinstance(padding, str):
        around = [at * (size - 1) if padding == "same" else 0 for at, size in zip(apart, kernel, strict=True)]
        pads = [at // 2 for at in around] + [at - at // 2 for at in around]
    else:
        pads = each(padding, spatial) * 2
    batched = len(x.shape) == spatial + 2
    inner = x.name if batched else g.reshaped(x.name, (1, *x.shape))
    made = g.node(
        "ConvTranspose" if transposed else "Conv",
        inner,
        weight.name,
        *([bias.name] if bias else []),
        kernel_shape=kernel,
        strides=steps,
        dilations=apart,
        group=groups,
        pads=pads,
        output_padding=each(output_padding, spatial) if transposed else None,
    )
    return made if batched else g.reshaped(made, g.results[0].shape)


aten("conv1d", "conv2d", "conv3d", "convolution")(_convolution)
aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")(partial(_convolution, transposed=True))


@aten("linear")
def linear(g: Graph, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Name:
    if len(x.shape) == 2:
        return g.node("Gemm", x.name, weight.name, *([bias.name] if bias else []), transB=1)
    made = g.node("MatMul", x.name, g.node("Transpose", weight.name, perm=[1, 0]))
    return g.node("Add", made, bias.name) if bias else made


@aten("matmul", "mm", "bmm", "mv", "dot")
def _matmul(
    g: Graph, x: Tensor, other: Tensor | None = None, mat2: Tensor | None = None, tensor: Tensor | None = None,
    vec: Tensor | None = None,
) -> Name:  # fmt: skip
    second = next(value for value in (other, mat2, tensor, vec) if value is not None)
    return g.node("MatMul", x.name, second.name)


@aten("addmm", "baddbmm")
def _addmm(
    g: Graph,
    x: Tensor,
    mat1: Tensor | None = None,
    mat2: Tensor | None = None,
    batch1: Tensor | None = None,
    batch2: Tensor | None = None,
    beta: Number = 1,
    alpha: Number = 1,
) -> Name:
    first, second = mat1 or batch1, mat2 or batch2
    assert first is not None
    assert second is not None
    product = g.node("MatMul", first.name, second.name)
    scaled = product if alpha == 1 else g.binary("Mul", product, alpha)
    return g.binary("Add", scaled, x.name if beta == 1 else g.binary("Mul", x, beta))


@aten("einsum")
def _einsum(g: Graph, equation: str, tensors: Sequence[Tensor], path: Any = None) -> Name:
    return g.node("Einsum", *(tensor.name for tensor in tensors), equation=equation)


@aten("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(
    g: Graph,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Name:
    if training or running_mean is None or running_var is None:
        raise NetworkError("batch norm with the statistics of the batch: export the network in eval()")
    ones = np.ones(x.shape[1], x.dtype)
    scale = weight.name if weight else g.constant(ones)
    shift = bias.name if bias else g.constant(ones * 0)
    made = g.node("BatchNormalization", x.name, scale, shift, running_mean.name, running_var.name, epsilon=eps)
    return made


@aten("layer_norm", "native_layer_norm")
def _layer_norm(
    g: Graph,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Name:
    scale = weight.name if weight else g.constant(np.ones(normalized_shape, x.dtype))
    given = [x.name, scale, *([bias.name] if bias else [])]
    made = g.node("LayerNormalization", *given, axis=len(x.shape) - len(normalized_shape), epsilon=eps)
    return made


@aten("rms_norm")
def _rms_norm(
    g: Graph, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Name:
    axes = list(range(len(x.shape) - len(normalized_shape), len(x.shape)))
    least = g.constant(np.array(np.finfo(x.dtype).eps if eps is None else eps, x.dtype))
    mean = g.node("ReduceMean", g.node("Mul", x.name, x.name), axes=axes, keepdims=1)
    made = g.node("Div", x.name, g.node("Sqrt", g.node("Add", mean, least)))
    return g.node("Mul", made, weight.name) if weight else made


@aten("instance_norm")
def _instance_norm(
    g: Graph,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Name:
    if not use_input_stats:
        return _batch_norm(g, x, weight, bias, running_mean, running_var, eps=eps)
    ones = np.ones(x.shape[1], x.dtype)
    scale = weight.name if weight else g.constant(ones)
    return g.node("InstanceNormalization", x.name, scale, bias.name if bias else g.constant(ones * 0), epsilon=eps)


@aten("group_norm")
def _group_norm(
    g: Graph,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Name:
    ones = np.ones(num_groups, x.dtype)
    grouped = g.reshaped(x.name, [x.shape[0], num_groups, -1])
    made = g.node("InstanceNormalization", grouped, g.constant(ones), g.constant(ones * 0), epsilon=eps)
    made = g.reshaped(made, x.shape)
    shape = [-1] + [1] * (len(x.shape) - 2)
    if weight:
        made = g.node("Mul", made, g.reshaped(weight.name, shape))
    return g.node("Add", made, g.reshaped(bias.name, shape)) if bias else made


@aten("scaled_dot_product_attention")
def _attention(
    g: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Name:
    if dropout_p:
        raise NetworkError("attention with dropout: export the network in eval()")
    keys, values = key.name, value.name
    rank, dtype = len(key.shape), query.dtype
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        heads = g.constant(np.arange(key.shape[-3]).repeat(query.shape[-3] // key.shape[-3]))
        keys, values = (g.node("Gather", name, heads, axis=rank - 3) for name in (keys, values))
    turned = g.node("Transpose", keys, perm=[*range(rank - 2), rank - 1, rank - 2])
    by = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = g.node("MatMul", g.binary("Mul", query, by), turned)
    least = np.finfo(dtype).min
    hidden = np.zeros(())
    if is_causal:
        hidden = np.where(np.tri(query.shape[-2], key.shape[-2], dtype=bool), 0, least)
        scores = g.node("Add", scores, g.constant(hidden.astype(dtype)))
    if attn_mask is not None and attn_mask.dtype == "bool":
        scores = g.node("Where", attn_mask.name, scores, g.constant(np.array(least, dtype)))
    elif attn_mask is not None:
        scores = g.node("Add", scores, attn_mask.name)
    return g.node("MatMul", g.node("Softmax", scores, axis=-1), values)
