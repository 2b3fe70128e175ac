# SPDX-License-Identifier: BSD-2-Clause
"""Signed JSON documents: DSSE envelopes, in which in-toto's statements travel.

Facts: https://github.com/secure-systems-lab/dsse (protocol.md and envelope.md, version 1.0.2). A signature's key
id is a hint that nothing is decided by, fields that are not known are passed over, and base64 is of either
alphabet. ES256 and ES384 signatures are in DER, as cosign and the other implementations write them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric import utils

from host_tools.extras.publish import strict_json
from host_tools.extras.publish.errors import DocumentError
from signing import curves
from signing.errors import SignerError
from signing.keys import Algorithm, PublicKey
from signing.sign import Signer, checked

MAX_SIGNATURES = 32  # each is tried with each trusted key


@dataclass(frozen=True)
class Envelope:
    """A document and its signatures.

    Attributes:
        payload: the document.
        payload_type: what it is.
        signatures: key id as text, which may be empty, and the signature.
    """

    payload: bytes
    payload_type: str
    signatures: tuple[tuple[str, bytes], ...] = ()

    @property
    def tbs(self) -> bytes:
        """The bytes that are signed: PAE of the protocol."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)

    def signed(self, signer: Signer) -> Envelope:
        """With one more signature; one of the same key id is replaced.

        Raises:
            SignerError: what the signer gave is no signature of this document by its key.
            DocumentError: there are too many.
        """
        public = signer.public
        raw = checked(signer.sign(self.tbs), public, self.tbs, "the statement")
        if public.algorithm in (Algorithm.ES256, Algorithm.ES384):
            raw = utils.encode_dss_signature(*curves.scalars(raw))
        kid = public.kid.hex()
        kept = tuple(one for one in self.signatures if one[0] != kid)
        if len(kept) >= MAX_SIGNATURES:
            raise DocumentError("signatures", expected=f"fewer than {MAX_SIGNATURES}", found=len(kept))
        return replace(self, signatures=(*kept, (kid, raw)))

    def signers(self, keys: Iterable[PublicKey]) -> frozenset[bytes]:
        """Ids of those keys of which there is a good signature."""
        return frozenset(
            key.kid for key in keys if any(_fits(signature, key, self.tbs) for _, signature in self.signatures)
        )

    def encode(self) -> bytes:
        """One line of JSON, with its end: a file of such lines is in-toto's bundle."""
        found = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": kid, "sig": base64.b64encode(signature).decode()} for kid, signature in self.signatures
            ],
        }
        return json.dumps(found, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        """Read one; DocumentError where it is none. Nothing is verified."""
        return cls.of(strict_json.parse(data, "a DSSE envelope"))

    @classmethod
    def of(cls, found: strict_json.Fields) -> Envelope:
        """The same of a part of another document."""
        signatures = tuple(
            (one.text("keyid") if "keyid" in one else "", one.data("sig"))
            for one in found.parts("signatures", MAX_SIGNATURES)
        )
        if not signatures:
            raise DocumentError(found.place("signatures"), expected="at least 1", found="none")
        return cls(found.data("payload"), found.text("payloadType"), signatures)


def _fits(signature: bytes, key: PublicKey, tbs: bytes) -> bool:
    try:
        checked(signature, key, tbs, "the statement")
    except SignerError:
        return False
    return True
