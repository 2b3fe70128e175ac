# SPDX-License-Identifier: BSD-2-Clause
"""What the newest version of a trust policy says of keys that the one before did not: whoever signs must know."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from signing.trust import Policy
from signing.trust_chain import Chain


class What(enum.StrEnum):
    """What became of a key."""

    ADDED = "added"
    REMOVED = "removed"
    REVOKED = "revoked"
    GIVEN_BACK = "given back"  # a right that an earlier version had and the one before had not
    CHANGED = "changed"


@dataclass(frozen=True)
class KeyChange:
    """A key that may do something else than before.

    Attributes:
        kid: its id, or of a revoked half of a key.
        what: what became of it.
        before, after: what it may do, in words.
    """

    kid: bytes
    what: What
    before: tuple[str, ...]
    after: tuple[str, ...]


def key_changes(chain: Chain) -> Iterator[KeyChange]:
    """Of the newest version against the one before, in ascending order of ids; nothing of a first version."""
    before, policy = chain.before, chain.last.policy
    if before is None:
        return
    earlier = [link.policy for link in chain.links[:-2]]
    named = {key.kid for one in (before, policy) for key in one.keys}
    for kid in sorted(named | (policy.revoked - before.revoked)):
        old, new = (tuple(one.roles_of(kid)) for one in (before, policy))
        what = _what(kid, before, policy, earlier)
        if what is not What.CHANGED or old != new:
            yield KeyChange(kid, what, old, new)


def _what(kid: bytes, before: Policy, policy: Policy, earlier: list[Policy]) -> What:
    if kid in policy.revoked:
        return What.REVOKED
    if policy.key(kid) is None:
        return What.REMOVED
    gained = set(policy.roles_of(kid)) - set(before.roles_of(kid))
    if any(gained.intersection(one.roles_of(kid)) for one in earlier):
        return What.GIVEN_BACK
    return What.CHANGED if before.key(kid) else What.ADDED
