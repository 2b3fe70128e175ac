# SPDX-License-Identifier: BSD-2-Clause
"""Errors of the trace format: each names the file, the offset, what was expected and what was found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


def printable(text: str) -> str:
    r"""Text from a file, on one line: what a terminal acts on, or what changes the order of characters, as escapes
    (`\x1b`), so that no name can pass for something else.
    """
    return (
        text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    )


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for a sentence: the first ones, and how many there are when there are more."""
    every = [printable(name) for name in names]
    more = f", ... ({len(every)} in all)" if len(every) > most else ""
    return ", ".join(every[:most]) + more or "none"


def meant(name: str, names: Iterable[str]) -> str:
    """` (did you mean 'NAME'?)`, of names the one that is most like a misspelt one; "" if none is."""
    near = difflib.get_close_matches(name, list(names), 1)
    return f" (did you mean {printable(near[0])!r}?)" if near else ""


class GramophoneError(Exception):
    """Base of every error a user can cause; the command prints it as one sentence and exits with status 2."""


def sentence(error: GramophoneError | OSError) -> str:
    """An error as one sentence, which names the file where it knows it."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class TraceError(GramophoneError):
    """A trace (or signed trace) that is not what the format says.

    Args:
        what: what is wrong, in words.
        offset: byte offset in the file, None where no single place is at fault.
        expected: what the format requires.
        found: what is there.
        file: name of the file; filled in by whoever knows it.
        action: index of the action at fault, None where no single one is.
    """

    def __init__(
        self,
        what: str,
        *,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
        file: str = "",
        action: int | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset
        self.expected = expected
        self.found = found
        self.file = file
        self.action = action

    def again(self) -> Self:
        """The same error, to which others can add. Not by copy.copy, which packages change for all exceptions."""
        fresh = type(self).__new__(type(self), *self.args)
        fresh.__dict__.update(self.__dict__)
        return fresh

    def __str__(self) -> str:
        place = (self.file + (f" at offset {self.offset:#x}" if self.offset is not None else "")).strip()
        text = f"{place}: {self.what}" if place else self.what
        if self.expected is not None:
            text += f": expected {self.expected}, found {self.found}"
        return printable(text)


class TruncatedError(TraceError):
    """The file ends before the structure does."""


class LimitError(TraceError):
    """A file, or what it claims to hold, is more than this program takes (trace_format/limits.py)."""


class MagicError(TraceError):
    """The file is not of this kind at all."""


class VersionError(TraceError):
    """The file is of a version that this program does not read."""


class ReservedError(TraceError):
    """A reserved bit or byte is not zero, or a field holds a value outside its range."""


class SectionError(TraceError):
    """The section table is wrong."""


class UnknownSectionError(SectionError):
    """A section of unknown type that is not marked optional."""


class SectionRangeError(SectionError):
    """A section lies outside the file, overlaps another, is misaligned or leaves a gap."""


class SlotError(TraceError):
    """A slot that contradicts itself or the manifest."""


class DuplicateSlotError(SlotError):
    """Two slots carry one name."""


class PieceError(TraceError):
    """A piece of a streamed trace that contradicts itself, the manifest or another one."""


class NetworkError(TraceError):
    """A network of a joint trace that contradicts itself, the manifest or another one."""


class ManifestError(TraceError):
    """A manifest that contradicts itself or the rest of the trace."""


class OtherPolicyError(ManifestError):
    """A trace made under another version of its GPU's register policy: devices with that one may accept it."""


class ActionError(TraceError):
    """An action that the format does not allow."""


class UnknownActionError(ActionError):
    """An opcode that is not in the action table."""


class ActionRangeError(ActionError):
    """An action whose operands reach outside the memory budget, the image or the slots."""


class RegisterRangeError(ActionRangeError):
    """An access to a register outside the GPU's register window."""


class ChunkHashError(TraceError):
    """A chunk's SHA-256 is not what the head says."""


class EncryptedError(TraceError):
    """The body of a trace is encrypted, and no key was given that opens it."""


class CodecError(TraceError):
    """A section does not decode to what the section table says."""


class ProfileError(TraceError):
    """A GPU profile that contradicts itself, or a GPU that has none."""
