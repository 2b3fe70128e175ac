# SPDX-License-Identifier: BSD-2-Clause
"""What the commands of `gramophone policy` say of a policy, for people and for `--json`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from signing import ceremony
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain
from trace_format.schema import Gpu
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

SECOND_US = 1_000_000


def data(file: Path, chain: Chain) -> dict[str, Any]:
    """The fields of the newest version, for JSON."""
    policy = chain.last.policy
    return {
        "file": str(file),
        "name": policy.name,
        "version": policy.version,
        "policy_id": policy.kid.hex(),
        "bytes": len(chain.last.payload),
        "complete": not ceremony.missing(chain),
        "not_before": policy.not_before,
        "not_after": policy.not_after,
        "roles": [
            {"role": name, "threshold": role.threshold, "keys": sorted(kid.hex() for kid in role.kids)}
            for name, role in ceremony.roles(policy)
        ],
        "revoked": sorted(kid.hex() for kid in policy.revoked),
        "signed_by": sorted(kid.hex() for kid in chain.last.signatures.by_kid),
        "missing": [
            {
                "version": one.version,
                "signatures": one.quorum.missing,
                "of": [kid.hex() for kid in one.candidates],
                "bad": sorted(kid.hex() for kid in one.quorum.bad),
            }
            for one in ceremony.missing(chain)
        ],
    }


def lines(file: Path, chain: Chain) -> list[str]:
    """The same for people."""
    policy, lacking = chain.last.policy, ceremony.missing(chain)
    state = (
        "not signed yet" if not chain.last.signatures.by_kid else "signatures missing" if lacking else "complete"
    )
    rows = [
        ("policies", _role(policy.root)),
        *((f"traces {rule.pattern}", f"{_role(rule.role)}{_conditions(rule)}") for rule in policy.rules),
        *((f"keys of {title}", _listed(kids)) for title, kids in _others(policy)),
        *([("revoked", _listed(policy.revoked))] if policy.revoked else []),
        ("holds", _validity(policy)),
        *([("signed by", _listed(chain.last.signatures.by_kid))] if chain.last.signatures.by_kid else []),
        *(("missing", _missing(one)) for one in lacking),
    ]
    first = f"{file}: policy {policy.name}, version {policy.version} ({policy.kid.hex()}), {state}"
    return [first, *(f"{name:16} {text}" for name, text in rows)]


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
