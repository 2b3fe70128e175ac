# SPDX-License-Identifier: BSD-2-Clause
"""Bytes that lie in pages: which ones, and which part of them in each."""

from __future__ import annotations

from collections.abc import Iterator

from trace_format.schema import PAGE_BYTES


def pages_of(start: int, size: int) -> range:
    """Numbers of the pages that `size` bytes at `start` lie in; there is at least one byte."""
    return range(start // PAGE_BYTES, (start + size - 1) // PAGE_BYTES + 1)


def pieces(start: int, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Cuts `size` bytes at `start` at page boundaries: number of the page, where in it, where in the bytes."""
    done = 0
    while done < size:
        page, inside = divmod(start + done, PAGE_BYTES)
        here = min(size - done, PAGE_BYTES - inside)
        yield page, slice(inside, inside + here), slice(done, done + here)
        done += here
