# SPDX-License-Identifier: BSD-2-Clause
"""Named cases of what a device with a trust policy refuses, and why; and some that it takes.

Each is a file, the device's own policy and what the device knows. Whoever judges one must give its status.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from signing import curves
from signing.sign import FileSigner, entries
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Signed
from signing.trust_verdict import NO_TIME
from tests.support import hostile_ed25519 as edwards
from tests.support import hostile_es384 as wide
from tests.support import hostile_hybrid as hybrid
from tests.support import hostile_ids
from tests.support import trust_samples as t
from tests.support.hostile_keys import PLAIN, Make, OneKind, no_key
from tests.support.trust_case import HERE, Case, resigned
from tests.support.trust_samples import (
    DEVICE_ID,
    PLATFORM,
    ROOTS,
    STRANGER,
    TRACERS,
    envelope,
    kids,
    policy,
    rule,
)
from trace_format.schema import Gpu
from trace_format.schema.report import Status
from trace_format.schema.trust import KeyKind

UNSET = replace(HERE, now=NO_TIME)
ONLY_ES256 = frozenset([KeyKind.ES256])
OTHER_ID = bytes(range(100, 116))
# Offsets in a policy: of its fields, of its first key, and of a key's and a rule's fields.
KEY_AT, KEY_BYTES, RULE_BYTES = 96, 128, 128


def second(*rules: Rule, **changes: object) -> Policy:
    """Version 2."""
    return policy(*rules, **{"version": 2, **changes})


def under(*links: Signed, signers: Sequence[FileSigner] = TRACERS[:2]) -> Callable[[], bytes]:
    """A small trace with policies."""
    return lambda: t.signed(signers, links)


def edited(at: int, value: bytes, base: Policy | None = None) -> Callable[[], bytes]:
    """With a version 2 that was changed at an offset and signed by the roots all the same."""

    def make() -> bytes:
        payload = bytearray((base or second()).encode())
        payload[at : at + len(value)] = value
        return t.signed(policies=[resigned(bytes(payload))])

    return make


def patched(at: int, value: bytes, base: Callable[[], bytes] = t.signed) -> Callable[[], bytes]:
    """A file changed at an offset."""

    def make() -> bytes:
        data = bytearray(base())
        data[at : at + len(value)] = value
        return bytes(data)

    return make


def spoiled(signer: FileSigner) -> Callable[[], bytes]:
    """One signature of the trace is of something else."""

    def make() -> bytes:
        trace = t.small()
        message = t.signatures(trace).with_signature(signer.kid, *entries(signer, b"something else", "it"))
        return t.join(trace, message)

    return make


def high_s() -> bytes:
    trace = t.small()
    message = t.signatures(trace)
    kid, (entry,) = next(iter(message.by_kid.items()))
    r, low = curves.scalars(entry.signature)
    high = r.to_bytes(32, "big") + (curves.P256_ORDER - low).to_bytes(32, "big")
    return t.join(trace, message.with_signature(kid, replace(entry, signature=high)))


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


NO_POINT = no_key(KeyKind.ES256, b"\4" + bytes(64), PLAIN)
FIRST_RULE = KEY_AT + 6 * KEY_BYTES
TWO_POLICIES = (t.signed_policy(second()), t.signed_policy(second(version=3)))
ONLY_ROOT_0 = t.signed_policy(second(), ROOTS[:1])
NEW_ROOTS = Role(kids(TRACERS), 2)  # policies are signed by whom traces were
WITHOUT_TRACER_0 = tuple(key for key in policy().keys if key.kid != TRACERS[0].kid)
REVOKING = second(rule(signers=TRACERS[1:]), keys=WITHOUT_TRACER_0, revoked=frozenset([TRACERS[0].kid]))
DEVICES = frozenset([DEVICE_ID])
S = Status
MALFORMED: dict[str, Callable[[], bytes]] = {
    "the policy's magic": edited(0, b"\x88"),
    "version of the format": edited(8, b"\2"),
    "minor version of the format": edited(10, b"\1"),
    "its size is one more": edited(12, u32(KEY_AT + 7 * 128 + 1)),
    "its size is one less": edited(12, u32(KEY_AT + 7 * 128 - 1)),
    "version 0": edited(16, u32(0)),
    "no keys": edited(20, b"\0"),
    "one key less than there are": edited(20, b"\5"),
    "one key more than there are": edited(20, b"\7"),
    "17 keys": edited(20, b"\x11"),
    "17 rules": edited(21, b"\x11"),
    "33 devices": edited(22, b"\x21"),
    "33 revoked": edited(23, b"\x21"),
    "it ends before it begins": edited(24, struct.pack("<QQ", 2, 1)),
    "no root keys": edited(40, u32(0)),
    "a root key that there is not": edited(40, u32(0x43)),
    "root threshold 0": edited(44, u32(0)),
    "more root signatures than keys": edited(44, u32(4)),
    "root threshold -1": edited(44, u32(0xFFFFFFFF)),
    "no name": edited(48, bytes(32)),
    "a name with a line's end": edited(48, b"fl\net"),
    "a name that is not ASCII": edited(48, "flößet".encode()),
    "a name with something behind its end": edited(60, b"x"),
    "reserved bytes": edited(95, b"\1"),
    "kind of a key": edited(KEY_AT + 16, u32(5)),
    "kind of a key, 0": edited(KEY_AT + 16, u32(0)),
    "reserved bytes of a key": edited(KEY_AT + 20, u32(1)),
    "a compressed point": edited(KEY_AT + 24, b"\2"),
    "bytes behind a key": edited(KEY_AT + 127, b"\1"),
    "keys in another order": edited(KEY_AT, b"\xff" * 16),
    "a key twice": edited(KEY_AT, policy().keys[1].kid),
    "a rule without keys": edited(FIRST_RULE + 64, u32(0)),
    "a rule's key that there is not": edited(FIRST_RULE + 64, u32(0x40)),
    "a rule's threshold 0": edited(FIRST_RULE + 68, u32(0)),
    "a rule of more than its keys": edited(FIRST_RULE + 68, u32(4)),
    "flags of a rule": edited(FIRST_RULE + 72, u32(4)),
    "a rule without a name": edited(FIRST_RULE + 72, u32(0)),
    "devices of a rule": edited(FIRST_RULE + 84, u32(1)),
    "platform of a rule": edited(FIRST_RULE + 104, b"\x7f"),
    "reserved bytes of a rule": edited(FIRST_RULE + 120, u32(1)),
    "a device that no rule names": edited(FIRST_RULE + 84, u32(0), second(rule(devices=DEVICES))),
    "a key that is revoked and has rights": edited(
        FIRST_RULE + RULE_BYTES, TRACERS[0].kid, second(revoked=frozenset([STRANGER.kid]))
    ),
    "revoked keys in another order": edited(
        FIRST_RULE + RULE_BYTES, b"\xff" * 16, second(revoked=frozenset([STRANGER.kid, b"a" * 16]))
    ),
    "shorter than a policy": lambda: t.signed(policies=[resigned(bytes(95))]),
    "longer than one can be": lambda: t.signed(policies=[resigned(bytes(5217))]),
}
ENVELOPES: dict[str, Callable[[], bytes]] = {
    "COSE_Sign1": envelope(lambda data: b"\xd2" + data[1:]),
    "another tag": envelope(lambda data: b"\xd8\x63" + data[2:]),
    "an array of 5": envelope(lambda data: data[:2] + b"\x85" + data[3:]),
    "a protected header of the whole": envelope(lambda data: data[:3] + b"\x41\0" + data[4:]),
    "an unprotected header": envelope(lambda data: data[:4] + b"\xa1\4\0" + data[5:]),
    "a payload in the first message": envelope(lambda data: data[:5] + b"\x58\x18" + bytes(24) + data[6:]),
    "one signature more than there are": envelope(lambda data: data[:6] + b"\x83" + data[7:]),
    "one signature less than there are": envelope(lambda data: data[:6] + b"\x81" + data[7:]),
    "17 signatures": envelope(lambda data: data[:6] + b"\x91" + data[7:] + data[7:97] * 15),
    "signatures in another order": envelope(lambda data: data[:7] + data[97:187] + data[7:97]),
    "a signature twice": envelope(lambda data: data[:7] + data[7:97] * 2),
    "another algorithm": envelope(lambda data: data[:11] + b"\x28" + data[12:]),
    "a signature of 63 bytes": envelope(lambda data: data[:32] + b"\x3f" + data[33:]),
    "it ends in a signature": envelope(lambda data: data[:-1]),
    "it ends before the payload": envelope(lambda data: data[:5]),
    "a byte behind the last message": envelope(lambda data: data + b"\0"),
    "a second message without a payload": envelope(lambda data: data + data),
    "a payload longer than the message": envelope(lambda data: data + data[:5] + b"\x59\xff\xff\x80"),
    "a payload's length in too many bytes": envelope(
        lambda data: data + data[:5] + b"\x59\0\x18" + bytes(24) + b"\x80"
    ),
    "33 policies": lambda: t.signed(policies=[t.signed_policy(small_second(), ROOTS[:1])] * 33),
    "s is high": high_s,
}


def small_second() -> Policy:
    return Policy("fleet", 2, t.keys(ROOTS[:1]), Role(kids(ROOTS[:1])))


def of_one_kind(
    title: str,
    kind: OneKind,
    root: Policy,
    wrong: Sequence[tuple[Mapping[str, Make], Status]],
    keys: Mapping[str, Case],
    others: tuple[str, frozenset[KeyKind]],
    more: Mapping[str, Make] = MappingProxyType({}),
) -> dict[str, Case]:
    """The rows of a kind of key that makes one signature.

    Args:
        title: what they begin with.
        kind: the keys.
        root: the policy that has two of them.
        wrong: what is refused, and how.
        keys: policies with other keys.
        others: what the device verifies besides, for people, and as kinds.
        more: what is accepted besides `kind.taken`.
    """
    by_status = ((kind.taken, S.OK), (more, S.OK), (kind.threshold, S.THRESHOLD), *wrong)
    newer, code, algorithms = kind.newer(2), *others
    return {
        **{
            f"{title}: {name}": Case(make, status, root)
            for found, status in by_status
            for name, make in found.items()
        },
        **{f"{title}: {name}": case for name, case in keys.items()},
        f"{title} roots: two of three": Case(newer, S.OK),
        f"{title} roots: one of two": Case(kind.newer(1), S.TRUST_CHAIN),
        f"{title} roots: a signature of something else": Case(kind.newer(2, wrong=True), S.TRUST_CHAIN),
        f"{title}: a newer policy, and no code for it": Case(
            newer, S.TRUST_ALGORITHM, where=replace(HERE, algorithms=ONLY_ES256)
        ),
        f"{title}: a newer policy, and code for {code}": Case(
            newer, S.TRUST_ALGORITHM, where=replace(HERE, algorithms=algorithms)
        ),
        f"{title}: signatures besides, and no code for them": Case(
            kind.besides, S.OK, where=replace(HERE, algorithms=ONLY_ES256)
        ),
        f"{title}: a newer policy with a key of which {kind.key_bytes + 1} bytes are not 0": Case(
            kind.long_key, S.TRUST
        ),
    }


CASES: dict[str, Case] = {
    # what it takes
    "two of three": Case(t.signed, S.OK),
    "three of three": Case(lambda: t.signed(TRACERS), S.OK),
    "two, and one that it does not know": Case(lambda: t.signed([*TRACERS[:2], STRANGER]), S.OK),
    "two, and one of another role": Case(lambda: t.signed([*TRACERS[:2], ROOTS[0]]), S.OK),
    "a newer policy": Case(under(TWO_POLICIES[0]), S.OK),
    "two newer policies": Case(under(*TWO_POLICIES), S.OK),
    "an older policy is passed over": Case(under(ONLY_ROOT_0), S.OK, second()),
    "the same policy is passed over": Case(under(TWO_POLICIES[0]), S.OK, second()),
    "new roots": Case(under(t.signed_policy(second(root=NEW_ROOTS), ROOTS[:2] + TRACERS[:2])), S.OK),
    "by another of the keys after a revocation": Case(under(t.signed_policy(REVOKING), signers=TRACERS[1:]), S.OK),
    "a signature of a revoked key beside enough others": Case(
        under(t.signed_policy(REVOKING), signers=TRACERS), S.OK
    ),
    "the first rule counts": Case(t.signed, S.OK, policy(rule("net"), rule("net", 3))),
    "a prefix": Case(t.signed, S.OK, policy(rule("ne", prefix=True))),
    "the whole name as a prefix": Case(t.signed, S.OK, policy(rule("net", prefix=True))),
    "this GPU, platform, device, and limits that it meets": Case(
        lambda: t.signed(security_version=5, time_budget_us=1000),
        S.OK,
        policy(
            rule(
                gpu=Gpu.V3D42,
                platform=PLATFORM,
                devices=DEVICES,
                min_security_version=5,
                time_budget_us=1000,
                carveout_bytes=8 * 4096,
                signed_weights=True,
            )
        ),
    ),
    "the last second": Case(t.signed, S.OK, policy(not_before=5, not_after=9), replace(HERE, now=9)),
    "the first second": Case(t.signed, S.OK, policy(not_before=5, not_after=9), replace(HERE, now=5)),
    "a clock that is not set, and neither": Case(t.signed, S.OK, where=UNSET),
    "without a clock it does not expire": Case(t.signed, S.OK, policy(not_after=9)),
    "the least version of a policy": Case(under(TWO_POLICIES[0]), S.OK, where=replace(HERE, least_version=2)),
    # who signed the trace
    "nobody": Case(lambda: t.signed([]), S.THRESHOLD),
    "one of three": Case(lambda: t.signed(TRACERS[:1]), S.THRESHOLD),
    "one, and one that it does not know": Case(lambda: t.signed([TRACERS[0], STRANGER]), S.THRESHOLD),
    "one, and one of another role": Case(lambda: t.signed([TRACERS[0], ROOTS[0]]), S.THRESHOLD),
    "roots alone": Case(lambda: t.signed(ROOTS), S.THRESHOLD),
    "strangers alone": Case(lambda: t.signed([STRANGER]), S.THRESHOLD),
    "a revoked key": Case(under(t.signed_policy(REVOKING)), S.REVOKED),
    "a key that was left out": Case(
        under(t.signed_policy(second(rule(signers=TRACERS[1:]), keys=WITHOUT_TRACER_0))), S.THRESHOLD
    ),
    "a signature of something else": Case(spoiled(TRACERS[0]), S.SIGNATURE),
    "a third signature of something else": Case(spoiled(TRACERS[2]), S.SIGNATURE),
    "a key that is no point": Case(NO_POINT[1], S.SIGNATURE, NO_POINT[0]),
    "the trace's head was changed": Case(
        lambda: t.join(t.small(security_version=7), t.signatures(t.small())), S.SIGNATURE
    ),
    # which policy counts
    "one root signs the next": Case(under(ONLY_ROOT_0), S.TRUST_CHAIN),
    "nobody signs the next": Case(under(t.signed_policy(second(), [])), S.TRUST_CHAIN),
    "a root and a stranger": Case(under(t.signed_policy(second(), [ROOTS[0], STRANGER])), S.TRUST_CHAIN),
    "keys of traces sign the next": Case(under(t.signed_policy(second(), TRACERS)), S.TRUST_CHAIN),
    "new roots alone": Case(under(t.signed_policy(second(root=NEW_ROOTS), TRACERS)), S.TRUST_CHAIN),
    "old roots alone": Case(under(t.signed_policy(second(root=NEW_ROOTS), ROOTS)), S.TRUST_CHAIN),
    "a root's signature of something else": Case(
        under(t.signed_policy(second()).sign(ROOTS[2].kid, entries(ROOTS[2], b"another", "it"))), S.TRUST_CHAIN
    ),
    "a version left out": Case(under(TWO_POLICIES[1]), S.TRUST_CHAIN),
    "the next of another fleet": Case(under(t.signed_policy(second(name="other"))), S.TRUST_CHAIN),
    "a third by roots that the second took away": Case(
        under(
            t.signed_policy(second(root=NEW_ROOTS), ROOTS[:2] + TRACERS[:2]),
            t.signed_policy(second(root=NEW_ROOTS, version=3), ROOTS),
        ),
        S.TRUST_CHAIN,
    ),
    "older than one that it has taken": Case(t.signed, S.TRUST_OLD, where=replace(HERE, least_version=2)),
    "it has expired": Case(t.signed, S.TRUST_TIME, policy(not_after=9), replace(HERE, now=10)),
    "it does not hold yet": Case(t.signed, S.TRUST_TIME, policy(not_before=9), replace(HERE, now=8)),
    "a clock that is not set, and an end": Case(t.signed, S.TRUST_TIME, policy(not_after=9), UNSET),
    "a clock that is not set, and a beginning": Case(t.signed, S.TRUST_TIME, policy(not_before=9), UNSET),
    "the newer one has expired": Case(
        under(t.signed_policy(second(not_after=9))), S.TRUST_TIME, where=replace(HERE, now=10)
    ),
    # what the rule asks for
    "a name that no rule has": Case(t.signed, S.TRUST_NAME, policy(rule("other"))),
    "a longer name": Case(t.signed, S.TRUST_NAME, policy(rule("netw"))),
    "the beginning of the name, not as a prefix": Case(t.signed, S.TRUST_NAME, policy(rule("ne"))),
    "a longer prefix": Case(t.signed, S.TRUST_NAME, policy(rule("netw", prefix=True))),
    "no rules": Case(t.signed, S.TRUST_NAME, replace(policy(), rules=())),
    "the first rule that fits is stricter": Case(t.signed, S.THRESHOLD, policy(rule("net", 3), rule("net", 1))),
    "another GPU": Case(t.signed, S.TRUST_GPU, policy(rule(gpu=Gpu.MALI_G71))),
    "another platform": Case(t.signed, S.TRUST_PLATFORM, policy(rule(platform="optee"))),
    "the platform's beginning": Case(t.signed, S.TRUST_PLATFORM, policy(rule(platform="qemu"))),
    "another device": Case(t.signed, S.TRUST_DEVICE, policy(rule(devices=frozenset([OTHER_ID])))),
    "a device without an id": Case(
        t.signed, S.TRUST_DEVICE, policy(rule(devices=DEVICES)), replace(HERE, device_id=bytes(16))
    ),
    "a device of another rule": Case(
        t.signed, S.TRUST_DEVICE, policy(rule("net", devices=frozenset([OTHER_ID])), rule(devices=DEVICES))
    ),
    "an old version": Case(t.signed, S.ROLLBACK, policy(rule(min_security_version=1))),
    "an old version by the newer policy": Case(
        under(t.signed_policy(second(rule(min_security_version=1)))), S.ROLLBACK
    ),
    "more memory": Case(t.signed, S.TRUST_LIMITS, policy(rule(carveout_bytes=8 * 4096 - 1))),
    "more time": Case(lambda: t.signed(time_budget_us=1001), S.TRUST_LIMITS, policy(rule(time_budget_us=1000))),
    "weights that callers give": Case(t.with_parameter, S.TRUST_WEIGHTS, policy(rule(signed_weights=True))),
    "weights that callers give, where they may": Case(t.with_parameter, S.OK),
    # hybrid keys
    **{
        f"hybrid: {name}": Case(make, status, t.hybrid_policy())
        for found, status in (
            (hybrid.TAKEN, S.OK),
            (hybrid.THRESHOLD, S.THRESHOLD),
            (hybrid.HALF, S.TRUST_HALF),
            (hybrid.KEY, S.TRUST_KEY),
            (hybrid.SIGNATURE, S.SIGNATURE),
            (hybrid.BROKEN, S.ENVELOPE),
        )
        for name, make in found.items()
    },
    "hybrid roots: two of three": Case(hybrid.newer([hybrid.A, hybrid.B]), S.OK),
    **{name: Case(make, S.TRUST_CHAIN) for name, make in hybrid.CHAIN.items()},
    "a newer policy with keys that the device cannot verify": Case(
        hybrid.newer([hybrid.A, hybrid.B]), S.TRUST_ALGORITHM, where=replace(HERE, algorithms=ONLY_ES256)
    ),
    "an older policy with keys that the device cannot verify": Case(
        hybrid.newer([hybrid.A, hybrid.B]), S.OK, second(), where=replace(HERE, algorithms=ONLY_ES256)
    ),
    **of_one_kind(
        "ES384",
        wide.KIND,
        t.wide_policy(),
        ((wide.SIGNATURE, S.SIGNATURE), (wide.BROKEN, S.ENVELOPE)),
        {name: Case(make, S.SIGNATURE, root) for name, (root, make) in wide.KEYS.items()},
        ("hybrid keys only", frozenset(KeyKind) - {KeyKind.ES384}),
    ),
    **of_one_kind(
        "Ed25519",
        edwards.KIND,
        t.edwards_policy(),
        ((edwards.SIGNATURE, S.SIGNATURE), (edwards.BROKEN, S.ENVELOPE)),
        {
            **{name: Case(make, S.SIGNATURE, root) for name, (root, make) in edwards.KEYS.items()},
            **{name: Case(make, S.OK, root) for name, (root, make) in edwards.GOOD_KEYS.items()},
            **{name: Case(make, S.SIGNATURE, root) for name, (root, make) in edwards.BAD_KEYS.items()},
        },
        ("all other keys", frozenset(KeyKind) - {KeyKind.ED25519}),
        edwards.TAKEN,
    ),
    # whose keys they are
    **hostile_ids.CASES,
    # forms
    **{f"policy: {name}": Case(make, S.TRUST) for name, make in MALFORMED.items()},
    **{f"envelope: {name}": Case(make, S.ENVELOPE) for name, make in ENVELOPES.items()},
    "envelope: none": Case(envelope(lambda data: b""), S.FORMAT),
    "envelope: 128 KiB and one byte": Case(envelope(lambda data: data + bytes(131073 - len(data))), S.FORMAT),
    "envelope: longer than the file": Case(patched(12, u32(131072)), S.READ),
    "reserved bytes of the header": Case(patched(31, b"\1"), S.ENVELOPE),
    "the size of the trace": Case(patched(16, b"\1"), S.SIZE),
    "magic of the file": Case(patched(0, b"\x88"), S.FORMAT),
    "the file ends in its header": Case(lambda: t.signed()[:31], S.READ),
    "the file ends in its envelope": Case(lambda: t.signed()[:100], S.READ),
}
# What firmware can be asked that is made for the trace: it has no clock, and nothing that outlives a reboot.
ON_DEVICES = {
    name: case
    for name, case in CASES.items()
    if not (case.where.now or case.where.least_version or case.where.algorithms is not None or case.malformed)
}
