# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of traces that keys of ES384 signed, for the table of `hostile_trust`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from signing import curves
from signing.cose_sign import Entries, Entry, Signatures, to_be_signed
from signing.keys import Algorithm
from signing.sign import FileSigner, entries, head_of
from signing.trust import Key, Policy, Role
from signing.trust_chain import Signed
from tests.support import trust_samples as t
from tests.support.trust_samples import TRACERS, WIDE, WIDER
from trace_format.schema.trust import KeyKind

A, B = (signer for signer in WIDER if signer in WIDE)
PLAIN, FOREIGN = TRACERS[0], WIDE[2]
N = curves.P384_ORDER
Make = Callable[[], bytes]


def of(signer: FileSigner, what: bytes | None = None) -> Entry:
    """A signature of the small trace, or of something else."""
    (found,) = entries(signer, head_of(t.small()) if what is None else what, "it")
    return found


def bring(kid: bytes, *found: Entry) -> Make:
    """The small trace with these entries of a key, beside a good signature of another."""

    def make() -> bytes:
        beside = B if kid == PLAIN.kid else PLAIN
        return t.join(t.small(), Signatures({beside.kid: (of(beside),), kid: found}))

    return make


def numbers(r: int, s: int) -> Make:
    """A signature of A of these."""
    return bring(A.kid, Entry(Algorithm.ES384, r.to_bytes(48, "big") + s.to_bytes(48, "big")))


def newer(signers: list[FileSigner], *, wrong: bool = False) -> Make:
    """A second version, two of whose roots are of ES384, signed by some of them and by roots of the first."""
    found = Policy("fleet", 2, t.keys(sorted([*WIDE[:2], *t.ROOTS, *TRACERS], key=lambda one: one.kid)), ROLE)
    signed = t.signed_policy(replace(found, rules=(t.rule(),)), [*t.ROOTS[:2], *signers])
    if wrong:
        signed = signed.sign(A.kid, (of(A, b"something else"),))
    return lambda: t.signed(policies=[signed])


def besides() -> bytes:
    """Enough signatures of ES256, and one of ES384."""
    return t.signed([*TRACERS[:2], FOREIGN])


def long_key() -> bytes:
    """A newer policy with a key of ES384 and a byte after it."""
    keys = tuple(sorted((*t.keys(t.ROOTS + TRACERS), Key.of(A.public)), key=lambda key: key.kid))
    payload = bytearray(t.policy(version=2, keys=keys).encode())
    payload[96 + 128 * [key.kid for key in keys].index(A.kid) + 24 + 97] = 1
    signed: Entries = entries(t.ROOTS[0], bytes(payload), "a policy")
    message = Signatures({t.ROOTS[0].kid: signed}, bytes(payload))
    return t.join(t.small(), t.signatures(t.small()), [Signed(t.policy(), bytes(payload), message)])


def key_of(kind: KeyKind, raw: bytes) -> Policy:
    """A policy that has a key of a kind and bytes under the id of a key of ES256 that signs."""
    keys = (*(key for key in t.policy().keys if key.kid != PLAIN.kid), Key(PLAIN.kid, raw, kind))
    return t.policy(keys=tuple(sorted(keys, key=lambda key: key.kid)))


def envelope(change: Callable[[bytes, int], bytes]) -> Make:
    """The envelope of a trace that both keys of ES384 signed, changed at the first signature."""
    return t.envelope(lambda data: change(data, 7), lambda: t.signed([A, B]))


def swapped() -> Make:
    """A's signature of what ES256 would sign: the header says the other algorithm."""
    signature = A.sign(to_be_signed(A.kid, head_of(t.small()), Algorithm.ES256))
    return bring(A.kid, Entry(Algorithm.ES384, signature))


ROLE = Role(t.kids(WIDER), 2)
R, LOW = curves.scalars(of(A).signature)
OF_PLAIN = of(PLAIN)
TAKEN: dict[str, Make] = {
    "both": lambda: t.signed([A, B]),
    "one, and one of ES256": lambda: t.signed([A, PLAIN]),
    "one that it does not know, besides": lambda: t.signed([A, PLAIN, FOREIGN]),
}
THRESHOLD: dict[str, Make] = {
    "one": lambda: t.signed([A]),
    "one that it does not know": lambda: t.signed([PLAIN, FOREIGN]),
}
SIGNATURE: dict[str, Make] = {
    "of something else": bring(A.kid, of(A, b"something else")),
    "of another key": bring(A.kid, of(B)),
    "of a key that is not named": bring(A.kid, of(FOREIGN)),
    "of what ES256 would sign": swapped(),
    "ES256 of a key of ES384": bring(A.kid, OF_PLAIN),
    "ES384 of a key of ES256": bring(PLAIN.kid, of(A)),
    "an ML-DSA half behind it": bring(A.kid, *entries(t.HYBRIDS[0], b"it", "it")),
    "high s": numbers(R, N - LOW),
    "s one above the middle": numbers(R, N // 2 + 1),
    "s the middle": numbers(R, N // 2),
    "r is 0": numbers(0, LOW),
    "s is 0": numbers(R, 0),
    "both are 0": numbers(0, 0),
    "r is n": numbers(N, LOW),
    "s is n": numbers(R, N),
    "s is n and more": numbers(R, N + LOW if N + LOW < 1 << 384 else (1 << 384) - 1),
    "all bits": numbers((1 << 384) - 1, (1 << 384) - 1),
    "exchanged": numbers(LOW, R),
    "negative r": numbers(N - R, LOW),
}
BROKEN: dict[str, Make] = {
    "94 bytes": envelope(lambda d, at: d[: at + 26] + b"\x5e" + d[at + 27 : at + 121] + d[at + 123 :]),
    "97 bytes": envelope(lambda d, at: d[: at + 26] + b"\x61" + d[at + 27 : at + 123] + b"\0" + d[at + 123 :]),
    "64 bytes": envelope(lambda d, at: d[: at + 26] + b"\x40" + d[at + 27 : at + 91] + d[at + 123 :]),
    "algorithm -36": envelope(lambda d, at: d[: at + 5] + b"\x23" + d[at + 6 :]),
    "twice": envelope(lambda d, at: d[: at - 1] + b"\x83" + d[at : at + 123] + d[at:]),
    "the end is missing": envelope(lambda d, at: d[: at + 122]),
}
POINT, WIDE_POINT = PLAIN.public.raw, A.public.raw
KEYS: dict[str, Policy] = {
    "a key of ES256 that it calls one of ES384": key_of(KeyKind.ES384, POINT + bytes(32)),
    "a key of ES384 under the id of one of ES256": key_of(KeyKind.ES384, WIDE_POINT),
    "a point that is not on the curve": key_of(KeyKind.ES384, WIDE_POINT[:-1] + bytes([WIDE_POINT[-1] ^ 1])),
    "a point of zeros": key_of(KeyKind.ES384, b"\4" + bytes(96)),
}
