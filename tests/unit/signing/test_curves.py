# SPDX-License-Identifier: BSD-2-Clause
"""Facts about the curves, computed here from their equations, and keys that anybody can sign for."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import ecdsa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from signing import curves, key_files, keys
from signing.curves import ED25519_PRIME as P
from signing.errors import KeyFileError
from signing.sign import FileSigner
from tests.support.ed25519_cases import Point, add, x_of


def times_eight(point: Point) -> Point:
    for _ in range(3):
        point = add(point, point)
    return point


def torsion() -> set[Point]:
    """The eight points whose order divides 8: L times any points, L the prime order of the others."""
    order = 2**252 + 27742317777372353535851937790883648493
    found: set[Point] = set()
    y = 2
    while len(found) < 8:
        x = x_of(y)
        if x is not None:
            total, power, left = (0, 1), (x, y), order
            while left:
                total = add(total, power) if left & 1 else total
                power, left = add(power, power), left >> 1
            found.add(total)
        y += 1
    return found


def test_points_of_small_order_are_those_of_the_curve() -> None:
    points = torsion()
    assert all(times_eight(point) == (0, 1) for point in points)
    assert {y for _, y in points} == curves.SMALL_ORDER_Y


def test_the_order_of_p256() -> None:
    assert ecdsa.NIST256p.order == curves.P256_ORDER


def encodings() -> list[bytes]:
    """Of all points of small order: both signs, and y + p where 255 bits hold it."""
    found = []
    for y in sorted(curves.SMALL_ORDER_Y):
        for value in (y, y + P):
            if value < 1 << 255:
                found += [(value | sign << 255).to_bytes(32, "little") for sign in (0, 1)]
    return found


def pem(raw: bytes) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(raw)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("raw", encodings(), ids=lambda raw: raw.hex())
def test_keys_of_small_order_are_refused(raw: bytes) -> None:
    with pytest.raises(KeyFileError, match=r"^k\.pem: not a public key of Ed25519: a point of small order"):
        key_files.load_public_key(pem(raw), file="k.pem")


def test_there_are_fourteen_such_encodings() -> None:
    assert len(encodings()) == 14


def test_a_signature_that_anybody_makes() -> None:
    """What is refused: with the neutral point as key, one signature fits every message."""
    neutral = Ed25519PublicKey.from_public_bytes((1).to_bytes(32, "little"))
    forged = (1).to_bytes(32, "little") + bytes(32)
    neutral.verify(forged, b"any message")
    neutral.verify(forged, b"any other")


@pytest.mark.parametrize("y", range(P + 2, 1 << 255))
def test_other_encodings_of_a_point_are_refused(y: int) -> None:
    with pytest.raises(KeyFileError, match="not the one encoding of a point"):
        key_files.load_public_key(pem(y.to_bytes(32, "little")))


def test_ordinary_keys_are_taken() -> None:
    for _ in range(20):
        raw = FileSigner(keys.generate(keys.Algorithm.EDDSA)).public.raw
        assert key_files.load_public_key(pem(raw)).raw == raw


@given(st.integers(1, curves.P256_ORDER - 1), st.integers(1, curves.P256_ORDER - 1))
def test_lowered(r: int, s: int) -> None:
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    low = curves.lowered(signature)
    assert curves.is_low(curves.scalars(low)[1])
    assert curves.scalars(low) in {(r, s), (r, curves.P256_ORDER - s)}
    assert curves.lowered(low) == low


def test_the_middle() -> None:
    half = curves.P256_ORDER // 2
    assert curves.is_low(half)
    assert not curves.is_low(half + 1)


def test_nobody_can_sign_with_the_key_of_the_known_answer() -> None:
    x = int.from_bytes(hashlib.sha256(b"gramophone known answer 0").digest(), "big")
    point = ecdsa.ellipticcurve.Point(ecdsa.NIST256p.curve, x, _even_root(x))
    assert b"\4" + point.x().to_bytes(32, "big") + point.y().to_bytes(32, "big") == curves.KNOWN_ANSWER_KEY


def test_the_known_answer_is_that_of_another_program() -> None:
    core = Path("tee_replayer/core")
    rows = re.search(r"key\[65\] = \{(.*?)\}", (core / "known.c").read_text(), re.DOTALL)
    assert rows
    assert bytes(int(byte, 16) for byte in re.findall(r"0x\w\w", rows[1])) == curves.KNOWN_ANSWER_KEY
    curve, order = ecdsa.NIST256p, curves.P256_ORDER
    r, s = curves.scalars(curves.KNOWN_ANSWER_KEY[1:])
    e = int.from_bytes(hashlib.sha256(curves.KNOWN_ANSWER_KEY).digest(), "big")
    inverse = pow(s, -1, order)
    recomputed = curve.generator * (e * inverse % order) + ecdsa.ellipticcurve.Point(curve.curve, r, s) * (
        r * inverse % order
    )
    assert recomputed.x() % order != r
    assert f"GR_KNOWN_X {recomputed.x() % order & 0xFFFFFFFF:#x}u" in (core / "crypto.h").read_text()


def _even_root(x: int) -> int:
    curve = ecdsa.NIST256p.curve
    root = ecdsa.numbertheory.square_root_mod_prime((x**3 + curve.a() * x + curve.b()) % curve.p(), curve.p())
    return int(root if root % 2 == 0 else curve.p() - root)
