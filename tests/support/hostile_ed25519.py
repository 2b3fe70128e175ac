# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of traces that keys of Ed25519 signed, for the table of `hostile_trust`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ed25519

from signing.cose_sign import Entry, to_be_signed
from signing.curves import ED25519_PRIME
from signing.keys import Algorithm, PublicKey
from signing.sign import FileSigner, entries, head_of
from signing.trust import Policy, Role, Rule
from signing.trust_keys import Key
from tests.support import ed25519_cases as e
from tests.support import trust_samples as t
from tests.support.hostile_keys import PLAIN, Make, OneKind, no_key, of
from tests.support.trust_samples import EDWARDIAN, EDWARDS
from trace_format.schema.trust import KeyKind

KIND = OneKind(EDWARDS, EDWARDIAN, 32)
A, B, FOREIGN = KIND.a, KIND.b, KIND.foreign
bring, envelope = KIND.bring, KIND.envelope


def parts(r: bytes, s: int) -> Make:
    """A signature of A of these."""
    return bring(A.kid, Entry(Algorithm.EDDSA, r + s.to_bytes(32, "little")))


def policy_with(raw: bytes) -> Policy:
    """The policy with another key of Ed25519 instead of A."""
    kid = PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(raw)).kid
    return t.policy(
        Rule("", Role(frozenset([B.kid, PLAIN.kid, kid]), 2), prefix=True),
        keys=(*t.keys([*t.ROOTS, B, PLAIN]), Key(raw, KeyKind.ED25519)),
    )


def odd(raw: bytes, signature: Callable[[bytes], bytes]) -> tuple[Policy, Make]:
    """That policy, and a trace that its key signed: by what signs what it is given."""
    kid = PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(raw)).kid
    entry = Entry(Algorithm.EDDSA, signature(to_be_signed(kid, HEAD, Algorithm.EDDSA)))
    return policy_with(raw), bring(kid, entry)


def anybody(number: int, raw: bytes = b"") -> tuple[Policy, Make]:
    """A key of small order, and a signature by no private key that its equation holds for.

    Args:
        number: of which of the eight points.
        raw: another encoding of it than the right one.
    """
    key = raw or e.encoded(e.SMALL[number])

    def signature(tbs: bytes) -> bytes:
        for other, r in enumerate(map(e.encoded, e.SMALL)):
            h = int.from_bytes(hashlib.sha512(r + key + tbs).digest(), "little") % e.N
            if (other + h * number) % 8 == 0:
                return r + bytes(32)
        return e.encoded(e.INFINITY) + bytes(32)

    return odd(key, signature)


def mixed(good: bool) -> tuple[Policy, Make]:
    """A key with a part of order 8, and a signature that is good with the cofactor, and without it as is said."""
    raw = e.of_scalars(12345, 678, 1).key

    def signature(tbs: bytes) -> bytes:
        found = (e.of_scalars(12345, 678 + number, 1, number % 8, tbs) for number in range(1000))
        return next(case.signature for case in found if case.good is good)

    return odd(raw, signature)


def scalar(signer: FileSigner) -> int:
    """The private scalar, RFC 8032, 5.1.5."""
    key = signer.key
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    number = int.from_bytes(hashlib.sha512(key.private_bytes_raw()).digest()[:32], "little")
    return number & ~7 & 2**254 - 1 | 1 << 254


def signed_with(r: e.Point, nonce: int = 0, more: int = 0) -> Make:
    """A signature of A whose R is given, and S that of a nonce."""
    encoded = e.encoded(r, more)
    tbs = to_be_signed(A.kid, HEAD, Algorithm.EDDSA)
    h = int.from_bytes(hashlib.sha512(encoded + A.public.raw + tbs).digest(), "little")
    return parts(encoded, (nonce + h * scalar(A)) % e.N)


HEAD = head_of(t.small())
SIGNED = of(A).signature
R, S = SIGNED[:32], int.from_bytes(SIGNED[32:], "little")
OF_PLAIN = of(PLAIN)
TAKEN: dict[str, Make] = {"a nonce of 1": signed_with(e.BASE, 1), "R is infinity": signed_with(e.INFINITY)}
SIGNATURE: dict[str, Make] = {
    "of something else": bring(A.kid, of(A, b"something else")),
    "of another key": bring(A.kid, of(B)),
    "of a key that is not named": bring(A.kid, of(FOREIGN)),
    "of what ES256 would sign": KIND.swapped(),
    "ES256 of a key of Ed25519": bring(A.kid, OF_PLAIN),
    "Ed25519 of a key of ES256": bring(PLAIN.kid, of(A)),
    "ES256's numbers, said to be of Ed25519": bring(A.kid, Entry(Algorithm.EDDSA, OF_PLAIN.signature)),
    "ES384 of a key of Ed25519": bring(A.kid, of(t.WIDE[0])),
    "an ML-DSA half behind it": bring(A.kid, *entries(t.HYBRIDS[0], b"it", "it")),
    "S is n more": parts(R, S + e.N),
    "S is 2 n more": parts(R, S + 2 * e.N),
    "S is 15 n more": parts(R, (S + 15 * e.N) % 2**256),
    "S is n": parts(R, e.N),
    "S is n - S": parts(R, e.N - S),
    "S is 0": parts(R, 0),
    "S has all bits": parts(R, 2**256 - 1),
    "S and its highest bit": parts(R, S | 1 << 255),
    "all zeros": parts(bytes(32), 0),
    "all bits": parts(b"\xff" * 32, 2**256 - 1),
    "R is no point": parts((2).to_bytes(32, "little"), S),
    "R has the other sign": parts(R[:31] + bytes([R[31] ^ 0x80]), S),
    "exchanged": parts(SIGNED[32:], int.from_bytes(R, "little") % e.N),
    "R is infinity, as y = p + 1": signed_with(e.INFINITY, more=ED25519_PRIME),
    "R is infinity, with x negative": signed_with((1, 1)),
    "R is infinity, S is 0": parts(e.encoded(e.INFINITY), 0),
    "R has a part of order 2": signed_with(e.add(e.BASE, e.SMALL[4]), 1),
    "R has a part of order 8": signed_with(e.add(e.BASE, e.TORSION), 1),
}
BROKEN: dict[str, Make] = {
    "63 bytes": envelope(lambda d, at: d[: at + 25] + b"\x3f" + d[at + 26 : at + 89] + d[at + 90 :]),
    "65 bytes": envelope(lambda d, at: d[: at + 25] + b"\x41" + d[at + 26 : at + 90] + b"\0" + d[at + 90 :]),
    "algorithm -9": envelope(lambda d, at: d[: at + 4] + b"\x28" + d[at + 5 :]),
    "algorithm -19": envelope(lambda d, at: d[: at + 4] + b"\x32" + d[at + 5 :]),
    "twice": envelope(lambda d, at: d[: at - 1] + b"\x83" + d[at : at + 90] + d[at:]),
    "the end is missing": envelope(lambda d, at: d[: at + 89]),
}
RAW, POINT = A.public.raw, PLAIN.public.raw
KEYS: dict[str, tuple[Policy, Make]] = {
    "x of a key of ES256 that it calls one of Ed25519": no_key(KeyKind.ED25519, POINT[1:33], A),
}
GOOD_KEYS: dict[str, tuple[Policy, Make]] = {"a key with a part of order 8, which cancels": mixed(good=True)}
BAD_KEYS: dict[str, tuple[Policy, Make]] = {
    "a key with a part of order 8, which only the cofactor takes away": mixed(good=False),
    "the key is infinity": anybody(0),
    "a key of order 2": anybody(4),
    "a key of order 4": anybody(2),
    "a key of order 8": anybody(1),
    "a key of order 8, with the other sign": anybody(7),
    "the key is infinity, as y = p + 1": anybody(0, e.encoded(e.INFINITY, ED25519_PRIME)),
    "the key is infinity, with x negative": anybody(0, e.encoded((1, 1))),
    "a key that is no point": odd((2).to_bytes(32, "little"), A.sign),
    "a key of zeros": odd(bytes(32), A.sign),
    "a key of all bits": odd(b"\xff" * 32, A.sign),
    "A with the other sign": odd(RAW[:31] + bytes([RAW[31] ^ 0x80]), A.sign),
}
