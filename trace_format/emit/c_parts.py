# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of C that the headers share."""

from __future__ import annotations

import textwrap

from trace_format.emit.walk import Field, Kind


def member(field: Field, text_nul: int) -> str:
    """A member of a structure that is decoded into; texts get `text_nul` more bytes."""
    if field.kind is Kind.NUMBER:
        return f"uint{8 * field.item_size}_t {field.name}"
    if field.kind is Kind.TEXT:
        return f"char {field.name}[{field.size + text_nul}]"
    return f"uint{8 * field.item_size}_t {field.name}[{field.count}]"


def quoted(magic: bytes) -> str:
    """Bytes as they are written in a comment."""
    return "".join(chr(b) if 32 < b < 127 else f"\\x{b:02x}" for b in magic)


def magic_number(magic: bytes) -> str:
    """The 8 bytes of a magic as a constant of C, with a comment that shows them."""
    return f"UINT64_C({int.from_bytes(magic, 'little'):#018x}) /* {quoted(magic)} */"


def sentence(text: str) -> str:
    """A description with a capital and a full stop, on one line."""
    text = " ".join(text.split()).removesuffix(".")
    return f"{text[0].upper()}{text[1:]}."


def comment(text: str) -> str:
    """A comment above what it is about."""
    lines = textwrap.wrap(f"/* {text} */", 108, subsequent_indent=" * ", break_long_words=False)
    return "\n".join(lines)
