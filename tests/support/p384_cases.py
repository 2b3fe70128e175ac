# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of ES384 verifications with the right verdict: Wycheproof's, and sums of points made to be odd."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import strategies as st

from signing.curves import P384_ORDER as N
from tests.support.wycheproof import DigestCase, ecdsa

Case = DigestCase
P = 2**384 - 2**128 - 2**96 + 2**32 - 1


def wycheproof() -> Iterator[Case]:
    """ecdsa_secp384r1_sha384_p1363."""
    return ecdsa("ecdsa_secp384r1_sha384_p1363_test.json", lambda message: hashlib.sha384(message).digest(), 96)


def of_scalars(secret: int, u1: int, u2: int) -> Case:
    """The verification that computes u1 * G + u2 * (secret * G): good, unless that is infinity.

    Args:
        secret, u2: 1 to the order - 1.
        u1: 0 to the order - 1.
    """
    public = ec.derive_private_key(secret, ec.SECP384R1()).public_key()
    total = (u1 + u2 * secret) % N
    r = ec.derive_private_key(total or 1, ec.SECP384R1()).public_key().public_numbers().x % N
    s = r * pow(u2, -1, N) % N
    digest = (u1 * s % N).to_bytes(48, "big")
    key = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    signature = r.to_bytes(48, "big") + s.to_bytes(48, "big")
    return Case(f"{u1:#x} G + {u2:#x} * {secret:#x} G", digest, key, signature, total != 0)


# Where a ladder bit by bit meets equal points, opposite points and infinity.
_FEW = [1, 2, 3, 4, 5, 6, 8, 12, 16, 255, 1 << 192, 1 << 382, (N - 1) // 2, (N + 1) // 2]
SCALARS = st.one_of(st.sampled_from([*_FEW, *(N - few for few in _FEW)]), st.integers(1, N - 1))


def exceptional() -> list[Case]:
    """All of few scalars: sums whose parts are equal or opposite, or whose whole is infinity."""
    few = [1, 2, 3, N - 1, N - 2, N - 3]
    return [of_scalars(secret, u1, u2) for secret in few for u1 in (0, *few) for u2 in few]


def bad_keys() -> list[Case]:
    """A good signature, with keys that are no points of the curve."""
    case = of_scalars(12345, 6789, 1011)
    x, y = case.key[1:49], case.key[49:]
    keys = {
        "not on the curve": b"\4" + x + y[:-1] + bytes([y[-1] ^ 1]),
        "compressed": bytes([2 + (y[-1] & 1)]) + x + y,
        "zeros": b"\4" + bytes(96),
        "the field's order": b"\4" + P.to_bytes(48, "big") + y,
        "y above the field": b"\4" + x + ((1 << 384) - 1).to_bytes(48, "big"),
        "x above the field": b"\4" + ((1 << 384) - 1).to_bytes(48, "big") + y,
    }
    return [Case(name, case.digest, key, case.signature, False) for name, key in keys.items()]


def out_of_range() -> list[Case]:
    """Numbers at the ends of what r and s may be; none of them fits."""
    case = of_scalars(7, 11, 13)
    r, s = case.signature[:48], case.signature[48:]
    ends = [number.to_bytes(48, "big") for number in (0, N, N + 1, P, 2**384 - 1)]
    pairs = [pair for end in ends for pair in (end + s, r + end, end + end)]
    return [Case(pair.hex(), case.digest, case.key, pair, False) for pair in pairs]
