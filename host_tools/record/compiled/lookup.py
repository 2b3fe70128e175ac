# SPDX-License-Identifier: BSD-2-Clause
"""Trees as a look-up: all trees of all rows go down side by side, and no thread branches.

Not in here: how a file's trees become these tables (`rewriting/forests.py`).
"""

from __future__ import annotations

from tinygrad import Tensor, dtypes

from host_tools.record.rewriting.forests import ABOVE, BELOW, BITS, EQUAL, NO_NUMBER

TOGETHER = 4  # levels of a kernel: each one's loads wait for the level above
INFINITY = 0x7F800000  # bits of a float32 that is no number are above


def tree_votes(
    x: Tensor, words: Tensor, thresholds: Tensor, children: Tensor, roots: Tensor, weights: Tensor, levels: int
) -> Tensor:
    """What the leaf says that each tree ends at, for each row.

    Args:
        x: rows of float32.
        words, thresholds, children, roots: as `Forest`, the children of a node one behind the other.
        weights: of each node: a few numbers.
        levels: as `Forest`.

    Returns:
        Those numbers, of shape [rows, trees, numbers].
    """
    rows, columns = (1, *x.shape)[-2:]
    values, trees = x.reshape(-1), int(roots.shape[0])
    first = (Tensor.arange(rows, dtype=dtypes.int32) * columns).reshape(rows, 1).expand(rows, trees)
    node = roots.reshape(1, trees).expand(rows, trees)
    for level in range(levels):
        word, bound = words[node], thresholds[node]
        value = values[first + word // (1 << BITS)]
        is_true = (_asks(word, BELOW) & (value < bound)) | (_asks(word, EQUAL) & (value == bound))
        is_true = (
            is_true | (_asks(word, ABOVE) & (value > bound)) | (_asks(word, NO_NUMBER) & _is_no_number(value))
        )
        node = children[node * 2 + is_true.where(0, 1)]
        if level % TOGETHER == TOGETHER - 1:
            node = node.contiguous()
    # It has memory, or a sum over trees would look at all nodes.
    return weights[node.contiguous()].contiguous()


def _asks(word: Tensor, bit: int) -> Tensor:
    return word.bitwise_and(bit) != 0


def _is_no_number(value: Tensor) -> Tensor:
    """By its bits: a driver may take a comparison with itself for true."""
    return value.bitcast(dtypes.int32).bitwise_and(0x7FFFFFFF) > INFINITY


OPERATORS = {"TreeVotes": tree_votes}  # no operator of ONNX's: rewriting/trees.py
