# SPDX-License-Identifier: BSD-2-Clause
"""What a GPU does to memory without a shader, as lists of commands have it copied and filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_format.actions import Action
from trace_format.profile import Profile


class UnknownListError(ValueError):
    """A list stores something to memory that is not one transfer; says what."""


@dataclass(frozen=True)
class Transfer:
    """A run of bytes is written.

    Attributes:
        target: GPU address.
        size: in bytes.
        item: bytes that are moved at once: 1, 2 or 4; size and addresses are multiples of it.
        source: GPU address of the bytes; None: they are `color`, again and again.
        color: four bytes, the first the lowest.
    """

    target: int
    size: int
    item: int
    source: int | None = None
    color: int = 0

    def __str__(self) -> str:
        what = f"fill with {self.color:#010x}" if self.source is None else f"copy from {self.source:#010x}"
        return f"{what} to {self.target:#010x}, {self.size} bytes in items of {self.item}"


@dataclass(frozen=True)
class Transfers:
    """How a family transfers memory by lists, and how compute jobs do the same.

    Attributes:
        of_list: the transfer of a list job that is started now, by the GPU, its kind, what has been written to a
            register, and a reader of memory (as `listing.Read`); None: it writes nothing; UnknownListError.
        memory: code, and what else jobs for these transfers read, as it must lie at a GPU address that is a
            multiple of a page's size.
        job: the register writes that start the job for transfer number so-and-so, where `memory` lies at an
            address: names and values.
        settle: actions after such a job, until memory holds what it wrote.
    """

    of_list: Callable[
        [Profile, str, Callable[[str], int], Callable[[int, int, int], bytes | None]], Transfer | None
    ]
    memory: Callable[[Profile, Sequence[Transfer], int], bytes]
    job: Callable[[Profile, Sequence[Transfer], int, int], list[tuple[str, int]]]
    settle: Callable[[Profile], list[Action]]
