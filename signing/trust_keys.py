# SPDX-License-Identifier: BSD-2-Clause
"""Keys that a trust policy names: their ids are computed from their bytes, and no person has two of them."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from signing import curves
from signing.errors import TrustError
from signing.keys import KID_BYTES, Algorithm, PublicKey
from trace_format.schema.trust import SPKI_ED25519, SPKI_ES256, SPKI_ES384, KeyKind

ES256_BYTES, ES384_BYTES, ED25519_BYTES = 65, 97, 32
_ALIKE_BYTES = 31  # of a coordinate: the last byte of an Ed25519 key has its sign
# What a policy names a key of an algorithm as, bytes of the key, and what its id is the hash of, with these.
KINDS = {
    Algorithm.ES256: KeyKind.ES256,
    Algorithm.HYBRID: KeyKind.ES256_ML_DSA_44,
    Algorithm.ES384: KeyKind.ES384,
    Algorithm.EDDSA: KeyKind.ED25519,
}
KEY_BYTES = {
    KeyKind.ES256: ES256_BYTES,
    KeyKind.ES256_ML_DSA_44: ES256_BYTES + 32,
    KeyKind.ES384: ES384_BYTES,
    KeyKind.ED25519: ED25519_BYTES,
}
_SPKI = {
    KeyKind.ES256: SPKI_ES256,
    KeyKind.ES256_ML_DSA_44: SPKI_ES256,
    KeyKind.ES384: SPKI_ES384,
    KeyKind.ED25519: SPKI_ED25519,
}


@dataclass(frozen=True)
class Key:
    """A key that a policy names; it may be one that no signature can be of.

    Attributes:
        raw: what `PublicKey.raw` is: 65 bytes of ES256, 97 of ES384 and of a hybrid key, 32 of Ed25519.
        kind: what it signs with.
    """

    raw: bytes
    kind: KeyKind = KeyKind.ES256

    @classmethod
    def of(cls, public: PublicKey) -> Key:
        """As a policy names it; TrustError where it is of a kind that no policy names."""
        if public.algorithm not in KINDS:
            expected = " or ".join(algorithm.title for algorithm in KINDS)
            raise TrustError(f"key {public.kid.hex()}", expected=expected, found=public.algorithm.title)
        return cls(public.raw, KINDS[public.algorithm])

    @functools.cached_property
    def kid(self) -> bytes:
        """Its id, as `PublicKey.kid`, also of bytes that are no key."""
        return hashlib.sha256(_SPKI[self.kind] + self.raw).digest()[:KID_BYTES]

    @property
    def halves(self) -> tuple[bytes, ...]:
        """Ids of a hybrid key's halves, ES256 first: neither may be revoked; of other keys nothing."""
        if self.kind is not KeyKind.ES256_ML_DSA_44:
            return ()
        return Key(self.raw[:ES256_BYTES]).kid, self.ml_dsa_hash[:KID_BYTES]

    @property
    def title(self) -> str:
        """What it signs with, as it is printed."""
        return next(algorithm.title for algorithm, kind in KINDS.items() if kind is self.kind)

    @property
    def first(self) -> PublicKey | None:
        """The key, or of a hybrid one its ES256 half; None: it is none."""
        if self.kind is KeyKind.ED25519:
            found = PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(self.raw))
            return None if curves.refusal(self.raw) else found
        is_wide = self.kind is KeyKind.ES384
        curve, size = (ec.SECP384R1(), ES384_BYTES) if is_wide else (ec.SECP256R1(), ES256_BYTES)
        try:
            return PublicKey(ec.EllipticCurvePublicKey.from_encoded_point(curve, self.raw[:size]))
        except ValueError:
            return None

    @property
    def ml_dsa_hash(self) -> bytes:
        """SHA-256 of a hybrid key's ML-DSA half; of others nothing."""
        return self.raw[ES256_BYTES:] if self.kind is KeyKind.ES256_ML_DSA_44 else b""

    def is_one_person(self, other: Key) -> bool:
        """Whether who signs with this key can sign with the other, or with half of it."""
        is_half = self.ml_dsa_hash != b"" and self.ml_dsa_hash == other.ml_dsa_hash
        return is_half or self._coordinate == other._coordinate

    @property
    def _coordinate(self) -> bytes:
        """What it and its negative have in common, for one private key signs for both: x, of Ed25519 y."""
        at = self.kind is not KeyKind.ED25519
        return self.raw[at : at + _ALIKE_BYTES]


def check_people(keys: Sequence[Key], offset: int | None = None) -> None:
    """Raise TrustError where one person has two of a policy's keys."""
    for one, other in itertools.combinations(keys, 2):
        if one.is_one_person(other):
            raise TrustError(
                f"keys {one.kid.hex()} ({one.title}) and {other.kid.hex()} ({other.title}) are one person's "
                "('gramophone policy rotate' puts one in the other's place)",
                offset=offset,
                expected="no point, its negative or half of a key in two keys",
                found="one in both",
            )
