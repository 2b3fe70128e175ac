# SPDX-License-Identifier: BSD-2-Clause
"""Actions that fill memory page by page, read as few that fill much: recorders make one a page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from host_tools.model.frames import Mask
from trace_format.actions import Action, Actions, Columns, Op


def joined(rows: Actions, at: NDArray[np.int64], joins: Mask) -> Iterator[tuple[int, Action]]:
    """Some actions, an UPLOAD or a CLEAR and those that go on where it ends as one.

    Args:
        rows: actions.
        at: which of them, ascending.
        joins: of each of these, whether it may become one with what is before it.

    Yields:
        Which action it is, of several the first, and what it says; a size may be larger than an action can say.
    """
    columns = Columns(rows[at])
    uploads, clears = columns.is_op(Op.UPLOAD), columns.is_op(Op.CLEAR)
    ends = columns.target + columns.bytes
    goes_on = np.zeros(len(at), np.bool_)
    goes_on[1:] = joins[1:] & (columns.target[1:] == ends[:-1]) & (columns.flags[1:] == columns.flags[:-1])
    follows = columns.source[1:] == (columns.source + columns.bytes)[:-1]
    goes_on[1:] &= clears[1:] & clears[:-1] | uploads[1:] & uploads[:-1] & follows
    first = np.flatnonzero(~goes_on)
    sizes = np.add.reduceat(columns.bytes, first) if len(first) else first
    fills = (uploads | clears)[first].tolist()
    for index, row, size, fill in zip(
        at[first].tolist(), columns.rows[first].tolist(), sizes.tolist(), fills, strict=True
    ):
        yield index, Action._make(row)._replace(**{"value": size} if fill else {})
