# SPDX-License-Identifier: BSD-2-Clause
"""What a device says of its replays, for verifiers: its log, attestations, and the key that verifies them."""

from __future__ import annotations

import argparse
import base64
import os
from pathlib import Path

from host_tools.device.library import ENTRY_BYTES, Session
from host_tools.support.files import check_writable, write_atomically
from trace_format.errors import GramophoneError

# SubjectPublicKeyInfo (RFC 5480, 2) of a point of P-256, up to the point.
SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")


class LogFile:
    """A file that a device's log goes on in.

    The device gives each entry once, so what is taken is in the file before anything else happens.

    Args:
        path: the file; None: no entry is taken.

    Raises:
        GramophoneError: it holds something else.
        OSError: it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.taken = path, 0
        if path is None:
            return
        check_writable(path)
        size = path.stat().st_size if path.exists() else 0
        if size % ENTRY_BYTES:
            raise GramophoneError(
                f"{path}: expected entries of a replay log, {ENTRY_BYTES} bytes each, found {size} bytes"
            )

    def take(self, session: Session) -> None:
        """Append what the device has for it; TeeError when it has no log."""
        if self.path is None:
            return
        data = session.entries()
        self.taken += len(data) // ENTRY_BYTES
        if data:
            with self.path.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())


def nonce_of(value: str) -> bytes:
    """A verifier's nonce as an option has it; ArgumentTypeError when it is none."""
    try:
        nonce = bytes.fromhex(value)
    except ValueError:
        nonce = b""
    if not 8 <= len(nonce) <= 64:
        raise argparse.ArgumentTypeError(f"expected 8 to 64 bytes in hexadecimal, found {value!r}")
    return nonce


def check_attestation(nonce: bytes | None, path: Path | None) -> None:
    """GramophoneError where only one is given; OSError for a file that cannot be written."""
    if (nonce is None) != (path is None):
        raise GramophoneError("--nonce and --attestation require each other")
    if path is not None:
        check_writable(path)


def attest(session: Session, nonce: bytes | None, path: Path | None) -> None:
    """Have the device answer a nonce where one is given, and write what it says; TeeError when it does not."""
    if nonce is not None and path is not None:
        write_atomically(path, session.attest(nonce))


def pem(key: bytes) -> bytes:
    """A P-256 key, 04 || x || y, as a PEM file."""
    text = base64.b64encode(SPKI + key).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""]).encode()
