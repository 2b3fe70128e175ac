# SPDX-License-Identifier: BSD-2-Clause
"""Keys as callers have them: a file's path, or what was read from one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from signing import key_files
from signing.keys import HybridPrivateKey, PrivateKey, PublicKey
from signing.sign import FileSigner, Signer
from signing.trust import Anchor, Policy
from signing.trust_chain import load_anchor
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file

SigningKey = str | os.PathLike[str] | PrivateKey | Signer
TrustedKey = str | os.PathLike[str] | Anchor | Signer


def signer_of(key: SigningKey, passphrase: str | bytes | None = None) -> Signer:
    """Who signs.

    Args:
        key: path of a private key (PEM), the private key itself, or a signer.
        passphrase: of an encrypted file.

    Raises:
        GramophoneError: it is none of these, or no private key is in the file, or the passphrase is wrong.
        OSError: the file cannot be read.
    """
    if isinstance(key, str | os.PathLike):
        secret = passphrase.encode() if isinstance(passphrase, str) else passphrase
        path = Path(key)
        return FileSigner(key_files.load_private_key(read_file(path, limits.SMALL_BYTES), secret, file=str(path)))
    if isinstance(key, PublicKey | Policy):
        raise GramophoneError("key: expected a private key, which signs, found a public key or a trust policy")
    if isinstance(key, PrivateKey | HybridPrivateKey):
        return FileSigner(key)
    if hasattr(key, "sign") and isinstance(getattr(key, "public", None), PublicKey):
        return key
    raise _other("a private key, a signer or the path of a private key (PEM)", key)


def anchor_of(key: TrustedKey) -> Anchor:
    """What is trusted.

    Args:
        key: path of a public key (PEM) or of a trust policy (.gtp), either itself, or a signer, whose public key
            it is then.

    Raises:
        GramophoneError: it is none of these, or the file holds something else.
        OSError: the file cannot be read.
    """
    if isinstance(key, str | os.PathLike):
        path = Path(key)
        return load_anchor(read_file(path, limits.SMALL_BYTES), file=str(path))
    if isinstance(key, PublicKey | Policy):
        return key
    public = getattr(key, "public", None)
    if isinstance(public, PublicKey):
        return public
    raise _other("a public key, a trust policy or the path of either", key)


def anchors_of(keys: Sequence[TrustedKey]) -> list[Anchor]:
    """What is trusted: keys, or one trust policy.

    Raises:
        GramophoneError: it is both; or as `anchor_of`.
        OSError: a file cannot be read.
    """
    found = [anchor_of(key) for key in keys]
    if len(found) > 1 and any(isinstance(anchor, Policy) for anchor in found):
        raise GramophoneError("a trust policy says itself which keys count: --key takes it alone")
    return found


def _other(expected: str, found: object) -> GramophoneError:
    return GramophoneError(f"key: expected {expected}, found {type(found).__name__}")
