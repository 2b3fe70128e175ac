# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of Ed25519 verifications with the right verdict: Wycheproof's, those of Ed25519's authors, and odd ones.

Where no verdict is given, it is the host's: OpenSSL's, and `signing.curves.refusal` of keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources

from cryptography.hazmat.primitives.asymmetric import ed25519

from signing import curves
from signing.curves import ED25519_PRIME as P
from signing.keys import PublicKey
from tests.support.wycheproof import Case as Case
from tests.support.wycheproof import rows, title

N = 2**252 + 27742317777372353535851937790883648493  # RFC 8032, 5.1: the base point's order
D = -121665 * pow(121666, -1, P) % P  # RFC 8032, 5.1
ROOT = pow(2, (P - 1) // 4, P)  # of -1
Point = tuple[int, int]
INFINITY: Point = (0, 1)


def host(key: bytes, signature: bytes, message: bytes) -> bool:
    """What the host makes of a signature."""
    if curves.refusal(key):
        return False
    return PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(key)).verify(signature, message)


def wycheproof() -> Iterator[Case]:
    """Wycheproof's; those of other lengths than 64 bytes do not reach the device's code."""
    for group, row in rows("ed25519_test.json"):
        key = bytes.fromhex(group["publicKey"]["pk"])
        signature, message = bytes.fromhex(row["sig"]), bytes.fromhex(row["msg"])
        good = host(key, signature, message)
        # "acceptable": where some verifiers multiply by the cofactor, or take keys of small order
        assert row["result"] in ("acceptable", {True: "valid", False: "invalid"}[good])
        if len(signature) == 64:
            yield Case(title(row), message, key, signature, good)


def authors() -> list[Case]:
    """The 1024 of Ed25519's authors, the first three of which are of RFC 8032, 7.1, as is the last one."""
    file = resources.files("securesystemslib") / "_vendor" / "ed25519" / "test_data" / "ed25519"
    found = []
    for row in file.read_text(encoding="ascii").split():
        _secret, key, message, signed, _ = row.split(":")
        name, signature = f"message of {len(message) // 2} bytes", bytes.fromhex(signed[:128])
        found.append(Case(name, bytes.fromhex(message), bytes.fromhex(key), signature, good=True))
    return found


def add(p: Point, q: Point) -> Point:
    """p + q, RFC 8032, 5.1.4, in affine coordinates."""
    product = D * p[0] * q[0] * p[1] * q[1]
    x = (p[0] * q[1] + q[0] * p[1]) * pow(1 + product, -1, P) % P
    return x, (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, P) % P


def times(number: int, p: Point) -> Point:
    """number * p."""
    found = INFINITY
    for bit in bin(number)[2:]:
        found = add(found, found)
        found = add(found, p) if bit == "1" else found
    return found


def encoded(p: Point, more: int = 0) -> bytes:
    """A point's encoding, or with a number added that makes it another one."""
    return ((p[1] + more) | (p[0] & 1) << 255).to_bytes(32, "little")


def x_of(y: int) -> int | None:
    """An x to this y, None where the curve has none (RFC 8032, 5.1.3)."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    return next((r for r in (x, x * ROOT % P) if r * r % P == square), None)


def point(y: int) -> Point:
    """The one of two points of this y that has an even x."""
    x = x_of(y)
    assert x is not None
    return (P - x if x & 1 else x), y


BASE = point(4 * pow(5, -1, P) % P)
TORSION = point(0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7)  # of order 8
SMALL = [times(number, TORSION) for number in range(8)]


def of_scalars(secret: int, nonce: int, in_key: int = 0, in_r: int = 0, message: bytes = b"") -> Case:
    """A signature of any private scalar and nonce, with points of small order added to the key and to R."""
    key = encoded(add(times(secret, BASE), SMALL[in_key]))
    r = encoded(add(times(nonce, BASE), SMALL[in_r]))
    h = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little")
    signature = r + ((nonce + h * secret) % N).to_bytes(32, "little")
    name = f"{secret:#x} B + {in_key} T, {nonce:#x} B + {in_r} T, {message.hex()}"
    return Case(name, message, key, signature, host(key, signature, message))


def exceptional() -> list[Case]:
    """Sums whose parts are equal or opposite, or whose whole is infinity."""
    few = [1, 2, 3, 8, N - 1, N - 2]
    return [of_scalars(secret, nonce) for secret in few for nonce in (0, *few)]


def mixed() -> list[Case]:
    """Keys and R with a part of small order: good where the parts cancel, since no cofactor is multiplied by."""
    found = [
        of_scalars(12345, 678, in_key, in_r, bytes([number]))
        for in_key in range(8)
        for in_r in range(8)
        for number in range(3)
    ]
    return found


def bad_keys() -> list[Case]:
    """Keys of small order, and no points; with signatures that fit where anything does."""
    keys = {f"{number} T": encoded(small) for number, small in enumerate(SMALL)}
    keys |= {f"{number} T, x negative": encoded((1, SMALL[number][1])) for number in (0, 4)}
    keys |= {f"y is p and {y}": encoded((x, y), P) for y in (0, 1) for x in (0, 1)}
    keys |= {f"y is p and {y}": encoded((0, y), P) for y in range(2, 19)}
    keys |= {"no point": (2).to_bytes(32, "little"), "all bits": b"\xff" * 32}
    signatures = {
        "0 and 0": bytes(64),
        "infinity and 0": encoded(INFINITY) + bytes(32),
        "the key and 0": None,
        "good": of_scalars(5, 7).signature,
    }
    return [
        Case(f"{name}, {words}", message, key, signature or key + bytes(32), False)
        for name, key in keys.items()
        for words, signature in signatures.items()
        for message in (b"", b"\1", b"\2")
    ]


def bad_numbers() -> list[Case]:
    """S that is not below the order, and R that is no point, or not its one encoding."""
    good = of_scalars(7, 11)
    r, s = good.signature[:32], int.from_bytes(good.signature[32:], "little")
    numbers = [s + times_ * N for times_ in range(1, 16)] + [N, N + 1, 2**252, 2**253 - 1, 2**255 - 1, 2**256 - 1]
    found = [r + number.to_bytes(32, "little") for number in numbers if number < 2**256]
    # R of nonce 0 is infinity; its other encodings are the same point.
    zero = of_scalars(7, 0)
    others = [
        encoded(INFINITY, P),
        encoded((1, 1)),
        encoded((1, 1), P),
        encoded((1, P - 1)),
        (2).to_bytes(32, "little"),
    ]
    found += [other + signed_with(7, other) for other in others]
    return [Case(one.hex(), zero.message, zero.key, one, False) for one in found]


def signed_with(secret: int, r: bytes) -> bytes:
    """S of a signature whose R is given, as if its nonce were 0."""
    h = int.from_bytes(hashlib.sha512(r + encoded(times(secret, BASE))).digest(), "little")
    return (h * secret % N).to_bytes(32, "little")
