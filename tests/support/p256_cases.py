# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of ES256 verifications with the right verdict: Wycheproof's, and sums of points made to be odd."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from hypothesis import strategies as st

from signing.curves import P256_ORDER as N
from tests.support.wycheproof import DigestCase, ecdsa

Case = DigestCase
P = 2**256 - 2**224 + 2**192 + 2**96 - 1


def wycheproof() -> Iterator[Case]:
    """ecdsa_secp256r1_sha256_p1363."""
    return ecdsa("ecdsa_secp256r1_sha256_p1363_test.json", lambda message: hashlib.sha256(message).digest(), 64)


def uncompressed(key: ec.EllipticCurvePublicKey) -> bytes:
    """04 || x || y."""
    numbers = key.public_numbers()
    return b"\4" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def of_scalars(secret: int, u1: int, u2: int) -> Case:
    """The verification that computes u1 * G + u2 * (secret * G): good, unless that is infinity.

    Args:
        secret, u2: 1 to the order - 1.
        u1: 0 to the order - 1.
    """
    public = ec.derive_private_key(secret, ec.SECP256R1()).public_key()
    total = (u1 + u2 * secret) % N
    r = ec.derive_private_key(total or 1, ec.SECP256R1()).public_key().public_numbers().x % N
    s = r * pow(u2, -1, N) % N
    digest = (u1 * s % N).to_bytes(32, "big")
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return Case(f"{u1:#x} G + {u2:#x} * {secret:#x} G", digest, uncompressed(public), signature, total != 0)


def judged(case: Case) -> bool:
    """What `cryptography` says of it."""
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), case.key)
    r, s = (int.from_bytes(case.signature[at : at + 32], "big") for at in (0, 32))
    try:
        key.verify(encode_dss_signature(r, s), case.digest, ec.ECDSA(Prehashed(hashes.SHA256())))
    except InvalidSignature:
        return False
    return True


# Where a ladder by digits of two bits meets equal points, opposite points and infinity.
_FEW = [1, 2, 3, 4, 5, 6, 8, 12, 16, 255, 1 << 128, 1 << 254, (N - 1) // 2, (N + 1) // 2]
SCALARS = st.one_of(
    st.sampled_from([*_FEW, *(N - few for few in _FEW)]),
    st.integers(1, N - 1),
    st.builds(lambda bit, few: (1 << bit) + few, st.integers(4, 255), st.integers(-3, 3)),
)


def exceptional() -> list[Case]:
    """All of few scalars: sums whose parts are equal or opposite, or whose whole is infinity."""
    few = [1, 2, 3, 4, N - 1, N - 2, N - 3]
    return [of_scalars(secret, u1, u2) for secret in few for u1 in (0, *few) for u2 in few]


def bad_keys() -> list[Case]:
    """A good signature, with keys that are no points of the curve."""
    case = of_scalars(12345, 6789, 1011)
    x, y = case.key[1:33], case.key[33:]
    above = (int.from_bytes(of_scalars(1, 1, 1).key[1:33], "big") + P).to_bytes(33, "big")[-32:]
    keys = {
        "not on the curve": b"\4" + x + y[:-1] + bytes([y[-1] ^ 1]),
        "compressed": bytes([2 + (y[-1] & 1)]) + x + y,
        "zeros": b"\4" + bytes(64),
        "the field's order": b"\4" + P.to_bytes(32, "big") + y,
        "y above the field": b"\4" + x + ((1 << 256) - 1).to_bytes(32, "big"),
        "x above the field": b"\4" + above + y,
    }
    return [Case(name, case.digest, key, case.signature, False) for name, key in keys.items()]
