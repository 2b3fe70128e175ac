# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's Attention: heads that share keys, masks, caches of keys and values, windows.

Source: the operator's text in ONNX's documentation, docs/Operators.md, version 25 of its operator set.
"""

from __future__ import annotations

import math

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxDataType

AFTER_CAP, AFTER_MASK, AFTER_SOFTMAX = 1, 2, 3  # what the fourth output is; 0: the product itself


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The names and shapes of the operator's inputs; (Y, present_key, present_value, qk_matmul_output)."""
    joined = Q.ndim == 3  # [batch, length, heads * size] in place of [batch, heads, length, size]
    if joined:
        Q, K, V = _heads(Q, q_num_heads), _heads(K, kv_num_heads), _heads(V, kv_num_heads)
    past = int(past_key.shape[2]) if past_key is not None else 0
    if past_key is not None and past_value is not None:
        K, V = past_key.cat(K, dim=2), past_value.cat(V, dim=2)
    keys, values, share = K, V, int(Q.shape[1]) // int(K.shape[1])
    if share > 1:
        K, V = K.repeat_interleave(share, dim=1), V.repeat_interleave(share, dim=1)
    root = math.sqrt(scale if scale is not None else 1 / math.sqrt(int(Q.shape[-1])))
    product = (Q * root) @ (K * root).transpose(-1, -2)
    capped = (product / softcap).tanh() * softcap if softcap > 0 else product

    masked, seen = capped, _seen(Q, K, past, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    if attn_mask is not None:
        missing = int(K.shape[2]) - int(attn_mask.shape[-1])
        truth = attn_mask.dtype == dtypes.bool
        mask = attn_mask.pad((*(None,) * (attn_mask.ndim - 1), (0, missing)), value=False if truth else -math.inf)
        seen = seen & (mask if truth else mask > -math.inf)
        masked = masked if truth else masked + mask
    # Kernels of their own: inside of each of the softmax's they take long to compile.
    seen = seen.contiguous()
    masked = seen.where(masked, -math.inf).contiguous()
    # A query that sees no key gets zeros, not what 0 / 0 is.
    some = seen.max(axis=-1, keepdim=True)
    scores = some.where(masked, 0)
    if softmax_precision:
        scores = scores.cast(OnnxDataType(softmax_precision).to_dtype())
    shares = some.where(scores.softmax(-1), 0).cast(Q.dtype)
    result = (shares @ V).cast(Q.dtype)
    if joined:
        result = result.permute(0, 2, 1, 3).flatten(2)
    other = {AFTER_CAP: capped, AFTER_MASK: masked, AFTER_SOFTMAX: shares}.get(qk_matmul_output_mode, product)
    return result, keys, values, other


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def _seen(
    query: Tensor, key: Tensor, past: int, lengths: Tensor | None, causal: int, left: int, right: int
) -> Tensor:
    """Which keys a query may see but for the given mask, [batch or 1, 1, queries, keys]."""
    queries, keys = int(query.shape[2]), int(key.shape[2])
    at = Tensor.arange(keys).reshape(1, 1, 1, keys)
    place = Tensor.arange(queries).reshape(1, 1, queries, 1) + past
    found = Tensor.ones(1, 1, queries, keys, dtype=dtypes.bool)
    if lengths is not None:
        ends = lengths.cast(dtypes.int32).reshape(-1, 1, 1, 1)
        place = place + ends - queries
        found = found & (at < ends)
    if causal:
        found = found & (at <= place)
    if left >= 0:
        found = found & (place - at <= left)
    if right >= 0:
        found = found & (at - place <= right)
    return found
