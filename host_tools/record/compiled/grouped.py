# SPDX-License-Identifier: BSD-2-Clause
"""GroupQueryAttention: attention of a decoder, whose caches have a fixed length and are filled up to a place that
data say.

Source: ONNX Runtime's docs/ContribOperators.md; of what it leaves open,
contrib_ops/cpu/bert/group_query_attention.cc and gqa_attention_base.h.
"""

from __future__ import annotations

import math

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import onnx_ops

from host_tools.record.compiled.attention import attention


def grouped(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    *,
    total: int,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    local_window_size: int = -1,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator's inputs without total_sequence_length, which is `total`, the longest of the batch.

    Returns:
        output [batch, queries, heads * size], present_key, present_value.
    """
    batch, queries = int(query.shape[0]), int(query.shape[1])
    if key is None or value is None:
        size = int(query.shape[2]) // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split([num_heads * size, kv_num_heads * size, kv_num_heads * size], dim=-1)
    # A whole text at once begins at 0, however long each of the batch is.
    is_first = queries == total
    ends = seqlens_k.cast(dtypes.int32).reshape(-1, 1) + 1
    begin = Tensor.zeros(batch, 1, dtype=dtypes.int32) if is_first else ends - queries
    if do_rotary:
        if position_ids is None:
            position_ids = begin + Tensor.arange(queries, dtype=dtypes.int32).reshape(1, -1)
        turn = onnx_ops["RotaryEmbedding"]
        query, key = (
            turn(x, cos_cache, sin_cache, position_ids, interleaved=rotary_interleaved, num_heads=heads)
            for x, heads in ((query, num_heads), (key, kv_num_heads))
        )
    presents = [
        _placed(_heads(new, kv_num_heads), past, begin, total, is_first)
        for new, past in ((key, past_key), (value, past_value))
    ]
    mask = attention_bias
    if is_first:  # else the lengths say as much
        in_text = Tensor.arange(total).reshape(1, 1, 1, total) < ends.reshape(-1, 1, 1, 1)
        mask = in_text if mask is None else in_text.where(mask, -math.inf)
    made, *_ = attention(
        _heads(query, num_heads),
        presents[0],
        presents[1],
        attn_mask=mask,
        nonpad_kv_seqlen=None if is_first else ends,
        is_causal=1,
        scale=scale or None,
        softcap=softcap,
        left_window_size=local_window_size - 1 if local_window_size > 0 else -1,
    )
    return made.permute(0, 2, 1, 3).flatten(2), presents[0], presents[1]


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def _placed(new: Tensor, past: Tensor | None, begin: Tensor, total: int, is_first: bool) -> Tensor:
    """A cache with what is new in it, from a row on that data say; behind that it has zeros."""
    queries = int(new.shape[2])
    rows = max(total, int(past.shape[2]) if past is not None else 0)
    if is_first or past is None:
        return new.pad((None, None, (0, rows - queries), None))
    at = Tensor.arange(rows, dtype=dtypes.int32).reshape(1, 1, rows, 1)
    start = begin.reshape(-1, 1, 1, 1)
    made = (at < start).where(past.pad((None, None, (0, rows - int(past.shape[2])), None)), 0)
    for number in range(queries):
        made = (at == start + number).where(new[:, :, number : number + 1], made)
    return made


OPERATORS = {"GroupQueryAttention": grouped}
