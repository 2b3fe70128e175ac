# SPDX-License-Identifier: BSD-2-Clause
"""Our keys and signers, as python-tuf has them."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ed25519, utils
from securesystemslib.signer import Key, SecretsHandler, Signature, SSlibKey
from securesystemslib.signer import Signer as SecureSystemsSigner

from signing import curves
from signing.key_files import load_public_key
from signing.keys import Algorithm, PublicKey
from signing.sign import Signer, checked


def key_of(public: PublicKey) -> SSlibKey:
    """A key, with the id that TUF computes of it: not ours, since some clients insist on it."""
    return SSlibKey.from_crypto(public.key)


def id_of(key: Key) -> str:
    """The id that TUF computes of a key in metadata, in whatever way the key is written there.

    Raises:
        KeyFileError, ValueError, KeyError, TypeError, AttributeError: it is no key that is read.
    """
    public = key.keyval["public"]
    if key.keytype == "ed25519":
        return key_of(PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)))).keyid
    return key_of(load_public_key(public.encode())).keyid


class AnySigner(SecureSystemsSigner):
    """Any signer that traces have: a file, a token, a program, a signature made elsewhere.

    Args:
        signer: that one.
    """

    def __init__(self, signer: Signer) -> None:
        self.signer = signer

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> AnySigner:
        """Not how it is made; NotImplementedError."""
        raise NotImplementedError("the command's options say who signs")

    @property
    def public_key(self) -> Key:
        """The public key."""
        return key_of(self.signer.public)

    def sign(self, payload: bytes) -> Signature:
        """A signature, of ECDSA in DER; SignerError where the signer gives none that fits."""
        public = self.signer.public
        raw = checked(self.signer.sign(payload), public, payload, "the metadata")
        if public.algorithm in (Algorithm.ES256, Algorithm.ES384):
            raw = utils.encode_dss_signature(*curves.scalars(raw))
        return Signature(self.public_key.keyid, raw.hex())
