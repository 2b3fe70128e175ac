# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of traces that keys of ES384 signed, for the table of `hostile_trust`."""

from __future__ import annotations

from signing import curves
from signing.cose_sign import Entry
from signing.keys import Algorithm
from signing.sign import entries
from signing.trust import Policy
from tests.support import trust_samples as t
from tests.support.hostile_keys import PLAIN, Make, OneKind, no_key, of
from tests.support.trust_samples import WIDE, WIDER
from trace_format.schema.trust import KeyKind

KIND = OneKind(WIDE, WIDER, 97)
A, B, FOREIGN = KIND.a, KIND.b, KIND.foreign
N = curves.P384_ORDER
bring, envelope = KIND.bring, KIND.envelope


def numbers(r: int, s: int) -> Make:
    """A signature of A of these."""
    return bring(A.kid, Entry(Algorithm.ES384, r.to_bytes(48, "big") + s.to_bytes(48, "big")))


R, LOW = curves.scalars(of(A).signature)
OF_PLAIN = of(PLAIN)
SIGNATURE: dict[str, Make] = {
    "of something else": bring(A.kid, of(A, b"something else")),
    "of another key": bring(A.kid, of(B)),
    "of a key that is not named": bring(A.kid, of(FOREIGN)),
    "of what ES256 would sign": KIND.swapped(),
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
KEYS: dict[str, tuple[Policy, Make]] = {
    "a key of ES256 that it calls one of ES384": no_key(KeyKind.ES384, POINT + bytes(32), A),
    "a point that is not on the curve": no_key(KeyKind.ES384, WIDE_POINT[:-1] + bytes([WIDE_POINT[-1] ^ 1]), A),
    "a point of zeros": no_key(KeyKind.ES384, b"\4" + bytes(96), A),
}
