# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of traces that hybrid keys signed, for the table of `hostile_trust`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from signing.cose_sign import Entries, Entry, Signatures, to_be_signed
from signing.keys import Algorithm, public_of
from signing.keys import sign as sign_with
from signing.sign import FileSigner, entries, head_of
from signing.trust import Policy, Role
from tests.support import trust_samples as t
from tests.support.trust_samples import HYBRIDS, MIXED, TRACERS

A, B = (signer for signer in MIXED if signer in HYBRIDS)
PLAIN = TRACERS[0]
FOREIGN = HYBRIDS[2]
ML_DSA_BYTES = 3776  # of an ML-DSA entry
ES256_BYTES = 90
Make = Callable[[], bytes]


def of(signer: FileSigner, what: bytes | None = None) -> Entries:
    """A signature of the small trace, or of something else."""
    return entries(signer, head_of(t.small()) if what is None else what, "it")


def bring(kid: bytes, *found: Entry, beside: FileSigner | None = PLAIN) -> Make:
    """The small trace with these entries of a key, beside a good signature of another."""

    def make() -> bytes:
        message = Signatures({kid: found})
        if beside:
            message = message.with_signature(beside.kid, *of(beside))
        return t.join(t.small(), message)

    return make


def changed(at: int, value: int = 1) -> Make:
    """The ML-DSA half of a signature, with bits flipped."""
    first, second = of(A)
    data = bytearray(second.signature)
    data[at] ^= value
    return bring(A.kid, first, replace(second, signature=bytes(data)))


def crossed() -> Make:
    """Each half signs what the other should."""
    head, (es256, ml_dsa) = head_of(t.small()), A.key.halves  # type: ignore[union-attr]
    one = sign_with(es256, to_be_signed(A.kid, head, Algorithm.ML_DSA_44))
    two = sign_with(ml_dsa, to_be_signed(A.kid, head, Algorithm.ES256))
    return bring(A.kid, Entry(Algorithm.ES256, one), Entry(Algorithm.ML_DSA_44, two, public_of(ml_dsa).raw))


def envelope(change: Callable[[bytes, int], bytes]) -> Make:
    """The envelope of a trace that both hybrid keys signed, changed at the first of their signatures."""
    return t.envelope(lambda data: change(data, 7), lambda: t.signed([A, B]))


def newer(signers: list[FileSigner], drop: int | None = None) -> Make:
    """A second version, with hybrid roots, signed by one of them and by roots of the first."""
    found = Policy("fleet", 2, t.keys([*HYBRIDS[:2], *t.ROOTS, *TRACERS]), Role(t.kids(MIXED), 2), (t.rule(),))
    signed = t.signed_policy(found, [*t.ROOTS[:2], *signers])
    if drop is not None:
        kept = tuple(one for i, one in enumerate(signed.signatures.by_kid[A.kid]) if i != drop)
        signed = signed.sign(A.kid, kept)
    return lambda: t.signed(policies=[signed])


ES256_OF_A, ML_DSA_OF_A = of(A)
ES256_OF_B, ML_DSA_OF_B = of(B)
OTHER_ES256, OTHER_ML_DSA = of(A, b"something else")
TAKEN: dict[str, Make] = {
    "both hybrid keys": lambda: t.signed([A, B]),
    "a hybrid key and one of ES256": lambda: t.signed([A, PLAIN]),
    "all three": lambda: t.signed(MIXED),
    "a hybrid key that it does not know, besides": lambda: t.signed([A, PLAIN, FOREIGN]),
    "one half of a key that it does not know, besides": lambda: t.join(
        t.small(), t.signatures(t.small(), [A, PLAIN]).with_signature(FOREIGN.kid, of(FOREIGN)[1])
    ),
}
THRESHOLD: dict[str, Make] = {
    "one hybrid key": lambda: t.signed([A]),
    "a hybrid key that it does not know": lambda: t.signed([PLAIN, FOREIGN]),
    "the ES256 half as a key of its own": lambda: t.signed([FileSigner(A.key.es256), PLAIN]),  # type: ignore[union-attr]
}
HALF: dict[str, Make] = {
    "the ES256 half only": bring(A.kid, ES256_OF_A),
    "the ML-DSA half only": bring(A.kid, ML_DSA_OF_A),
    "the ES256 half only, beside enough others": lambda: t.join(
        t.small(), t.signatures(t.small(), [B, PLAIN]).with_signature(A.kid, ES256_OF_A)
    ),
}
KEY: dict[str, Make] = {
    "the ML-DSA half of another hybrid key": bring(A.kid, ES256_OF_A, ML_DSA_OF_B),
    "another ML-DSA key": bring(A.kid, ES256_OF_A, replace(ML_DSA_OF_A, key=ML_DSA_OF_B.key)),
    "an ML-DSA key with a bit flipped": bring(
        A.kid, ES256_OF_A, replace(ML_DSA_OF_A, key=ML_DSA_OF_A.key[:-1] + bytes([ML_DSA_OF_A.key[-1] ^ 1]))
    ),
    "another ML-DSA key, and an ES256 half that is wrong": bring(A.kid, OTHER_ES256, ML_DSA_OF_B),
    "an ML-DSA key of zeros": bring(A.kid, ES256_OF_A, replace(ML_DSA_OF_A, key=bytes(1312))),
}
SIGNATURE: dict[str, Make] = {
    "an ES256 half of something else": bring(A.kid, OTHER_ES256, ML_DSA_OF_A),
    "an ML-DSA half of something else": bring(A.kid, ES256_OF_A, OTHER_ML_DSA),
    "both halves of something else": bring(A.kid, OTHER_ES256, OTHER_ML_DSA),
    "the ES256 half of another hybrid key": bring(A.kid, ES256_OF_B, ML_DSA_OF_A),
    "another's ML-DSA half with the right key": bring(
        A.kid, ES256_OF_A, replace(ML_DSA_OF_A, signature=ML_DSA_OF_B.signature)
    ),
    "ML-DSA: the challenge": changed(0),
    "ML-DSA: the last byte of the challenge": changed(31),
    "ML-DSA: the response": changed(1000),
    "ML-DSA: a response that is too long": bring(
        A.kid,
        ES256_OF_A,
        replace(ML_DSA_OF_A, signature=ML_DSA_OF_A.signature[:32] + bytes(64) + ML_DSA_OF_A.signature[96:]),
    ),
    "ML-DSA: a hint": changed(2420 - 84),
    "ML-DSA: more hints than there can be": changed(2419, 0xFF),
    "ML-DSA: zeros": bring(A.kid, ES256_OF_A, replace(ML_DSA_OF_A, signature=bytes(2420))),
    "each half signs what the other should": crossed(),
    "two halves of a key of ES256": bring(PLAIN.kid, *of(PLAIN), ML_DSA_OF_A, beside=A),
    "ML-DSA alone of a key of ES256": bring(PLAIN.kid, ML_DSA_OF_A, beside=A),
}
CHAIN: dict[str, Make] = {
    "hybrid roots: the ES256 half is missing": newer([A, B], drop=0),
    "hybrid roots: the ML-DSA half is missing": newer([A, B], drop=1),
    "hybrid roots: one of two": newer([A]),
}
BROKEN: dict[str, Make] = {
    "the halves are swapped": envelope(
        lambda d, at: (
            d[:at]
            + d[at + ES256_BYTES : at + ES256_BYTES + ML_DSA_BYTES]
            + d[at : at + ES256_BYTES]
            + d[at + ES256_BYTES + ML_DSA_BYTES :]
        )
    ),
    "the ML-DSA half twice": envelope(
        lambda d, at: (
            d[: at - 1] + bytes([d[at - 1] + 1]) + d[at : at + ES256_BYTES + ML_DSA_BYTES] + d[at + ES256_BYTES :]
        )
    ),
    "the ES256 half twice": envelope(
        lambda d, at: d[: at - 1] + bytes([d[at - 1] + 1]) + d[at : at + ES256_BYTES] + d[at:]
    ),
    "a byte is missing of an ML-DSA half": envelope(lambda d, at: d[: at + 500] + d[at + 501 :]),
    "a byte too many in an ML-DSA half": envelope(lambda d, at: d[: at + 500] + b"\0" + d[at + 500 :]),
    "it ends in an ML-DSA half": envelope(lambda d, at: d[:-1]),
    "it ends in an ML-DSA key": envelope(lambda d, at: d[: at + 2 * ES256_BYTES + 600]),
    "key type of an ML-DSA key": envelope(lambda d, at: d.replace(b"\xa3\1\7\3", b"\xa3\1\2\3")),
    "length of an ML-DSA key": envelope(lambda d, at: d.replace(b"\x20\x59\5\x20", b"\x20\x59\5\x21")),
    "length of an ML-DSA signature": envelope(lambda d, at: d.replace(b"\x59\x09\x74", b"\x59\x09\x75")),
    "ML-DSA-65": envelope(lambda d, at: d.replace(b"\xa2\1\x38\x2f", b"\xa2\1\x38\x30")),
    "an ML-DSA entry without its key": envelope(
        lambda d, at: d[: at + ES256_BYTES + 25] + b"\xa0" + d[at + ES256_BYTES + 25 + 16 + 1312 :]
    ),
}
