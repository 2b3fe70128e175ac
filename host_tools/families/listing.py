# SPDX-License-Identifier: BSD-2-Clause
"""What a job says, for people: its descriptors field by field, its code instruction by instruction.

A family's `list_job` makes a `Listing` of the job that is started now, from what a trace has written to registers
and memory. Nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

# Bytes at a GPU address in an address space, zero where nothing is known; None: not mapped.
Read = Callable[[int, int, int], bytes | None]


@dataclass(frozen=True)
class Descriptor:
    """Something that describes a job.

    Attributes:
        what: its name.
        va: GPU address; -1: it lies in registers.
        size: in bytes.
        fields: by name, in their order.
    """

    what: str
    va: int
    size: int
    fields: dict[str, int | str]


@dataclass(frozen=True)
class Instruction:
    """An instruction of `size` bytes at a GPU address: `text` is it in words, or why it is none."""

    va: int
    size: int
    text: str


@dataclass
class Listing:
    """A job.

    Attributes:
        kind: what it does: compute, bin, null, ...
        space: address space of all addresses.
        descriptors: what describes it.
        code: its instructions; empty where none is known.
        data: further memory with a known meaning: what it is, address, bytes.
        remarks: sentences about what is missing or odd.
    """

    kind: str
    space: int = 0
    descriptors: list[Descriptor] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    data: list[tuple[str, int, int]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
