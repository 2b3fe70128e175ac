# SPDX-License-Identifier: BSD-2-Clause
"""Keys that encrypted traces are read with, and keys of those who may read them, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from host_tools.commands.keys import read_private_key
from host_tools.commands.streams import read
from signing import device_keys
from signing.errors import KeyFileError
from signing.key_files import load_public_key
from signing.keys import Algorithm, PublicKey
from signing.sign import FileSigner
from trace_format import limits


def read_decryption_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A private key on P-256 (PEM), or the one that follows from a device's secret; KeyFileError."""
    data = read(path, limits.SMALL_BYTES)
    if len(data) == device_keys.SECRET_BYTES:
        return device_keys.derive(data, file=str(path)).decryption
    key = read_private_key(path, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeyFileError(
            "a decryption key",
            expected="one on P-256",
            found=FileSigner(key).public.algorithm.title,
            file=str(path),
        )
    return key


def read_recipients(paths: Sequence[Path]) -> list[PublicKey]:
    """Public keys on P-256 (PEM) of those who may read a trace; KeyFileError, also for one that is there twice."""
    found: dict[bytes, Path] = {}
    keys = []
    for path in paths:
        key = load_public_key(read(path, limits.SMALL_BYTES), file=str(path))
        if key.algorithm is not Algorithm.ES256:
            raise KeyFileError(
                "key of a recipient", expected="one on P-256", found=key.algorithm.title, file=str(path)
            )
        if key.kid in found:
            raise KeyFileError(f"the same key as {found[key.kid]}", file=str(path))
        found[key.kid] = path
        keys.append(key)
    return keys
