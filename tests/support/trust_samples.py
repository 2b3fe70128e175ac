# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies, and traces that are signed under them, by keys that are the same in each run."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa

from signing.cose_sign import Entry, Signatures
from signing.envelope import before_under_policy
from signing.keys import Algorithm, HybridPrivateKey
from signing.sign import FileSigner, entries
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain, Signed
from signing.trust_keys import Key
from tests.support import replayer_samples as s
from trace_format import layout
from trace_format.schema import SlotKind

# In ascending order of their ids: three root keys, three of traces, and a stranger.
SIGNERS = sorted(
    (FileSigner(ec.derive_private_key(0x1234567 * number, ec.SECP256R1())) for number in range(1, 8)),
    key=lambda signer: signer.kid,
)
ROOTS, TRACERS, STRANGER = SIGNERS[:3], SIGNERS[3:6], SIGNERS[6]
PLATFORM = "qemu-virt"
HEADER = 32  # bytes of the signed header
DEVICE_ID = bytes(range(16))


def kids(signers: Iterable[FileSigner]) -> frozenset[bytes]:
    return frozenset(signer.kid for signer in signers)


def keys(signers: Iterable[FileSigner]) -> tuple[Key, ...]:
    return tuple(Key.of(signer.public) for signer in signers)


def rule(name: str = "", threshold: int = 2, signers: Sequence[FileSigner] = TRACERS, **changes: Any) -> Rule:
    """A rule for all traces, or those of a name."""
    return Rule(name, Role(kids(signers), threshold), **{"prefix": not name, **changes})


def policy(*rules: Rule, **changes: Any) -> Policy:
    """Version 1: two of three roots, two of three keys for all traces."""
    found = Policy("fleet", 1, keys(ROOTS + TRACERS), Role(kids(ROOTS), 2), rules or (rule(),))
    return replace(found, **changes)


def signed_policy(found: Policy, signers: Sequence[FileSigner] = ROOTS[:2]) -> Signed:
    """A policy with signatures."""
    signed = Signed.unsigned(found)
    for signer in signers:
        signed = signed.sign(signer.kid, entries(signer, signed.payload, "a policy"))
    return signed


def es256(signature: bytes) -> Entry:
    """A signature of 64 bytes as a message has it; whether it is one is not asked."""
    return Entry(Algorithm.ES256, signature)


def chain(*links: Signed) -> Chain:
    return Chain(links)


def signatures(trace: bytes, signers: Sequence[FileSigner] = TRACERS[:2]) -> Signatures:
    """Of a trace's head."""
    head = trace[: layout.read_header(trace)["head_bytes"]]
    return Signatures({signer.kid: entries(signer, head, "a trace") for signer in signers})


def join(trace: bytes, message: Signatures, policies: Iterable[Signed] = ()) -> bytes:
    """A signed trace of its parts."""
    messages = [message, *(Signatures(link.signatures.by_kid, link.payload) for link in policies)]
    return before_under_policy(messages, len(trace)) + trace


def small(**meta: Any) -> bytes:
    """A small trace for the V3D of the samples."""
    given: Mapping[str, Any] = {"name": "net"} | meta
    found = s.trace(*s.PROLOGUE[:1], image=bytes(16), slots=[], carveout_bytes=8 * s.PAGE, meta=dict(given))
    return found.build()


def with_parameter() -> bytes:
    """A signed trace whose weights callers give."""
    given = s.trace(meta={"name": "net"})
    weights = replace(given.slots[0], name="w", kind=SlotKind.PARAMETER)
    trace = given.with_(slots=[*given.slots, weights]).build()
    return join(trace, signatures(trace))


def signed(signers: Sequence[FileSigner] = TRACERS[:2], policies: Iterable[Signed] = (), **meta: Any) -> bytes:
    """A small trace, signed, with policies."""
    trace = small(**meta)
    return join(trace, signatures(trace, signers), policies)


def envelope(change: Callable[[bytes], bytes], base: Callable[[], bytes] = signed) -> Callable[[], bytes]:
    """The envelope's bytes changed, with the sizes that follow."""

    def make() -> bytes:
        data = base()
        size = struct.unpack_from("<I", data, 12)[0]
        start = -(-(HEADER + size) // 8) * 8
        new = change(data[HEADER : HEADER + size])
        header = data[:12] + struct.pack("<I", len(new)) + data[16:HEADER]
        return header + new + bytes(-(HEADER + len(new)) % 8) + data[start:]

    return make


# Hybrid keys, two of them beside one of ES256 in MIXED, and one that no policy names.
HYBRIDS = [
    FileSigner(
        HybridPrivateKey(
            ec.derive_private_key(0x7654321 * number, ec.SECP256R1()),
            mldsa.MLDSA44PrivateKey.from_seed_bytes(bytes([number]) * 32),
        )
    )
    for number in range(1, 4)
]
# Keys of ES384, two of them beside one of ES256 in WIDER, and one that no policy names.
WIDE = [FileSigner(ec.derive_private_key(0x3847654321 * number, ec.SECP384R1())) for number in range(1, 4)]
WIDER = sorted([*WIDE[:2], TRACERS[0]], key=lambda signer: signer.kid)
# Keys of Ed25519, likewise.
EDWARDS = [
    FileSigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in range(1, 4)
]
EDWARDIAN = sorted([*EDWARDS[:2], TRACERS[0]], key=lambda signer: signer.kid)
MIXED = sorted([*HYBRIDS[:2], TRACERS[0]], key=lambda signer: signer.kid)


def wide_policy(**changes: Any) -> Policy:
    """Version 1: two of three keys for all traces, two of which are of ES384."""
    return policy(rule(signers=WIDER), **{"keys": keys([*ROOTS, *WIDER]), **changes})


def edwards_policy(**changes: Any) -> Policy:
    """Version 1: two of three keys for all traces, two of which are of Ed25519."""
    return policy(rule(signers=EDWARDIAN), **{"keys": keys([*ROOTS, *EDWARDIAN]), **changes})


def hybrid_policy(**changes: Any) -> Policy:
    """Version 1: two of three keys for all traces, two of which are hybrid."""
    return policy(rule(signers=MIXED), **{"keys": keys([*ROOTS, *MIXED]), **changes})
