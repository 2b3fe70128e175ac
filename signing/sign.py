# SPDX-License-Identifier: BSD-2-Clause
"""Signing a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from signing import curves, envelope, keys
from signing.errors import SignerError
from trace_format import layout, policy
from trace_format.codec import Buffer
from trace_format.errors import MagicError
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC
from trace_format.trace import Trace


class Signer(Protocol):
    """A holder of a private key: a file, a token, another machine."""

    @property
    def public(self) -> keys.PublicKey:
        """The public key that belongs to it."""

    def sign(self, tbs: bytes) -> bytes:
        """Signature of 64 bytes over `tbs`: r || s for ES256, with any s; as RFC 8032 gives it for EdDSA."""


@dataclass(frozen=True)
class FileSigner:
    """Signs with a private key that was read from a file."""

    key: keys.PrivateKey

    @property
    def public(self) -> keys.PublicKey:
        """The public key that belongs to it."""
        return keys.PublicKey(self.key.public_key())

    @property
    def alg(self) -> keys.Algorithm:
        """Algorithm of the signatures."""
        return self.public.algorithm

    @property
    def kid(self) -> bytes:
        """Id of the key, 16 bytes."""
        return self.public.kid

    def sign(self, tbs: bytes) -> bytes:
        """Signature of 64 bytes; the same bytes always give the same one."""
        return keys.sign(self.key, tbs)


def sign_trace(trace: Buffer, signer: Signer, *, file: str = "") -> bytes:
    """The signed trace's bytes.

    Args:
        trace: a trace's bytes; they are checked in full first, so that nothing gets a signature that is malformed
            or that every device refuses.
        signer: who signs.
        file: the trace's name, for errors.

    Raises:
        TraceError: the trace is not what the format says, or is signed already.
        PolicyError: it does to a register what no trace may do.
        SignerError: what the signer gave is not a signature of the trace by its key.
    """
    if trace[: len(SIGNED_MAGIC)] == SIGNED_MAGIC:
        raise MagicError(
            "signed already", offset=0, expected=TRACE_MAGIC.hex(), found=SIGNED_MAGIC.hex(), file=file
        )
    return b"".join([sign_parsed(Trace.parse(trace, file), trace, signer, file=file), trace])


def sign_parsed(content: Trace, trace: Buffer, signer: Signer, *, file: str = "") -> bytes:
    """What goes in front of a trace's bytes in the signed file.

    Args:
        content: what `Trace.parse` makes of `trace`.
        trace, signer, file: as `sign_trace`.

    Raises:
        PolicyError, SignerError: as `sign_trace`.
    """
    policy.check(content, f"{file}: " if file else "")
    head = bytes(trace[: layout.read_header(trace)["head_bytes"]])
    public = signer.public
    tbs = envelope.to_be_signed(public.algorithm, public.kid, head)
    signature = signer.sign(tbs)
    if len(signature) != keys.SIGNATURE_BYTES:
        raise SignerError(
            f"the signer gave {len(signature)} bytes instead of a signature of {keys.SIGNATURE_BYTES}"
        )
    if public.algorithm == keys.Algorithm.ES256:  # tokens and other programs may give the one that is not read
        try:
            signature = curves.lowered(signature)
        except ValueError as error:
            raise SignerError(f"the signer gave no signature of ES256: {error}") from None
    if not public.verify(signature, tbs):
        raise SignerError(
            f"the signer gave a signature that does not fit: expected one of the trace's head by "
            f"{public.algorithm.title} key {public.kid.hex()}"
        )
    return envelope.before(envelope.Envelope(public.algorithm, public.kid, signature), len(trace))
