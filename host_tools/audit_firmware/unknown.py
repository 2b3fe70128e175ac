# SPDX-License-Identifier: BSD-2-Clause
"""Bytes of executable memory that are neither code that can run nor constants that code refers to."""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.audit_firmware.instructions import BYTES
from host_tools.audit_firmware.program import Program

RETURNS = (bytes.fromhex("c0035fd6"), bytes.fromhex("e0039fd6"))  # ret, eret
PADDING = (b"\0" * BYTES, bytes.fromhex("1f2003d5"))  # nothing, nop


def unknown(program: Program) -> Iterator[tuple[int, int, str]]:
    """(address, size, in words) of what is unknown.

    That is what lies between code and the first constant that is referred to, unless a symbol calls it an object;
    and whatever holds an instruction that returns.
    """
    covered = program.covered
    objects = _objects(program)
    known = {at for start, size in program.literals for at in range(start, start + size)}
    for segment in program.image.executable:
        start, referred = None, False
        end = segment.address + len(segment.data)
        for at in range(segment.address, end, BYTES):
            word = program.image.read(at, BYTES)
            if at in covered:
                if start is not None:
                    yield start, at - start, "nothing reaches or refers to it"
                start, referred = None, False
                continue
            referred |= any(place in program.references for place in range(at, at + BYTES))
            is_known = at in objects or referred
            if word in RETURNS and at not in objects:
                yield at, BYTES, "an instruction that returns, in what should be constants"
            elif is_known or word in PADDING or at in known:
                if start is not None:
                    yield start, at - start, "nothing reaches or refers to it"
                start = None
            elif start is None:
                start = at
        if start is not None:
            yield start, end - start, "nothing reaches or refers to it"


def _objects(program: Program) -> set[int]:
    """Words that symbols call objects."""
    return {
        at
        for row in program.image.symbols
        if row.kind == "OBJECT"
        for at in range(row.address & -BYTES, row.address + row.size, BYTES)
    }
