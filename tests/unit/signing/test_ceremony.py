# SPDX-License-Identifier: BSD-2-Clause
"""Changing a trust policy: versions, who signs them, and what would lock a fleet out."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from signing import ceremony as c
from signing import keys
from signing.errors import TrustError
from signing.keys import Algorithm, HybridPrivateKey, generate
from signing.sign import FileSigner
from signing.trust import Policy, Role
from signing.trust_chain import Chain, Signed
from signing.trust_keys import Key
from tests.support.trust_samples import HYBRIDS, ROOTS, STRANGER, TRACERS, kids, policy, rule

A, B, C = (signer.public for signer in ROOTS)
NEW = STRANGER.public


def started(threshold: int = 2) -> Chain:
    return c.start("fleet", [A, B, C], threshold, [one.public for one in TRACERS], 2)


def complete(chain: Chain, *signers: FileSigner) -> Chain:
    for signer in signers or ROOTS[:2]:
        chain = c.sign(chain, signer)
    return chain


def test_a_first_version() -> None:
    chain = started()
    assert chain.last.policy == policy()
    assert [(one.version, one.quorum.missing) for one in c.missing(chain)] == [(1, 2)]
    assert c.missing(c.sign(chain, ROOTS[0]))[0].candidates == sorted(kids(ROOTS[1:]))
    assert c.missing(complete(chain)) == []


def test_versions_begin_when_one_is_signed() -> None:
    """Until then changes go into it; while it has some of its signatures, none does."""
    chain = c.changed(started(), lambda found: c.expiring(found, 99))
    assert [link.policy.version for link in chain.links] == [1]
    with pytest.raises(TrustError, match="version 1 has some of its signatures"):
        c.changed(c.sign(chain, ROOTS[0]), lambda found: found)
    chain = c.changed(complete(chain), lambda found: c.expiring(found, 100))
    assert [(link.policy.version, link.policy.not_after) for link in chain.links] == [(1, 99), (2, 100)]
    again = c.changed(chain, lambda found: c.expiring(found, 101))
    assert [link.policy.not_after for link in again.links] == [99, 101]
    assert c.dropped(again).last.policy.not_after == 99
    for whole, text in ((complete(chain), "version 2 is complete"), (started(), "is the only one")):
        with pytest.raises(TrustError, match=text):
            c.dropped(whole)


def test_a_root_is_rotated() -> None:
    """The version before and the new one sign: one signature of B counts for both."""
    chain = c.changed(complete(started()), lambda found: c.rotated(found, A.kid, NEW))
    assert [(one.version, one.quorum.missing) for one in c.missing(chain)] == [(1, 2), (2, 2)]
    chain = c.sign(chain, ROOTS[1])
    assert [one.quorum.missing for one in c.missing(chain)] == [1, 1]
    with_new = c.sign(chain, STRANGER)
    assert [(one.version, one.candidates) for one in c.missing(with_new)] == [(1, sorted([A.kid, C.kid]))]
    assert c.missing(c.sign(with_new, ROOTS[0])) == []
    assert c.missing(c.sign(chain, ROOTS[2])) == []
    assert chain.last.policy.revoked == {A.kid}


def test_two_keys_overlap() -> None:
    old = TRACERS[0].kid
    both = c.rotated(policy(), old, NEW, overlap=True)
    assert both.rules[0].role == Role(kids(TRACERS) | {NEW.kid}, 2)
    assert both.revoked == frozenset()
    later = c.revoked(both, old)
    assert later.rules[0].role == Role(kids(TRACERS[1:]) | {NEW.kid}, 2)
    assert later.key(old) is None


def test_rules_lie_from_the_longest_name_to_the_shortest() -> None:
    found = policy()
    for name, prefix in (("le", True), ("lenet", True), ("lenet", False), ("mobilenet-v2", False)):
        found = c.allowed(found, rule(name, prefix=prefix), [])
    assert [one.pattern for one in found.rules] == ["mobilenet-v2", "lenet", "lenet*", "le*", "*"]
    found = c.allowed(found, rule("le", 3, prefix=True), [])
    assert [one.role.threshold for one in found.rules] == [2, 2, 2, 3, 2]


def test_a_key_is_added() -> None:
    found = c.added(policy(), NEW, "root")
    assert found.root == Role(kids(ROOTS) | {NEW.kid}, 2)
    found = c.added(found, NEW, "*")
    assert found.roles_of(NEW.kid) == ["policies", "traces *"]
    assert c.thresholds(found, "*", 4).rules[0].role.threshold == 4


HYBRID = HYBRIDS[0]
assert isinstance(HYBRID.key, HybridPrivateKey)
HALF = FileSigner(HYBRID.key.es256)


def test_a_key_becomes_half_of_a_hybrid_one() -> None:
    """It is taken out, and cannot be revoked: that would revoke the hybrid key as well."""
    found = c.added(policy(), HALF.public, "root")
    found = c.rotated(found, HALF.kid, HYBRID.public)
    assert found.root.kids == kids([*ROOTS, HYBRID])
    assert found.revoked == frozenset()
    assert Policy.decode(found.encode()) == found
    both = c.rotated(c.added(policy(), HALF.public, "root"), HALF.kid, HYBRID.public, overlap=True)
    with pytest.raises(TrustError, match="are one person's"):
        both.encode()


def test_a_hybrid_key_is_revoked_with_its_halves() -> None:
    """Neither comes back as a key of its own or in another hybrid one."""
    found = c.revoked(c.added(policy(), HYBRID.public, "root"), HYBRID.kid)
    assert found.revoked == {HYBRID.kid, HALF.kid, hashlib.sha256(HYBRID.public.halves[1].raw).digest()[:16]}
    for public in (HALF.public, HYBRID.public):
        with pytest.raises(TrustError, match="is revoked: make a new one"):
            c.added(found, public, "root")
    for halves in ((HALF.public, HYBRIDS[1].public.halves[1]), (NEW, HYBRID.public.halves[1])):
        with pytest.raises(TrustError, match="a key that is revoked and has rights"):
            c.added(found, keys.hybrid(halves), "root").encode()


def test_revocations_are_for_ever() -> None:
    """There is room for 32, and a warning before they are used up."""
    full = replace(policy(), revoked=frozenset(bytes([number]) * 16 for number in range(29)))
    assert any("3 more keys can be revoked" in text for text in c.warnings(Chain((Signed.unsigned(full),))))
    full = replace(full, revoked=frozenset(bytes([number]) * 16 for number in range(32)))
    with pytest.raises(TrustError, match=r"no room to revoke key .* expected at most 32 ids, found 33"):
        c.revoked(full, A.kid)


def test_a_key_that_nobody_can_sign_for_is_told() -> None:
    nobody = Key(b"\4" + bytes(64))
    chain = Chain((Signed.unsigned(replace(policy(), keys=(*policy().keys, nobody))),))
    assert any(f"key {nobody.kid.hex()} is no point" in text for text in c.warnings(chain))


def revoked_new() -> Policy:
    return c.revoked(c.added(policy(), NEW, "root"), NEW.kid)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: c.added(p, A, "root"), "has this role already"),
        (lambda p: c.added(p, NEW, "net*"), r"no such role: expected one of root, \*, found net\*"),
        (lambda p: c.added(revoked_new(), NEW, "root"), "is revoked: make a new one"),
        (lambda p: c.rotated(revoked_new(), A.kid, NEW), "it is revoked, or the same"),
        (lambda p: c.rotated(p, A.kid, A), "it is revoked, or the same"),
        (lambda p: c.rotated(p, NEW.kid, NEW), "has no key"),
        (lambda p: c.revoked(p, NEW.kid), "has no key"),
        (lambda p: c.revoked(c.revoked(p, A.kid), B.kid), "nobody could sign policies any more: 2 signatures"),
        (
            lambda p: c.revoked(c.thresholds(p, "*", 3), TRACERS[0].kid),
            r"nobody could sign traces named \* any more",
        ),
        (
            lambda p: c.added(p, FileSigner(generate(Algorithm.ML_DSA_44)).public, "root"),
            "expected ES256 or ES256.ML-DSA-44 or ES384 or EdDSA, found ML-DSA-44",
        ),
        (lambda p: c.thresholds(p, "nets", 1), "no such role"),
    ],
)
def test_changes_that_are_refused(change: object, text: str) -> None:
    assert callable(change)
    with pytest.raises(TrustError, match=text):
        c.changed(started(), change)


@pytest.mark.parametrize("threshold", [0, 4])
def test_thresholds_that_cannot_be_met(threshold: int) -> None:
    with pytest.raises(TrustError, match=r"keys and threshold|as many as it has keys"):
        started(threshold)


def test_who_may_sign() -> None:
    for signer in (STRANGER, TRACERS[0]):
        with pytest.raises(TrustError, match="a key that does not sign trust policies"):
            c.sign(started(), signer)


NOW = 1_000_000_000


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        (policy(), []),
        (policy(root=Role(kids(ROOTS), 3)), ["one of its 3 keys is lost, nobody can sign policies"]),
        (policy(root=Role(kids(ROOTS[:1]), 1)), ["if its key is lost", "whoever has one root key"]),
        (policy(rule(signers=ROOTS)), ["signs policies and traces"]),
        (policy(not_after=NOW - 1), ["it has expired"]),
        (policy(not_after=NOW + 9 * c.DAY_S), ["it expires in 9 days"]),
        (policy(not_after=NOW + 31 * c.DAY_S), []),
        (policy(not_before=NOW + 1), ["it does not hold yet"]),
    ],
)
def test_what_could_lock_a_fleet_out_is_said(found: Policy, texts: list[str]) -> None:
    said = list(c.warnings(Chain((Signed.unsigned(found),)), NOW))
    assert len(said) == len(texts)
    for one, text in zip(said, texts, strict=True):
        assert text in one


def test_warnings_about_versions() -> None:
    chain = complete(started())
    for _ in range(29):
        chain = complete(c.changed(chain, lambda found: c.expiring(found, found.not_after + c.SOON_S)))
    assert any("3 more versions fit" in text for text in c.warnings(chain, 0))
    other = c.changed(complete(started()), lambda found: c.thresholds(c.rotated(found, A.kid, NEW), "root", 1))
    assert not any("no root key" in text for text in c.warnings(other, 0))
    assert not list(c.warnings(c.start("a", [A, B], 1, [], 1), 0))[-1].startswith("no root")
