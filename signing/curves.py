# SPDX-License-Identifier: BSD-2-Clause
"""Facts about the two curves: which of two signatures is the one that is read, which public keys are none.

Facts: SEC 2 version 2.0, 2.4.2 (order of P-256). RFC 8032, 5.1 (Ed25519: p, encoding of points). Points of small
order: Chalkias, Garillot and Nikolaenko, "Taming the many EdDSAs" (SSR 2020), table 1; the same are refused by
libsodium. tests/unit/signing/test_curves.py computes them from the curve's equation.
"""

from __future__ import annotations

SCALAR_BYTES = 32
P256_ORDER = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551
ED25519_PRIME = 2**255 - 19
# y of the points whose order divides 8: orders 4, 1, 2, and twice 8. Each x has two signs, but for 1 and 2.
SMALL_ORDER_Y = frozenset(
    {
        0,
        1,
        ED25519_PRIME - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)


def scalars(signature: bytes) -> tuple[int, int]:
    """r and s of an ES256 signature of 64 bytes."""
    return int.from_bytes(signature[:SCALAR_BYTES], "big"), int.from_bytes(signature[SCALAR_BYTES:], "big")


def is_low(s: int) -> bool:
    """Whether s is the smaller of s and n - s: with r, both are signatures of the same bytes by the same key."""
    return s <= P256_ORDER // 2


def lowered(signature: bytes) -> bytes:
    """The one of the two ES256 signatures that is read: (r, s) or (r, n - s), 64 bytes.

    Raises:
        ValueError: r or s is not in 1 to n - 1, so that it is no signature.
    """
    r, s = scalars(signature)
    if not (0 < r < P256_ORDER and 0 < s < P256_ORDER):
        raise ValueError("r or s is not in 1 to n - 1")
    return b"".join(part.to_bytes(SCALAR_BYTES, "big") for part in (r, min(s, P256_ORDER - s)))


def refusal(ed25519: bytes) -> str:
    """Why an Ed25519 public key of 32 bytes cannot be one, in words; "" when nothing is known against it.

    For a key of small order, signatures can be made that fit most messages, without any private key.
    """
    y = int.from_bytes(ed25519, "little") & (2**255 - 1)  # the last bit is the sign of x
    if y % ED25519_PRIME in SMALL_ORDER_Y:
        return "a point of small order, for which anybody can sign"
    return "" if y < ED25519_PRIME else "not the one encoding of a point: y is not below p"
