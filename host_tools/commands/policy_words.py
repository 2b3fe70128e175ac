# SPDX-License-Identifier: BSD-2-Clause
"""What the commands of `gramophone policy` say of a policy, for people and for `--json`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path

from host_tools.support.results import Count, Id, Positive, Result
from signing import ceremony
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain
from signing.trust_changes import KeyChange, What, key_changes
from trace_format.schema import Gpu
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

SECOND_US = 1_000_000


class RoleFacts(Result):
    """Who may do something.

    Attributes:
        role: Root, or the names of a rule.
    """

    role: str
    threshold: Positive
    keys: list[Id]


class MissingSignatures(Result):
    """What a version lacks.

    Attributes:
        version: Whose root keys.
    """

    version: Positive
    signatures: Count
    of: list[Id]
    bad: list[Id]


class ChangedKey(Result):
    """A key that may do something else.

    Attributes:
        what: Given back: a right that an earlier version had.
        before: What it was for.
        after: What it is for.
    """

    key: Id
    what: What
    before: Sequence[str]
    after: Sequence[str]


class PolicyChanges(Result):
    """What differs from the version before.

    Attributes:
        since: The version before.
        rights_before: Of roles, rules and validity, those that are no more, as people read them.
        rights_after: Those that are new.
    """

    since: Positive
    keys: list[ChangedKey]
    rights_before: list[str]
    rights_after: list[str]


class PolicyFacts(Result):
    """The newest version of a trust policy.

    Attributes:
        policy_id: First half of the SHA-256 of the policy's bytes.
        complete: It has all signatures that devices want.
        not_before: Seconds since 1970 (UTC); 0: always.
        not_after: 0: for ever.
        changes: Null: this is the first.
    """

    file: str
    name: str
    version: Positive
    policy_id: Id
    bytes: Count
    complete: bool
    not_before: Count
    not_after: Count
    roles: list[RoleFacts]
    revoked: list[Id]
    signed_by: list[Id]
    missing: list[MissingSignatures]
    changes: PolicyChanges | None
    written: bool


def data(file: Path, chain: Chain, *, written: bool) -> PolicyFacts:
    """The newest version, for JSON."""
    policy = chain.last.policy
    return PolicyFacts(
        file=str(file),
        name=policy.name,
        version=policy.version,
        policy_id=policy.kid.hex(),
        bytes=len(chain.last.payload),
        complete=not ceremony.missing(chain),
        not_before=policy.not_before,
        not_after=policy.not_after,
        roles=[
            RoleFacts(name, role.threshold, sorted(kid.hex() for kid in role.kids))
            for name, role in ceremony.roles(policy)
        ],
        revoked=sorted(kid.hex() for kid in policy.revoked),
        signed_by=sorted(kid.hex() for kid in chain.last.signatures.by_kid),
        missing=[
            MissingSignatures(
                one.version,
                one.quorum.missing,
                [kid.hex() for kid in one.candidates],
                sorted(kid.hex() for kid in one.quorum.bad),
            )
            for one in ceremony.missing(chain)
        ],
        changes=_changes_data(chain),
        written=written,
    )


def lines(file: Path, chain: Chain) -> list[str]:
    """The same for people."""
    policy, lacking = chain.last.policy, ceremony.missing(chain)
    state = (
        "not signed yet" if not chain.last.signatures.by_kid else "signatures missing" if lacking else "complete"
    )
    rows = [
        *_rights(policy),
        *((f"keys of {title}", _listed(kids)) for title, kids in _others(policy)),
        *([("revoked", _listed(policy.revoked))] if policy.revoked else []),
        ("holds", _validity(policy)),
        *_changes(chain),
        *([("signed by", _listed(chain.last.signatures.by_kid))] if chain.last.signatures.by_kid else []),
        *(("missing", _missing(one)) for one in lacking),
    ]
    first = f"{file}: policy {policy.name}, version {policy.version} ({policy.kid.hex()}), {state}"
    return [first, *(f"{name:16} {text}" for name, text in rows)]


def _rights(policy: Policy) -> list[tuple[str, str]]:
    """Who may do what."""
    return [
        ("policies", _role(policy.root)),
        *((f"traces {rule.pattern}", f"{_role(rule.role)}{_conditions(rule)}") for rule in policy.rules),
    ]


def _changed_rights(chain: Chain) -> tuple[list[str], list[str]]:
    """Rights that only the version before has, and those of the newest only; all where just the order differs."""
    policies = chain.before or chain.last.policy, chain.last.policy
    old, new = (
        [f"{name}: {text}" for name, text in (*_rights(one), ("holds", _validity(one)))] for one in policies
    )
    gone, added = [row for row in old if row not in new], [row for row in new if row not in old]
    return (gone, added) if gone or added or old == new else (old, new)


def _changes_data(chain: Chain) -> PolicyChanges | None:
    if chain.before is None:
        return None
    gone, added = _changed_rights(chain)
    keys = [ChangedKey(one.kid.hex(), one.what, one.before, one.after) for one in key_changes(chain)]
    return PolicyChanges(chain.before.version, keys, gone, added)


def _changes(chain: Chain) -> list[tuple[str, str]]:
    """What differs from the version before: keys, then rights."""
    if chain.before is None:
        return []
    gone, added = _changed_rights(chain)
    rows = [
        *map(_key_change, key_changes(chain)),
        *(f"was: {row}" for row in gone),
        *(f"now: {row}" for row in added),
    ]
    return [(f"since version {chain.before.version}", row) for row in rows or ["nothing changed"]]


def _key_change(one: KeyChange) -> str:
    rights = [", ".join(roles) or "nothing" for roles in (one.before, one.after)]
    return f"{one.what} {one.kid.hex()}: {rights[0]} before, {rights[1]} now"


def _role(role: Role) -> str:
    return f"{role.threshold} of {len(role.kids)}: {_listed(role.kids)}"


def _others(policy: Policy) -> list[tuple[str, list[bytes]]]:
    """Keys of other algorithms than ES256, by what these are called."""
    titles = sorted({key.title for key in policy.keys if key.kind is not KeyKind.ES256})
    return [(title, [key.kid for key in policy.keys if key.title == title]) for title in titles]


def _conditions(rule: Rule) -> str:
    gpus = {int(gpu): gpu.name.lower() for gpu in Gpu}
    found = [
        f"on {gpus.get(rule.gpu, rule.gpu)}" if rule.gpu else "",
        f"on {rule.platform}" if rule.platform else "",
        f"on devices {_listed(rule.devices)}" if rule.devices else "",
        f"security version {rule.min_security_version} or newer" if rule.min_security_version else "",
        f"at most {rule.carveout_bytes} bytes" if rule.carveout_bytes else "",
        f"at most {rule.time_budget_us / SECOND_US:g} s" if rule.time_budget_us else "",
        "with signed weights" if rule.signed_weights else "",
    ]
    return "".join(f"; {text}" for text in found if text)


def _validity(policy: Policy) -> str:
    until = f"to {_day(policy.not_after)}" if policy.not_after else "for ever"
    return f"from {_day(policy.not_before)} {until}" if policy.not_before else until


def _day(seconds: int) -> str:
    try:
        return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"second {seconds} since 1970"


def _missing(one: ceremony.Missing) -> str:
    keys = f"of the root keys of version {one.version}"
    if one.quorum.bad:
        return f"{_listed(one.quorum.bad)}, {keys}: {_why(one)}"
    return f"{one.quorum.missing} {keys}: {_listed(one.candidates)}"


def _why(one: ceremony.Missing) -> str:
    status = next(iter(one.quorum.bad.values()))
    return "its signature does not fit" if status is Status.SIGNATURE else status.text


def _listed(kids: Iterable[bytes]) -> str:
    return ", ".join(sorted(kid.hex() for kid in kids))
