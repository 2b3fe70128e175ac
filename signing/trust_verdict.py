# SPDX-License-Identifier: BSD-2-Clause
"""What a device with a trust policy makes of a signed trace, and why: the same steps in the same order as
tee_replayer/features/trust/trust.c, with the same statuses (tests/vgpu/test_trust_agreement.py compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from signing.cose_sign import Signatures
from signing.errors import TrustError
from signing.trust import DEVICE_ID_BYTES, Policy, Rule
from signing.trust_chain import Quorum, follow_error, quorum
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind


@dataclass(frozen=True)
class Judge:
    """Where a trace is judged: what the device knows besides its policy.

    Attributes:
        platform: board or environment; None: any, for whoever verifies for no device in particular.
        device_id: 16 bytes; zeros: the device has none; None: any.
        least_version: of the policy: older ones are refused.
        now: seconds since 1970 (UTC); 0: the device has no clock; NO_TIME: it has one that is not set.
        algorithms: kinds of keys that it verifies signatures of; None: all.
    """

    platform: str | None = None
    device_id: bytes | None = None
    least_version: int = 0
    now: int = 0
    algorithms: frozenset[KeyKind] | None = None


NO_TIME = 2**64 - 1
NO_ID = bytes(DEVICE_ID_BYTES)


@dataclass(frozen=True)
class TrustVerdict:
    """What came of it.

    Attributes:
        status: OK, or why the trace is refused.
        policy: the newest that the device takes, up to where it stopped.
        rule: for traces of this name; None: there is none, or it was not looked for.
        quorum: who has signed the trace; None: nobody looked.
        reason: a sentence.
    """

    status: Status
    policy: Policy
    rule: Rule | None = None
    quorum: Quorum | None = None
    reason: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        """Whether a device takes it."""
        return self.status == Status.OK

    def __bool__(self) -> bool:
        return self.ok


def judge(
    root: Policy,
    messages: Sequence[Signatures],
    head: bytes,
    manifest: dict[str, Any],
    *,
    has_parameters: bool = False,
    where: Judge = Judge(),
) -> TrustVerdict:
    """Judge the signatures of a trace.

    Args:
        root: the policy that is trusted: a device's own.
        messages: the trace's signatures, and then signed policies.
        head: of the trace, the signed payload.
        manifest: of the trace.
        has_parameters: whether callers give weights.
        where: of which device.
    """
    current = root
    for message in messages[1:]:
        assert message.payload is not None
        try:
            newer = Policy.decode(message.payload)
        except TrustError as error:
            return TrustVerdict(Status.TRUST, current, reason=str(error))
        if newer.version <= current.version:
            continue
        try:
            follow_error(current, newer)
        except TrustError as error:
            return TrustVerdict(Status.TRUST_CHAIN, current, reason=str(error))
        kinds = {key.kind for key in newer.keys}
        if where.algorithms is not None and not kinds <= where.algorithms:
            reason = _listed_kinds(newer, where.algorithms)
            return TrustVerdict(Status.TRUST_ALGORITHM, current, reason=reason)
        for policy in (current, newer):
            found = quorum(policy, policy.root, message.payload, message)
            if not found:
                reason = (
                    f"policy version {newer.version}: {_lacks(found, f'root keys of version {policy.version}')}"
                )
                return TrustVerdict(Status.TRUST_CHAIN, current, reason=reason)
        current = newer
    if current.version < where.least_version:
        reason = f"expected version {where.least_version}, found {current.version}"
        return TrustVerdict(Status.TRUST_OLD, current, reason=reason)
    early, late = where.now < current.not_before, current.not_after and where.now > current.not_after
    unknown = where.now == NO_TIME and (current.not_before or current.not_after)
    if where.now and (early or late or unknown):
        return TrustVerdict(Status.TRUST_TIME, current)
    rule = current.rule(manifest["name"].encode())
    if rule is None:
        return TrustVerdict(Status.TRUST_NAME, current, reason=f"name {manifest['name']!r}")
    found = quorum(current, rule.role, head, messages[0])
    status, reason = _signed(current, rule, found, messages[0])
    if status is Status.OK:
        status, reason = _allowed(current, rule, manifest, has_parameters, where)
    return TrustVerdict(status, current, rule, found, reason)


def _signed(policy: Policy, rule: Rule, found: Quorum, message: Signatures) -> tuple[Status, str]:
    if found.bad:
        return next(iter(found.bad.values())), _lacks(found, f"keys of {rule.pattern}")
    if not found.missing:
        return Status.OK, f"signed by {_listed(found.signed)}, {rule.role.threshold} of {len(rule.role.kids)}"
    reason = _lacks(found, f"keys of {rule.pattern}")
    if policy.revoked & message.by_kid.keys():
        return Status.REVOKED, f"{reason}; revoked: {_listed(policy.revoked & message.by_kid.keys())}"
    return Status.THRESHOLD, reason


def _allowed(
    policy: Policy, rule: Rule, manifest: dict[str, Any], has_parameters: bool, where: Judge
) -> tuple[Status, str]:
    if rule.gpu not in (0, manifest["gpu"]):
        return Status.TRUST_GPU, f"expected {rule.gpu}, found {manifest['gpu']}"
    if rule.platform and where.platform not in (None, rule.platform):
        return Status.TRUST_PLATFORM, f"expected {rule.platform}, found {where.platform}"
    if rule.devices and where.device_id is not None and where.device_id not in rule.devices:
        expected = f"expected one of {_listed(rule.devices)}"
        return Status.TRUST_DEVICE, f"{expected}, found {where.device_id.hex()}"
    if manifest["security_version"] < rule.min_security_version:
        return (
            Status.ROLLBACK,
            f"expected at least {rule.min_security_version}, found {manifest['security_version']}",
        )
    for name in ("carveout_bytes", "time_budget_us"):
        most = getattr(rule, name)
        if most and manifest[name] > most:
            return Status.TRUST_LIMITS, f"{name}: expected at most {most}, found {manifest[name]}"
    if rule.signed_weights and has_parameters:
        return Status.TRUST_WEIGHTS, "its parameters are not signed"
    return Status.OK, ""


def _lacks(found: Quorum, what: str) -> str:
    if found.bad:
        kid, status = next(iter(found.bad.items()))
        why = "does not fit" if status is Status.SIGNATURE else f"is refused: {status.text}"
        return f"the signature of {kid.hex()}, of the {what}, {why}"
    return f"expected {found.role.threshold} of the {what}, found {len(found.signed)}"


def _listed_kinds(policy: Policy, known: frozenset[KeyKind]) -> str:
    others = sorted({key.title for key in policy.keys if key.kind not in known})
    return f"version {policy.version} has a key of {', '.join(others)}"


def _listed(kids: frozenset[bytes]) -> str:
    return ", ".join(sorted(kid.hex() for kid in kids)) or "none"
