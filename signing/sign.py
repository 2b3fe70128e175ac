# SPDX-License-Identifier: BSD-2-Clause
"""Signing a trace."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec, utils

from signing import cose_sign, curves, encryption, envelope, keys
from signing.cose_sign import Entries, Entry, Signatures
from signing.errors import SignerError
from signing.trust_chain import Chain
from trace_format import layout, policy
from trace_format.codec import Buffer
from trace_format.errors import MagicError
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC


class Signer(Protocol):
    """A holder of a private key: a file, a token, another machine."""

    @property
    def public(self) -> keys.PublicKey:
        """The public key that belongs to it."""

    def sign(self, tbs: bytes) -> bytes:
        """Signature over `tbs`: of ECDSA r || s or DER, with any s; of others as their standards have it."""


@dataclass(frozen=True)
class FileSigner:
    """Signs with a private key that was read from a file."""

    key: keys.PrivateKey

    @property
    def public(self) -> keys.PublicKey:
        """The public key that belongs to it."""
        return keys.public_of(self.key)

    @property
    def alg(self) -> keys.Algorithm:
        """Algorithm of the signatures."""
        return self.public.algorithm

    @property
    def kid(self) -> bytes:
        """Id of the key, 16 bytes."""
        return self.public.kid

    def sign(self, tbs: bytes) -> bytes:
        """Signature; the same bytes always give the same one, but of ML-DSA. SignerError of a hybrid key."""
        if isinstance(self.key, keys.HybridPrivateKey):
            raise SignerError(NO_HYBRID)
        return keys.sign(self.key, tbs)


@dataclass(frozen=True)
class HybridSigner:
    """Signs with a hybrid key whose halves different signers have: one on a token and one in a file, say.

    Attributes:
        es256, ml_dsa: they.
    """

    es256: Signer
    ml_dsa: Signer

    @property
    def public(self) -> keys.PublicKey:
        """The public key that belongs to them; SignerError where these are no halves of one."""
        return keys.hybrid([self.es256.public, self.ml_dsa.public])

    def sign(self, tbs: bytes) -> bytes:
        """SignerError: the halves sign other bytes each."""
        raise SignerError(NO_HYBRID)


NO_HYBRID = "a hybrid key has no signature of its own: its halves have, under a trust policy"


def _halves(signer: Signer) -> tuple[Signer, ...]:
    """Who signs: of a hybrid key two."""
    if isinstance(signer, HybridSigner):
        return signer.es256, signer.ml_dsa
    if isinstance(signer, FileSigner) and isinstance(signer.key, keys.HybridPrivateKey):
        return tuple(FileSigner(half) for half in signer.key.halves)
    return (signer,)


def entries(signer: Signer, payload: bytes, what: str) -> Entries:
    """What a key signs a payload with, in a COSE_Sign message.

    Args:
        signer: who signs.
        payload: what is signed.
        what: the same in words.

    Raises:
        SignerError: what the signer gave is not a signature of it by its key.
    """
    kid, found = signer.public.kid, []
    for half in _halves(signer):
        public = half.public
        tbs = cose_sign.to_be_signed(kid, payload, public.algorithm)
        signature = checked(half.sign(tbs), public, tbs, what)
        brings = public.raw if public.algorithm is keys.Algorithm.ML_DSA_44 else b""
        found.append(Entry(public.algorithm, signature, brings))
    return tuple(found)


def sign_trace(trace: Buffer, signer: Signer, *, file: str = "") -> bytes:
    """The signed trace's bytes.

    Args:
        trace: a trace's bytes; they are checked in full first, so that nothing gets a signature that is malformed
            or that every device refuses.
        signer: who signs.
        file: the trace's name, for errors.

    Raises:
        TraceError: the trace is not what the format says, or is signed already.
        EncryptedError: it is encrypted, and no key is at hand (`encryption.reading_with`).
        PolicyError: it does to a register what no trace may do.
        SignerError: what the signer gave is not a signature of the trace by its key.
    """
    if trace[: len(SIGNED_MAGIC)] == SIGNED_MAGIC:
        raise MagicError(
            "signed already", offset=0, expected=TRACE_MAGIC.hex(), found=SIGNED_MAGIC.hex(), file=file
        )
    policy.check(encryption.parse(trace, file), f"{file}: " if file else "")
    return b"".join([signature_of(trace, signer), trace])


def signature_of(trace: Buffer, signer: Signer) -> bytes:
    """What goes in front of a trace in the signed file. The trace is one that `Trace.parse` and the policy accept.

    Raises:
        SignerError: as `sign_trace`.
    """
    public = signer.public
    check_single(public)
    tbs = to_be_signed(trace, public)
    signature = checked(signer.sign(tbs), public, tbs, "the trace's head")
    return envelope.before(envelope.Envelope(public.algorithm, public.kid, signature), len(trace))


def check_single(public: keys.PublicKey) -> None:
    """Raise SignerError for a key whose signature a trace cannot have alone."""
    if public.algorithm not in envelope.ALGORITHMS:
        raise SignerError(
            f"an {public.algorithm.title} key signs under a trust policy only (--trust-policy): a trace with one "
            "signature has one of ES256 or EdDSA"
        )


def signed_under(trace: Buffer, chain: Chain, signer: Signer, given: Signatures | None = None) -> list[Signatures]:
    """What goes in front of a trace that is signed under a trust policy: its signatures, and newer policies.

    Args:
        trace: one that `Trace.parse` and the register policy accept.
        chain: of policies; of these, the complete ones go with the trace, but the first, which devices have.
        signer: who signs.
        given: signatures that it has already, of other keys.

    Raises:
        SignerError: as `sign_trace`.
    """
    found = entries(signer, head_of(trace), "the trace's head")
    message = (given or Signatures({})).with_signature(signer.public.kid, *found)
    complete = itertools.takewhile(lambda step: all(step[1].quorums(step[0])), chain.steps())
    policies = [Signatures(link.signatures.by_kid, link.payload) for _, link in complete]
    return [message, *policies[1:]]


def head_of(trace: Buffer) -> bytes:
    """What is signed of a trace under a trust policy."""
    return bytes(trace[: layout.read_header(trace)["head_bytes"]])


def to_be_signed(trace: Buffer, public: keys.PublicKey) -> bytes:
    """What a key signs of a trace, for signers elsewhere; the trace is a well-formed one."""
    head = bytes(trace[: layout.read_header(trace)["head_bytes"]])
    return envelope.to_be_signed(public.algorithm, public.kid, head)


def checked(signature: bytes, public: keys.PublicKey, tbs: bytes, what: str) -> bytes:
    """What a signer gave, in the one form that is read.

    Args:
        signature: r || s or DER (SEC 1, C.5), with any s, of ECDSA; of others as their standards have it.
        public: the key that it should be of.
        tbs: what it should be of.
        what: the same in words.

    Raises:
        SignerError: it is no signature, or of something else, or of another key.
    """
    size = cose_sign.BYTES.get(public.algorithm, keys.SIGNATURE_BYTES)
    if isinstance(public.key, ec.EllipticCurvePublicKey):  # tokens and others may give the s that is not read
        if len(signature) != size:
            signature = _from_der(signature, size)
        try:
            signature = curves.lowered(signature, keys.ecdsa(public.algorithm).order)
        except ValueError as error:
            raise SignerError(f"the signer gave no signature of {public.algorithm.title}: {error}") from None
    if len(signature) != size:
        raise SignerError(_wrong_size(signature, size))
    if not public.verify(signature, tbs):
        raise SignerError(
            f"the signer's signature does not fit: expected one of {what} by "
            f"{public.algorithm.title} key {public.kid.hex()}"
        )
    return signature


def _wrong_size(signature: bytes, size: int) -> str:
    return f"the signer gave {len(signature)} bytes instead of a signature of {size}"


def _from_der(signature: bytes, size: int) -> bytes:
    """r || s of an ECDSA signature as OpenSSL, cloud services and TLS write it."""
    try:
        numbers = utils.decode_dss_signature(signature)
        return b"".join(number.to_bytes(size // 2, "big") for number in numbers)
    except (ValueError, OverflowError):
        raise SignerError(_wrong_size(signature, size)) from None
