# SPDX-License-Identifier: BSD-2-Clause
"""Errors of images: each names the file or piece, the offset, what was expected and what was found."""

from __future__ import annotations

from typing import Any

from construct import Const, ConstructError, Struct

from trace_format.errors import GramophoneError, TraceError


class ImageError(TraceError):
    """An image, or a piece of one, that is not what its format says."""


class FlashError(GramophoneError):
    """What was requested cannot be packed."""


def unpack(shape: Struct, data: bytes, offset: int, what: str) -> Any:
    """The fields of a structure of fixed size at `offset`.

    Args:
        shape: constants in it must be there.
        data: the file.
        offset: in it.
        what: name of the structure, for errors.

    Raises:
        ImageError: the data ends before the structure does, or a constant is another.
    """
    size = shape.sizeof()
    if not 0 <= offset <= len(data) - size:
        raise ImageError(what, offset=offset, expected=f"{size} bytes", found=max(0, len(data) - offset))
    stored = data[offset : offset + size]
    try:
        return shape.parse(stored)
    except ConstructError:
        at = 0
        for item in shape.subcons:
            kind, width = item.subcon, item.sizeof()
            if isinstance(kind, Const) and stored[at : at + width] != kind.build(None):
                raise ImageError(
                    f"{what}, {item.name}",
                    offset=offset + at,
                    expected=kind.build(None).hex(),
                    found=stored[at : at + width].hex(),
                ) from None
            at += width
        raise


def zeros(data: bytes, start: int, end: int, what: str) -> None:
    """ImageError unless the bytes from `start` to `end` are zero."""
    rest = data[start:end].lstrip(b"\0")
    if rest:
        raise ImageError(what, offset=min(end, len(data)) - len(rest), expected="zero", found=f"{rest[0]:#04x}")
