# SPDX-License-Identifier: BSD-2-Clause
"""Facts about the curves: which of two signatures is the one that is read, which public keys are none.

Facts: SEC 2 version 2.0, 2.4.2 and 2.5.1 (orders of P-256 and P-384). RFC 8032, 5.1 (Ed25519: p, encoding of
points). Points of small order: Chalkias, Garillot and Nikolaenko, "Taming the many EdDSAs" (SSR 2020), table 1;
the same are refused by libsodium. tests/unit/signing/test_curves.py computes them from the curve's equation.
"""

from __future__ import annotations

SCALAR_BYTES = 32  # of P-256
P256_ORDER = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551
P384_SCALAR_BYTES = 48
P384_ORDER = 2**384 - 0x389CB27E_0BC8D220_A7E5F24D_B74F5885_1313E695_333AD68D
ED25519_PRIME = 2**255 - 19
# A point of P-256 of which nobody knows the discrete logarithm: x is SHA-256 of "gramophone known answer 0", y is
# even. Devices ask their verification about it (tee_replayer/core/known.c).
KNOWN_ANSWER_KEY = bytes.fromhex(
    "040b74c5722bf16f1f697ac25f001f87f06c89148d5701fe673681a2ddfcfa533e"
    "9b7d0e39f74b4ac960473f189c645ed9aeadc421baecf1cac4de86c54e854b8c"
)
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
    """r and s of an ECDSA signature, r || s of the same size: of ES256 64 bytes, of ES384 96."""
    half = len(signature) // 2
    return int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")


def is_low(s: int, order: int = P256_ORDER) -> bool:
    """Whether s is the smaller of s and n - s: with r, both are signatures of the same bytes by the same key."""
    return s <= order // 2


def lowered(signature: bytes, order: int = P256_ORDER) -> bytes:
    """The one of the two ECDSA signatures that is read: (r, s) or (r, n - s), of the same size.

    Raises:
        ValueError: r or s is not in 1 to n - 1, so that it is no signature.
    """
    r, s = scalars(signature)
    if not (0 < r < order and 0 < s < order):
        raise ValueError("r or s is not in 1 to n - 1")
    return b"".join(part.to_bytes(len(signature) // 2, "big") for part in (r, min(s, order - s)))


def refusal(ed25519: bytes) -> str:
    """Why an Ed25519 public key of 32 bytes cannot be one, in words; "" when nothing is known against it.

    For a key of small order, signatures can be made that fit most messages, without any private key.
    """
    y = int.from_bytes(ed25519, "little") & (2**255 - 1)  # the last bit is the sign of x
    if y % ED25519_PRIME in SMALL_ORDER_Y:
        return "a point of small order, for which anybody can sign"
    return "" if y < ED25519_PRIME else "not the one encoding of a point: y is not below p"
