# SPDX-License-Identifier: BSD-2-Clause
"""What named cases of each kind of key that makes one signature share, for the table of `hostile_trust`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from signing.cose_sign import Entry, Signatures, to_be_signed
from signing.keys import Algorithm
from signing.sign import FileSigner, entries, head_of
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Signed
from signing.trust_keys import Key
from tests.support import trust_samples as t
from tests.support.trust_samples import TRACERS
from trace_format.schema.trust import KeyKind

PLAIN = TRACERS[0]  # of ES256
Make = Callable[[], bytes]


def of(signer: FileSigner, what: bytes | None = None) -> Entry:
    """A signature of the small trace, or of something else."""
    (found,) = entries(signer, head_of(t.small()) if what is None else what, "it")
    return found


def no_key(kind: KeyKind, raw: bytes, signer: FileSigner) -> tuple[Policy, Make]:
    """A policy that names bytes as a key of a kind; and a trace with another key's signature under their id."""
    key, rest = Key(raw, kind), [one for one in TRACERS if one is not PLAIN]
    role = Role(frozenset([key.kid, *t.kids(rest)]), 2)
    root = t.policy(Rule("", role, prefix=True), keys=(*t.keys([*t.ROOTS, *rest]), key))
    beside = {rest[0].kid: (of(rest[0]),), key.kid: (of(signer),)}
    return root, lambda: t.join(t.small(), Signatures(beside))


class OneKind:
    """Three keys of a kind, two of which a policy has beside one of ES256, and what is made with them.

    Attributes:
        a, b: the two, in the policy's order.
        foreign: the one that it does not have.
    """

    def __init__(self, signers: Sequence[FileSigner], named: Sequence[FileSigner], key_bytes: int) -> None:
        """Of `signers` all but the last are among `named`; their keys take so many bytes of a policy."""
        self.signers, self.named, self.key_bytes = signers, named, key_bytes
        self.a, self.b = (signer for signer in named if signer in signers)
        self.foreign = signers[-1]

    def bring(self, kid: bytes, *found: Entry) -> Make:
        """The small trace with these entries of a key, beside a good signature of another."""

        def make() -> bytes:
            beside = self.b if kid == PLAIN.kid else PLAIN
            return t.join(t.small(), Signatures({beside.kid: (of(beside),), kid: found}))

        return make

    def newer(self, count: int, *, wrong: bool = False) -> Make:
        """A second version, two of whose roots are of the kind, signed by so many of them and by roots of the
        first; or with a signature of something else."""
        named = sorted([*self.signers[:2], *t.ROOTS, *TRACERS], key=lambda one: one.kid)
        found = Policy("fleet", 2, t.keys(named), Role(t.kids(self.named), 2), (t.rule(),))
        signed = t.signed_policy(found, [*t.ROOTS[:2], *self.signers[:count]])
        if wrong:
            signed = signed.sign(self.a.kid, (of(self.a, b"something else"),))
        return lambda: t.signed(policies=[signed])

    def besides(self) -> bytes:
        """Enough signatures of ES256, and one of the kind."""
        return t.signed([*TRACERS[:2], self.foreign])

    def long_key(self) -> bytes:
        """A newer policy with a key of the kind and a byte after it."""
        keys = tuple(sorted((*t.keys(t.ROOTS + TRACERS), Key.of(self.a.public)), key=lambda key: key.kid))
        payload = bytearray(t.policy(version=2, keys=keys).encode())
        payload[96 + 128 * [key.kid for key in keys].index(self.a.kid) + 24 + self.key_bytes] = 1
        message = Signatures({t.ROOTS[0].kid: entries(t.ROOTS[0], bytes(payload), "a policy")}, bytes(payload))
        return t.join(t.small(), t.signatures(t.small()), [Signed(t.policy(), bytes(payload), message)])

    def envelope(self, change: Callable[[bytes, int], bytes]) -> Make:
        """The envelope of a trace that both keys of the kind signed, changed at the first signature."""
        return t.envelope(lambda data: change(data, 7), lambda: t.signed([self.a, self.b]))

    def swapped(self) -> Make:
        """A's signature of what ES256 would sign: the header says the other algorithm."""
        signature = self.a.sign(to_be_signed(self.a.kid, head_of(t.small()), Algorithm.ES256))
        return self.bring(self.a.kid, Entry(self.a.public.algorithm, signature))

    @property
    def taken(self) -> dict[str, Make]:
        """What is accepted."""
        return {
            "both": lambda: t.signed([self.a, self.b]),
            "one, and one of ES256": lambda: t.signed([self.a, PLAIN]),
            "one that it does not know, besides": lambda: t.signed([self.a, PLAIN, self.foreign]),
        }

    @property
    def threshold(self) -> dict[str, Make]:
        """What lacks a signature."""
        return {
            "one": lambda: t.signed([self.a]),
            "one that it does not know": lambda: t.signed([PLAIN, self.foreign]),
        }
