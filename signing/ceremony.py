# SPDX-License-Identifier: BSD-2-Clause
"""Changing a trust policy: each change makes a version, which its root keys and those of the version before sign.

Until the newest version has a signature, changes go into it; then they begin the next one. What would lock a fleet
out, or could, is refused or said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from signing.errors import TrustError
from signing.keys import PublicKey
from signing.sign import Signer, entries
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain, Quorum, Signed
from signing.trust_keys import Key
from trace_format.schema.trust import MAX_TRUST_POLICIES, MAX_TRUST_REVOKED

DAY_S = 86_400
SOON_S = 30 * DAY_S
FEW_VERSIONS = 4
ROOT = "root"


@dataclass(frozen=True)
class Missing:
    """Signatures that a version lacks.

    Attributes:
        version: of the policy whose root keys they are of.
        quorum: which there are, and how many are missing.
    """

    version: int
    quorum: Quorum

    @property
    def candidates(self) -> list[bytes]:
        """Ids of the keys that can still sign."""
        return sorted(self.quorum.role.kids - self.quorum.signed)


def start(
    name: str, roots: Iterable[PublicKey], root_threshold: int, tracers: Iterable[PublicKey], trace_threshold: int
) -> Chain:
    """Version 1: who signs policies, and, unless nobody is named yet, who signs traces of all names.

    Raises:
        TrustError: a key that no policy names, or thresholds that the keys cannot meet.
    """
    root, trace = list(roots), list(tracers)
    for key in (*root, *trace):
        check_kind(key)
    keys = {key.kid: Key.of(key) for key in (*root, *trace)}
    role = Role(frozenset(key.kid for key in root), root_threshold)
    rules = (Rule("", Role(frozenset(key.kid for key in trace), trace_threshold), prefix=True),) if trace else ()
    return Chain((Signed.unsigned(_checked(Policy(name, 1, tuple(keys.values()), role, rules))),))


def _checked(policy: Policy) -> Policy:
    """A policy whose roles can be filled: none requires more signatures than it has keys.

    Raises:
        TrustError: names the role.
    """
    for name, role in roles(policy):
        if len(role.kids) < role.threshold:
            raise TrustError(
                f"threshold of the role that signs {what(name)}",
                expected=f"1 to {len(role.kids)}, as many as it has keys",
                found=role.threshold,
            )
    return policy


def check_kind(key: PublicKey) -> None:
    """Raise TrustError for a key that no policy names."""
    Key.of(key)


def changed(chain: Chain, change: Callable[[Policy], Policy]) -> Chain:
    """A chain whose newest version, or the next one, is changed.

    Raises:
        TrustError: the newest has some of the signatures that it needs, or what comes out is no policy.
    """
    last = chain.last
    if not last.signatures.by_kid:
        return Chain((*chain.links[:-1], Signed.unsigned(_checked(change(last.policy)))))
    if missing(chain):
        raise TrustError(
            f"version {last.policy.version} has some of its signatures: it can be changed no more. "
            "Let the others sign it ('gramophone policy sign'), or take it back ('gramophone policy drop')"
        )
    policy = _checked(change(replace(last.policy, version=last.policy.version + 1)))
    return Chain((*chain.links, Signed.unsigned(policy)))


def dropped(chain: Chain) -> Chain:
    """Without the newest version, which must not be complete; TrustError where it is, or is the only one."""
    if not missing(chain):
        raise TrustError(f"version {chain.last.policy.version} is complete: devices may have it")
    if len(chain.links) == 1:
        raise TrustError("version 1 is the only one: remove the file to begin again")
    return Chain(chain.links[:-1])


def allowed(policy: Policy, rule: Rule, keys: Iterable[PublicKey]) -> Policy:
    """With a rule, instead of the one of the same names; the order is from the longest name to the shortest."""
    for key in keys:
        check_kind(key)
    rules = [one for one in policy.rules if one.pattern != rule.pattern]
    rules = sorted([*rules, rule], key=lambda one: (one.prefix, -len(one.name)))
    return _with_keys(replace(policy, rules=tuple(rules)), keys)


def added(policy: Policy, key: PublicKey, role: str) -> Policy:
    """With a key in a role: ROOT, or a rule's pattern."""
    check_kind(key)

    def more(one: Role) -> Role:
        if key.kid in one.kids:
            raise TrustError(f"key {key.kid.hex()} has this role already: {role}")
        return replace(one, kids=one.kids | {key.kid})

    return _with_keys(_in_role(policy, role, more), [key])


def _check_has(policy: Policy, kid: bytes) -> Key:
    """A key of a policy; TrustError where it has no such key."""
    key = policy.key(kid)
    if key is None:
        raise TrustError(
            f"version {policy.version} has no key {kid.hex()}", expected=_kids(policy), found=kid.hex()
        )
    return key


def revoked(policy: Policy, kid: bytes) -> Policy:
    """Without a key, in no role any more, and marked as revoked: of a hybrid key also its halves."""
    key = _check_has(policy, kid)
    for name, role in roles(policy):
        if kid in role.kids and len(role.kids) - 1 < role.threshold:
            raise TrustError(
                f"without key {kid.hex()} nobody could sign {what(name)} any more: {role.threshold} "
                f"signatures are needed, {len(role.kids) - 1} keys would be left. Give it another key first "
                "('gramophone policy add-key'), or in one step ('gramophone policy rotate')"
            )
    gone = policy.revoked | {kid, *key.halves}
    if len(gone) > MAX_TRUST_REVOKED:
        raise TrustError(
            f"no room to revoke key {kid.hex()}: revocations are permanent. Give devices firmware with a trust "
            "policy of another name ('gramophone policy init')",
            expected=f"at most {MAX_TRUST_REVOKED} ids",
            found=len(gone),
        )
    return replace(
        policy,
        keys=tuple(key for key in policy.keys if key.kid != kid),
        root=policy.root.without(kid),
        rules=tuple(replace(rule, role=rule.role.without(kid)) for rule in policy.rules),
        revoked=gone,
    )


def rotated(policy: Policy, kid: bytes, key: PublicKey, *, overlap: bool = False) -> Policy:
    """With a key in all roles of another one, which is revoked unless both are to count for a while.

    A key that is half of the new one, as one of ES256 is of a hybrid key, is taken out but cannot be revoked.
    """
    check_kind(key)
    old = _check_has(policy, kid)
    if key.kid in policy.revoked or key.kid == kid:
        raise TrustError(f"key {key.kid.hex()} cannot take its place: it is revoked, or the same")

    is_half = old.is_one_person(Key.of(key)) and not overlap

    def more(one: Role) -> Role:
        kept = one.kids - {kid} if is_half else one.kids
        return replace(one, kids=kept | {key.kid}) if kid in one.kids else one

    both = replace(
        policy,
        root=more(policy.root),
        rules=tuple(replace(rule, role=more(rule.role)) for rule in policy.rules),
    )
    both = _with_keys(both, [key])
    return both if overlap or is_half else revoked(both, kid)


def thresholds(policy: Policy, role: str, threshold: int) -> Policy:
    """With another threshold of a role."""
    return _in_role(policy, role, lambda one: replace(one, threshold=threshold))


def expiring(policy: Policy, not_after: int) -> Policy:
    """With another end, in seconds since 1970 (UTC); 0: none."""
    return replace(policy, not_after=not_after)


def roles(policy: Policy) -> Iterator[tuple[str, Role]]:
    """All roles with their names: ROOT, and the patterns of the rules."""
    yield ROOT, policy.root
    for rule in policy.rules:
        yield rule.pattern, rule.role


def what(role: str) -> str:
    """What a role signs, in words."""
    return "policies" if role == ROOT else f"traces named {role}"


def missing(chain: Chain) -> list[Missing]:
    """What the newest version lacks; [] if it is complete."""
    before = chain.before
    versions = [*([before.version] if before else []), chain.last.policy.version]
    quorums = chain.last.quorums(before)
    return [Missing(version, found) for version, found in zip(versions, quorums, strict=True) if not found]


def sign(chain: Chain, signer: Signer) -> Chain:
    """With a signature of the newest version.

    Raises:
        TrustError: the key is no root key, neither of this version nor of the one before.
        SignerError: what the signer gave is not a signature of it.
    """
    public, last = signer.public, chain.last
    check_root(chain, public)
    found = entries(signer, last.payload, f"version {last.policy.version} of the policy")
    return Chain((*chain.links[:-1], last.sign(public.kid, found)))


def check_root(chain: Chain, public: PublicKey) -> None:
    """Raise TrustError for a key whose signature of the newest version counts for nothing."""
    policies = [chain.last.policy, *([chain.before] if chain.before else [])]
    if not any(public.kid in policy.root.kids for policy in policies):
        names = ", ".join(sorted({kid.hex() for policy in policies for kid in policy.root.kids}))
        raise TrustError(
            "a key that does not sign trust policies", expected=f"one of {names}", found=public.kid.hex()
        )


def warnings(chain: Chain, now: float | None = None) -> Iterator[str]:
    """What could lock a fleet out, or let too many in, of the newest version."""
    policy, now = chain.last.policy, time.time() if now is None else now
    for name, role in roles(policy):
        if len(role.kids) == role.threshold:
            most = "its key" if role.threshold == 1 else f"one of its {role.threshold} keys"
            yield f"if {most} is lost, nobody can sign {what(name)} any more: give the role one to spare"
    if policy.root.threshold == 1:
        yield "whoever has one root key can change who signs what: a threshold of 2 takes two"
    if both := sorted(policy.root.kids & {kid for rule in policy.rules for kid in rule.role.kids}):
        yield f"key {both[0].hex()} signs policies and traces: a key that signs every week is more easily stolen"
    if not policy.rules:
        yield "nobody can sign traces yet ('gramophone policy allow')"
    if policy.not_after and policy.not_after < now:
        yield "it has expired: devices with a clock refuse all traces under it"
    elif policy.not_after and policy.not_after < now + SOON_S:
        days = (policy.not_after - now) / DAY_S
        yield f"it expires in {days:.0f} days: devices with a clock refuse all traces then"
    if policy.not_before > now:
        yield "it does not hold yet: devices with a clock refuse all traces under it until then"
    if (left := MAX_TRUST_POLICIES - len(chain.links) + 1) < FEW_VERSIONS:
        yield f"{left} more versions fit into signed traces: then devices need firmware with a newer trust policy"
    if (room := MAX_TRUST_REVOKED - len(policy.revoked)) < FEW_VERSIONS:
        hint = "then devices need a trust policy of another name"
        yield f"{room} more keys can be revoked (a hybrid key is 3): {hint}"
    for key in policy.keys:
        if key.first is None:
            yield f"key {key.kid.hex()} is no point of its curve that anybody can sign for"
    before = chain.before
    if before and not policy.root.kids & before.root.kids:
        yield "no root key is one of the version before: try the new ones before the old ones are gone"


def _in_role(policy: Policy, role: str, change: Callable[[Role], Role]) -> Policy:
    if role == ROOT:
        return replace(policy, root=change(policy.root))
    if role not in {rule.pattern for rule in policy.rules}:
        known = ", ".join(name for name, _ in roles(policy))
        raise TrustError("no such role", expected=f"one of {known}", found=role)
    rules = (replace(rule, role=change(rule.role)) if rule.pattern == role else rule for rule in policy.rules)
    return replace(policy, rules=tuple(rules))


def _with_keys(policy: Policy, keys: Iterable[PublicKey]) -> Policy:
    """With keys that roles name, and without those that none does any more."""
    every = {key.kid: key for key in policy.keys} | {key.kid: Key.of(key) for key in keys}
    if gone := sorted(policy.revoked & {key.kid for key in keys}):
        raise TrustError(f"key {gone[0].hex()} is revoked: make a new one")
    named = {kid for _, role in roles(policy) for kid in role.kids}
    return replace(policy, keys=tuple(every[kid] for kid in every if kid in named))


def _kids(policy: Policy) -> str:
    return f"one of {', '.join(key.kid.hex() for key in policy.keys)}"
