# SPDX-License-Identifier: BSD-2-Clause
"""What the campaign attacks of a firmware with a trust policy: traces that lack what the policy asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from signing import envelope
from signing.cose_sign import Entries, to_be_signed
from signing.sign import FileSigner, entries, head_of
from signing.trust import Policy, Role
from tests.campaign import cases
from tests.campaign.cases import MIN_SECURITY_VERSION, Attempt, Case
from tests.support import trust_samples as t
from tests.support.trust_samples import ROOTS, STRANGER, TRACERS, keys, kids, policy, rule

MOST_US = 60_000_000
HYBRID = next(one for one in t.HYBRIDS if one.kid > TRACERS[0].kid)  # whose signature comes second
EDWARDS = t.EDWARDS[0]
SIGNERS = [*TRACERS, HYBRID, EDWARDS]
# The device's own: two of five keys, of which one is hybrid and one of Ed25519, for traces of the campaign's name,
# and no rule for others.
OWN = policy(
    rule("small", signers=SIGNERS, min_security_version=MIN_SECURITY_VERSION, time_budget_us=MOST_US),
    keys=keys([*ROOTS, *SIGNERS]),
)


def trace(gpu: str, **meta: object) -> bytes:
    found = cases.sample(gpu)
    return found.with_(meta=found.meta | meta).build(compress=False)


def signed(
    gpu: str, signers: list[FileSigner], newer: Policy | None = None, roots: list[FileSigner] = ROOTS
) -> bytes:
    data = trace(gpu)
    links = [t.signed_policy(newer, roots)] if newer else []
    return t.join(data, t.signatures(data, signers), links)


def good(gpu: str) -> Attempt:
    return Attempt(signed(gpu, TRACERS[:2]))


def good_hybrid(gpu: str) -> Attempt:
    return Attempt(signed(gpu, [TRACERS[0], HYBRID]))


def half(gpu: str) -> Attempt:
    """Of the hybrid key, the half that a quantum computer makes."""
    return with_hybrid(gpu, lambda head: entries(HYBRID, head, "it")[:1])


def wrong_half(gpu: str) -> Attempt:
    """The same, with an ML-DSA half that is of something else."""
    return with_hybrid(gpu, lambda head: (entries(HYBRID, head, "it")[0], entries(HYBRID, b"", "it")[1]))


def good_edwards(gpu: str) -> Attempt:
    return Attempt(signed(gpu, [TRACERS[0], EDWARDS]))


def wrong_edwards(gpu: str) -> Attempt:
    """One good signature, and one of Ed25519 of something else."""
    message = t.signatures(trace(gpu), TRACERS[:1]).with_signature(EDWARDS.kid, *entries(EDWARDS, b"", "it"))
    return Attempt(t.join(trace(gpu), message))


def with_hybrid(gpu: str, made: Callable[[bytes], Entries]) -> Attempt:
    """One good signature, and one of the hybrid key that is made of the trace's head."""
    data = trace(gpu)
    message = t.signatures(data, TRACERS[:1]).with_signature(HYBRID.kid, *made(head_of(data)))
    return Attempt(t.join(data, message))


def by_newer(gpu: str) -> Attempt:
    """Under a second version, which the roots have signed."""
    return Attempt(signed(gpu, TRACERS[:2], replace(OWN, version=2)))


def one_of_two(gpu: str) -> Attempt:
    return Attempt(signed(gpu, TRACERS[:1]))


def by_a_stranger(gpu: str) -> Attempt:
    """Under the id of a key that may, the signature is another key's; so is that of the third."""
    data = trace(gpu)
    message = t.signatures(data, TRACERS[:1])
    head = data[: int.from_bytes(data[24:28], "little")]
    for signer in TRACERS[1:]:
        message = message.with_signature(signer.kid, t.es256(STRANGER.sign(to_be_signed(signer.kid, head))))
    return Attempt(t.join(data, message))


def none_valid(gpu: str) -> Attempt:
    """Under the ids of two keys that may, both signatures are a stranger's."""
    data = trace(gpu)
    message = t.signatures(data, [])
    for signer in TRACERS[:2]:
        theirs = STRANGER.sign(to_be_signed(signer.kid, head_of(data)))
        message = message.with_signature(signer.kid, t.es256(theirs))
    return Attempt(t.join(data, message))


def revoked(gpu: str) -> Attempt:
    """One of the two keys is revoked by the newer policy that comes with the trace."""
    left = rule("small", signers=TRACERS[1:], min_security_version=MIN_SECURITY_VERSION)
    gone = frozenset([TRACERS[0].kid])
    newer = policy(left, version=2, keys=keys(ROOTS + TRACERS[1:]), revoked=gone)
    return Attempt(signed(gpu, TRACERS[:2], newer))


def usurped(gpu: str) -> Attempt:
    """A newer policy that lets a stranger sign everything, signed by one root key of two, and by the stranger."""
    role = Role(kids([STRANGER]), 1)
    newer = policy(rule(threshold=1, signers=[STRANGER]), version=2, keys=keys([STRANGER]), root=role)
    return Attempt(signed(gpu, [STRANGER], newer, [ROOTS[0], STRANGER]))


def too_long(gpu: str) -> Attempt:
    """All have signed it, and it asks for more time than the rule allows."""
    data = trace(gpu, time_budget_us=MOST_US + 1)
    return Attempt(t.join(data, t.signatures(data, TRACERS)))


def tampered_chunk(gpu: str) -> Attempt:
    return of_policy(cases.tampered_chunk(gpu))


def of_policy(attempt: Attempt) -> Attempt:
    """The same trace, whose head two of the policy's keys have signed."""
    trace = bytes(envelope.split(attempt.signed).trace)
    return replace(attempt, signed=t.join(trace, t.signatures(trace, TRACERS[:2])))


def under_policy(case: Case) -> Case:
    """The same case for a device with the policy."""
    refused, control = case.refused, case.control
    return replace(case, refused=lambda gpu: of_policy(refused(gpu)), control=lambda gpu: of_policy(control(gpu)))


CASES = (
    Case("one-of-two", "one signature where it takes two", "THRESHOLD", one_of_two, good),
    Case("wrong-share", "one good signature, two of a stranger", "SIGNATURE", by_a_stranger, good),
    Case("stranger", "two signatures, both of a stranger", "SIGNATURE", none_valid, good),
    Case("chunk", "a tampered chunk", "CHUNK", tampered_chunk, good),
    Case("half", "one signature, and the ES256 half of a hybrid one", "TRUST_HALF", half, good_hybrid),
    Case("wrong-half", "the same, and an ML-DSA half of something else", "SIGNATURE", wrong_half, good_hybrid),
    Case(
        "wrong-edwards",
        "one signature, and one of Ed25519 of something else",
        "SIGNATURE",
        wrong_edwards,
        good_edwards,
    ),
    Case("revoked", "a revoked key's signature", "REVOKED", revoked, by_newer),
    Case("usurped", "a policy that one root key of two has signed", "TRUST_CHAIN", usurped, by_newer),
    Case("limits", "signed by all: more time than the rule allows", "TRUST_LIMITS", too_long, good),
)
