# SPDX-License-Identifier: BSD-2-Clause
"""Errors of signing that are about a file the user gave."""

from __future__ import annotations

from trace_format.errors import GramophoneError, TraceError


class EnvelopeError(TraceError):
    """A COSE message that is not the one encoding that this project reads and writes."""


class SignerError(GramophoneError):
    """A signer that does not return what it must."""


class KeyFileError(GramophoneError):
    """A key file that holds no key of a kind that this project signs with.

    Args:
        what: what is wrong, in words.
        expected: what would have been right.
        found: what is there.
        file: name of the file.
    """

    def __init__(self, what: str, *, expected: object = None, found: object = None, file: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.found = found
        self.file = file

    def __str__(self) -> str:
        text = f"{self.file}: {self.what}" if self.file else self.what
        if self.expected is not None:
            text += f": expected {self.expected}, found {self.found}"
        return text


class PassphraseError(KeyFileError):
    """A passphrase that is missing, wrong or not needed."""


class TrustError(TraceError):
    """A trust policy that no device takes, or that cannot be made."""


class EncryptionError(TraceError):
    """A COSE_Encrypt message that is not the one encoding that this project reads and writes."""
