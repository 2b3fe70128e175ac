# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of whose a trust policy's keys are: ids of other keys, one person twice, rights given back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric import ec

from signing import curves
from signing.keys import HybridPrivateKey, PrivateKey, public_of
from signing.trust import Policy, Role
from signing.trust_keys import Key
from tests.support import trust_samples as t
from tests.support.trust_case import Case, resigned
from tests.support.trust_samples import EDWARDS, HYBRIDS, ROOTS, STRANGER, TRACERS, WIDE, policy, rule
from trace_format.schema.report import Status as S
from trace_format.schema.trust import MAX_TRUST_REVOKED, KeyKind

Make = Callable[[int, bool], Policy]  # of a version, and whether it is about root keys


@dataclass(frozen=True)
class Renamed(Key):
    """A row whose id is not the key's."""

    said: bytes = b""

    @property
    def kid(self) -> bytes:  # of all other keys it is computed
        return self.said


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def of_another_kind(key: Key) -> bytes:
    if key.kind is KeyKind.ES256_ML_DSA_44:
        return key.halves[0]
    return Key(key.raw, KeyKind.ES384 if key.kind is KeyKind.ES256 else KeyKind.ES256).kid


KINDS = {"ES256": STRANGER, "hybrid": HYBRIDS[0], "ES384": WIDE[0], "Ed25519": EDWARDS[0]}
BOB = public_of(ec.derive_private_key(0xB0B, ec.SECP256R1()))
WRONG_IDS: dict[str, Callable[[Key], bytes]] = {
    "another key's": lambda key: BOB.kid,
    "zeros": lambda key: bytes(16),
    "the first bit flipped": lambda key: flipped(key.kid, 0),
    "the last bit flipped": lambda key: flipped(key.kid, 15),
    "the hash of the key alone": lambda key: hashlib.sha256(key.raw).digest()[:16],
    "as of another kind": of_another_kind,
}


def with_keys(version: int, is_root: bool, *keys: Key) -> Policy:
    """The policy with more keys, which sign policies or traces."""
    found = policy(version=version)
    more = frozenset(key.kid for key in keys)
    root, (first,) = found.root, found.rules
    if is_root:
        root = replace(root, kids=root.kids | more)
    else:
        first = replace(first, role=replace(first.role, kids=first.role.kids | more))
    return replace(found, keys=(*found.keys, *keys), root=root, rules=(first,))


def newer(*policies: Policy) -> Callable[[], bytes]:
    """A trace with policies that two roots have signed, whatever they are."""
    return lambda: t.signed(policies=[resigned(one.packed()) for one in policies])


def everywhere(name: str, status: S, make: Make) -> Iterator[tuple[str, Case]]:
    """In the device's own policy and in a newer one, of root keys and of those of traces."""
    for is_root, who in ((True, "root"), (False, "traces")):
        own = make(1, is_root)
        given = (
            Case(t.signed, status, malformed=own.packed()) if status is S.TRUST else Case(t.signed, status, own)
        )
        yield f"{name}: own, {who}", given
        yield f"{name}: newer, {who}", Case(newer(make(2, is_root)), status)


def ids() -> Iterator[tuple[str, Case]]:
    """A row with an id that is not its key's."""
    for title, signer in KINDS.items():
        key = Key.of(signer.public)
        for name, wrong in WRONG_IDS.items():
            row = Renamed(key.raw, key.kind, wrong(key))
            make = lambda version, is_root, row=row: with_keys(version, is_root, row)  # noqa: E731
            yield from everywhere(f"id of {title}: {name}", S.TRUST, make)


def of(key: PrivateKey) -> Key:
    return Key.of(public_of(key))


def negative(key: PrivateKey) -> Key:
    """The key of the same x, for which the same person can sign."""
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    order = curves.P384_ORDER if isinstance(key.curve, ec.SECP384R1) else curves.P256_ORDER
    return of(ec.derive_private_key(order - key.private_numbers().private_value, key.curve))


def half(number: int) -> HybridPrivateKey:
    found = HYBRIDS[number].key
    assert isinstance(found, HybridPrivateKey)
    return found


E, M, E2, M2 = *half(0).halves, *half(1).halves
E_M = of(half(0))
SAME_NUMBER = 0x3847654321  # a private key on two curves: nothing that a device knows shows it
PEOPLE: dict[str, tuple[S, Key, Key]] = {
    "ES256 beside a hybrid of it": (S.TRUST, of(E), E_M),
    "ES256 of the other sign beside a hybrid": (S.TRUST, negative(E), E_M),
    "ES256 and the other sign": (S.TRUST, of(E), negative(E)),
    "ES384 and the other sign": (S.TRUST, of(WIDE[0].key), negative(WIDE[0].key)),
    "Ed25519 and the other sign": (
        S.TRUST,
        of(EDWARDS[0].key),
        Key(EDWARDS[0].public.raw[:31] + bytes([EDWARDS[0].public.raw[31] ^ 0x80]), KeyKind.ED25519),
    ),
    "hybrids of one ES256 half": (S.TRUST, E_M, Key(of(E).raw + of(half(1)).ml_dsa_hash, KeyKind.ES256_ML_DSA_44)),
    "hybrids of one ML-DSA half": (S.TRUST, E_M, Key(of(E2).raw + E_M.ml_dsa_hash, KeyKind.ES256_ML_DSA_44)),
    "x of ES256 as y of Ed25519": (S.TRUST, of(E), Key(of(E).raw[1:33], KeyKind.ED25519)),
    "two hybrids": (S.OK, E_M, of(half(1))),
    "a hybrid and ES256": (S.OK, E_M, of(E2)),
    "one number on two curves": (
        S.OK,
        of(ec.derive_private_key(SAME_NUMBER, ec.SECP256R1())),
        of(ec.derive_private_key(SAME_NUMBER, ec.SECP384R1())),
    ),
}


def people() -> Iterator[tuple[str, Case]]:
    """Two keys of one person, and some that are not, or of whom nobody can know it."""
    for name, (status, *keys) in PEOPLE.items():
        make = lambda version, is_root, keys=keys: with_keys(version, is_root, *keys)  # noqa: E731
        yield from everywhere(f"people: {name}", status, make)


ANN, GONE, LEFT = TRACERS[0].kid, STRANGER.kid, BOB.kid
MANY = frozenset(bytes([number]) * 16 for number in range(MAX_TRUST_REVOKED))


def revoking(version: int, *revoked: bytes, **changes: object) -> Policy:
    """A policy that revokes keys, and has none of them."""
    found = policy(rule(signers=[one for one in TRACERS if one.kid not in revoked]), version=version)
    keys = tuple(key for key in found.keys if key.kid not in revoked)
    return replace(found, **{"keys": keys, "revoked": frozenset(revoked), **changes})  # type: ignore[arg-type]


def back(*versions: Policy, own: Policy, status: S) -> Case:
    """Signed by the two keys that have rights in all of these cases."""
    return Case(lambda: t.signed(TRACERS[1:], [resigned(one.packed()) for one in versions]), status, own)


def half_revoked(kid: bytes) -> Make:
    return lambda version, is_root: replace(with_keys(version, is_root, E_M), revoked=frozenset([kid]))


RIGHTS: dict[str, Case] = {
    "a revocation stays": back(revoking(2, GONE), own=revoking(1, GONE), status=S.OK),
    "one more": back(revoking(2, GONE, LEFT), own=revoking(1, GONE), status=S.OK),
    "32 of 32 stay": back(revoking(2, *MANY), own=revoking(1, *MANY), status=S.OK),
    "taken back": back(revoking(2), own=revoking(1, GONE), status=S.TRUST_CHAIN),
    "one of two taken back": back(revoking(2, GONE), own=revoking(1, GONE, LEFT), status=S.TRUST_CHAIN),
    "another one in its place": back(revoking(2, LEFT), own=revoking(1, GONE), status=S.TRUST_CHAIN),
    "one bit of it flipped": back(revoking(2, flipped(GONE, 15)), own=revoking(1, GONE), status=S.TRUST_CHAIN),
    "31 of 32 stay": back(revoking(2, *sorted(MANY)[:31]), own=revoking(1, *MANY), status=S.TRUST_CHAIN),
    "taken back by the third": back(revoking(2, GONE), revoking(3), own=revoking(1), status=S.TRUST_CHAIN),
    "kept by the third": back(revoking(2, GONE), revoking(3, GONE), own=revoking(1), status=S.OK),
    "the key has its rights again": back(policy(version=2), own=revoking(1, ANN), status=S.TRUST_CHAIN),
    "a right, and it is still revoked": back(
        policy(version=2, revoked=frozenset([ANN])), own=revoking(1, ANN), status=S.TRUST
    ),
    "a root key has its rights again": back(
        policy(version=2),
        own=revoking(1, ROOTS[2].kid, root=Role(t.kids(ROOTS[:2]), 2)),
        status=S.TRUST_CHAIN,
    ),
    "an older policy without it is passed over": back(revoking(1), own=revoking(2, GONE), status=S.OK),
    "a key that was left out, not revoked": back(
        policy(version=2), own=replace(revoking(1, ANN), revoked=frozenset()), status=S.OK
    ),
}


def rights() -> Iterator[tuple[str, Case]]:
    """Revocations that are taken back; and a revoked key that comes back in, or as, half of another one."""
    yield from ((f"rights: {name}", case) for name, case in RIGHTS.items())
    for name, kid, status in (
        ("a hybrid that is revoked", E_M.kid, S.TRUST),
        ("a hybrid whose ES256 half is", E_M.halves[0], S.TRUST),
        ("a hybrid whose ML-DSA half is", E_M.halves[1], S.TRUST),
        ("a hybrid beside a revoked one", of(half(1)).kid, S.OK),
    ):
        yield from everywhere(f"rights: {name}", status, half_revoked(kid))


CASES: dict[str, Case] = {**dict(ids()), **dict(people()), **dict(rights())}
