# SPDX-License-Identifier: BSD-2-Clause
"""Signed trust policies in a file (.gtp): each version with its signatures, the oldest first.

The file is a CBOR sequence of COSE_Sign messages whose payloads are the policies. A device that has version n
takes n + 1 when enough root keys of version n, and enough of n + 1, have signed it, as TUF does (TUF 1.0.33, 5.3).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import mldsa

from signing.cose_sign import TAG, Entries, Signatures, read_sequence, to_be_signed
from signing.errors import TrustError
from signing.key_files import load_public_key
from signing.keys import PublicKey
from signing.trust import Anchor, Policy, Role
from signing.trust_keys import Key
from trace_format import layout
from trace_format.schema.report import Status
from trace_format.schema.trust import MAX_TRUST_POLICIES, KeyKind


@dataclass(frozen=True)
class Quorum:
    """Whether enough keys of a role have signed something.

    Attributes:
        role: the keys, and how many it takes.
        signed: ids of those whose signature is good.
        bad: why those that are named have a signature that is none of this: SIGNATURE, TRUST_HALF, TRUST_KEY.
    """

    role: Role
    signed: frozenset[bytes]
    bad: Mapping[bytes, Status]

    @property
    def missing(self) -> int:
        """How many signatures are missing; 0: there are enough, and none is bad."""
        return max(0, self.role.threshold - len(self.signed))

    def __bool__(self) -> bool:
        return not self.missing and not self.bad


def quorum(policy: Policy, role: Role, payload: bytes, signatures: Signatures) -> Quorum:
    """Which of a role's keys have signed a payload."""
    found = {
        kid: _fits(key, payload, entries)
        for kid, entries in sorted(signatures.by_kid.items())
        if kid in role.kids and (key := policy.key(kid)) is not None
    }
    good = frozenset(kid for kid, status in found.items() if status is Status.OK)
    return Quorum(role, good, {kid: status for kid, status in found.items() if kid not in good})


def _fits(key: Key, payload: bytes, entries: Entries) -> Status:
    """OK, or what is wrong with a key's signature."""
    halves = [key.first]
    if key.kind is KeyKind.ES256_ML_DSA_44:
        if len(entries) != 2:
            return Status.TRUST_HALF
        if hashlib.sha256(entries[1].key).digest() != key.ml_dsa_hash:
            return Status.TRUST_KEY
        halves.append(PublicKey(mldsa.MLDSA44PublicKey.from_public_bytes(entries[1].key)))
    if len(entries) != len(halves):
        return Status.SIGNATURE
    for half, entry in zip(halves, entries, strict=True):
        if half is None or half.algorithm is not entry.algorithm:
            return Status.SIGNATURE
        if not half.verify(entry.signature, to_be_signed(key.kid, payload, entry.algorithm)):
            return Status.SIGNATURE
    return Status.OK


@dataclass(frozen=True)
class Signed:
    """A policy with signatures; nothing is verified.

    Attributes:
        policy: what it says.
        payload: its bytes.
        signatures: of them; there may be none while a file is being made.
    """

    policy: Policy
    payload: bytes
    signatures: Signatures

    @classmethod
    def unsigned(cls, policy: Policy) -> Signed:
        """Of a policy that nobody has signed yet."""
        return cls(policy, policy.encode(), Signatures({}))

    def sign(self, kid: bytes, entries: Entries) -> Signed:
        """With the signature of one more key."""
        return Signed(self.policy, self.payload, self.signatures.with_signature(kid, *entries))

    def quorums(self, before: Policy | None) -> list[Quorum]:
        """Of the root keys of the policy before, if there is one, and of its own."""
        policies = [self.policy] if before is None else [before, self.policy]
        return [quorum(policy, policy.root, self.payload, self.signatures) for policy in policies]

    def encode(self) -> bytes:
        """Its message."""
        return Signatures(self.signatures.by_kid, self.payload).encode()


@dataclass(frozen=True)
class Chain:
    """Policies of one name, the oldest first, each one version above the one before.

    Attributes:
        links: at least one.
    """

    links: tuple[Signed, ...]

    @property
    def last(self) -> Signed:
        """The newest."""
        return self.links[-1]

    @property
    def before(self) -> Policy | None:
        """The one before the newest; None: there is none."""
        return self.links[-2].policy if len(self.links) > 1 else None

    def steps(self) -> Iterator[tuple[Policy | None, Signed]]:
        """Each policy, and the one before it."""
        before = None
        for link in self.links:
            yield before, link
            before = link.policy

    def unfinished(self) -> list[Signed]:
        """Those that lack signatures. The first needs its own only: devices have it compiled in."""
        return [link for before, link in self.steps() if not all(link.quorums(before))]

    def encode(self) -> bytes:
        """The file's bytes."""
        return b"".join(link.encode() for link in self.links)

    @classmethod
    def decode(cls, data: bytes) -> Chain:
        """Read a file.

        Args:
            data: all of it.

        Raises:
            EnvelopeError: it is not a sequence of messages in their one encoding.
            TrustError: a policy is malformed, or they do not follow one another.
        """
        links = []
        for message in read_sequence(data):
            if message.payload is None:
                raise TrustError(
                    "a message without a trust policy", expected="a trust policy in each", found="none"
                )
            policy = Policy.decode(message.payload)
            links.append(Signed(policy, message.payload, Signatures(message.by_kid)))
        if not 1 <= len(links) <= MAX_TRUST_POLICIES:
            raise TrustError("trust policies in the file", expected=f"1 to {MAX_TRUST_POLICIES}", found=len(links))
        for one, other in itertools.pairwise(links):
            follow_error(one.policy, other.policy)
        return cls(tuple(links))


def load_anchor(data: bytes, *, file: str = "") -> Anchor:
    """Read what is to be trusted: a public key (PEM), or the newest policy of a file (.gtp).

    Raises:
        KeyFileError: as `signing.key_files.load_public_key`.
        TraceError: the policies are malformed, or lack signatures.
    """
    if not data.startswith(TAG):
        return load_public_key(data, file=file)
    with layout.naming(file):
        chain = Chain.decode(data)
        for link in chain.unfinished():
            lacks = max(one.missing for one in link.quorums(None))
            raise TrustError(
                f"version {link.policy.version} of trust policy {link.policy.name} is not signed by enough root "
                f"keys ('gramophone policy sign' adds signatures; {lacks or 'one of the version before'} missing)"
            )
    return chain.last.policy


def follow_error(before: Policy, policy: Policy) -> None:
    """Raise TrustError unless a policy may follow another: it is the next version, and no key comes back."""
    if policy.version != before.version + 1 or policy.name != before.name:
        raise TrustError(
            "a trust policy that does not follow the one before it",
            expected=f"version {before.version + 1} of {before.name}",
            found=f"version {policy.version} of {policy.name}",
        )
    if gone := sorted(before.revoked - policy.revoked):
        raise TrustError(
            f"version {policy.version} takes a revocation back",
            expected=f"key {gone[0].hex()} among its revoked keys, as in version {before.version}",
            found="not there",
        )
