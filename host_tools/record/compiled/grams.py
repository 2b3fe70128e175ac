# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's TfIdfVectorizer of whole numbers: how often each n-gram of a pool is in a row.

Source: the operator's text in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes


class GramsError(NotImplementedError):
    """A variant of the operator that is not computed."""


def tf_idf(
    X: Tensor,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    weights: Any = None,
    **_: Any,
) -> Tensor:
    """TfIdfVectorizer: [C] or [N, C] -> [columns] or [N, columns]."""
    if pool_int64s is None or weights:
        raise GramsError("TfIdfVectorizer of texts or with weights")
    rows = X.reshape(1, -1) if X.ndim == 1 else X
    width, first = rows.shape[1], 0
    made = Tensor.zeros(rows.shape[0], max(ngram_indexes) + 1)
    for at, begin in enumerate(ngram_counts):
        length = at + 1
        end = ngram_counts[length] if length < len(ngram_counts) else len(pool_int64s)
        grams = np.array(pool_int64s[begin:end], np.int32).reshape(-1, length)
        columns = ngram_indexes[first : first + len(grams)]
        first += len(grams)
        if not (len(grams) and min_gram_length <= length <= max_gram_length):
            continue
        into = np.zeros((len(grams), made.shape[1]), np.float32)
        into[np.arange(len(grams)), columns] = 1
        for apart in range(1, max_skip_count + 2 if length > 1 else 2):
            places = width - apart * (length - 1)
            if places > 0:
                hits = Tensor.ones(1, 1, 1, dtype=dtypes.bool)
                for k in range(length):
                    of = Tensor(grams[:, k : k + 1].copy()).realize().cast(rows.dtype)
                    hits = hits & (rows[:, k * apart : k * apart + places].unsqueeze(1) == of)
                made = made + hits.sum(2).cast(dtypes.float32) @ Tensor(into).realize()
    if mode == "IDF":
        made = (made > 0).cast(dtypes.float32)
    return made.reshape(-1) if X.ndim == 1 else made


OPERATORS = {"TfIdfVectorizer": tf_idf}
