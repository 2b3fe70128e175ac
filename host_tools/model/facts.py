# SPDX-License-Identifier: BSD-2-Clause
"""A trace's name and slots as commands print them. Options' help is shown with this module loaded, so it loads
no NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType

from host_tools.support.results import Count, Result, one_of
from trace_format.schema import STRUCTURES, SlotKind

NAME_BYTES = next(item.sizeof() for item in STRUCTURES["manifest"][0].subcons if item.name == "name")


class SlotFacts(Result, kw_only=True):
    """A slot.

    Attributes:
        strides: In bytes.
        address: GPU address.
        bound: Whether the trace holds a value for it.
    """

    name: str
    kind: Annotated[str, one_of(*(kind.name.lower() for kind in SlotKind))]
    dtype: str
    shape: Sequence[Count]
    strides: Sequence[int] | UnsetType = UNSET
    address: Count | UnsetType = UNSET
    bound: bool


def default_name(text: str) -> str:
    """As much of a file's name as fits into the manifest."""
    return text.encode(errors="replace")[:NAME_BYTES].decode(errors="ignore")
