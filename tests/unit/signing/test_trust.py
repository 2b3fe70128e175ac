# SPDX-License-Identifier: BSD-2-Clause
"""Trust policies as bytes: what is written is read, also by other COSE libraries; the impossible is refused."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cwt import COSE, COSEKey, VerifyError
from hypothesis import given, settings
from hypothesis import strategies as st
from pycose.keys import EC2Key
from pycose.messages import CoseMessage, SignMessage

from signing.cose_sign import Entries, Signatures, read_sequence, to_be_signed
from signing.errors import EnvelopeError, TrustError
from signing.key_files import load_public_key
from signing.keys import Algorithm, generate, public_of
from signing.sign import FileSigner, entries
from signing.trust import Policy, Role, Rule
from signing.trust_chain import Chain, follow_error, load_anchor
from signing.trust_keys import KEY_BYTES, KINDS, Key
from tests.support import trust_samples as t
from tests.support.sampling import few
from tests.support.signing_samples import ES256
from tests.support.trust_samples import HYBRIDS, ROOTS, SIGNERS, kids, policy, rule
from trace_format.errors import TraceError
from trace_format.schema.report import Status

NAMES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=16)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


# One of each kind; an entry of ML-DSA may be alone.
SIGNED: list[Entries] = [
    *(entries(one, b"x", "it") for one in (ES256, HYBRIDS[0])),
    entries(HYBRIDS[0], b"x", "it")[1:],
]


@st.composite
def roles(draw: st.DrawFn) -> Role:
    chosen = draw(st.sets(st.sampled_from(SIGNERS), min_size=1))
    return Role(kids(chosen), draw(st.integers(1, len(chosen))))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    devices = st.frozensets(st.binary(min_size=16, max_size=16), max_size=3)
    return Rule(
        draw(NAMES),
        draw(roles()),
        draw(st.booleans()),
        draw(st.integers(0, 7)),
        draw(U32),
        draw(devices),
        draw(U64),
        draw(U64),
        draw(NAMES),
        draw(st.booleans()),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    start, end = sorted(draw(st.tuples(U64, U64)))
    revoked = draw(st.frozensets(st.binary(min_size=16, max_size=16), max_size=3))
    given_rules = tuple(draw(st.lists(rules(), max_size=4)))
    version = draw(st.integers(1, 2**32 - 1))
    return Policy(
        draw(NAMES), version, t.keys([*SIGNERS, *HYBRIDS]), draw(roles()), given_rules, revoked, start, end
    )


@given(policies())
@settings(deadline=None)
def test_what_is_written_is_read(found: Policy) -> None:
    data = found.encode()
    assert Policy.decode(data) == found
    assert found.raw == data
    assert len(found.kid) == 16


@given(
    st.dictionaries(st.sampled_from([one.kid for one in SIGNERS]), st.sampled_from(SIGNED)),
    st.binary(min_size=24),
)
@few(10, deadline=None)
def test_a_message_is_read_as_it_is_written(by_kid: dict[bytes, Entries], payload: bytes) -> None:
    for message in (Signatures(by_kid), Signatures(by_kid, payload)):
        data = message.encode()
        assert Signatures.decode(data) == (message, len(data))
        assert read_sequence(data * 2) == [message, message]
        for cut in range(0, len(data), 7):
            with pytest.raises(EnvelopeError):
                Signatures.decode(data[:cut])


def test_every_flipped_bit_of_a_message_is_seen() -> None:
    """It is refused, or says something else, which then is not what was signed."""
    data = t.signed_policy(policy()).encode()
    message, _ = Signatures.decode(data)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found, size = Signatures.decode(bytes(changed))
        except EnvelopeError:
            continue
        assert (found, size) != (message, len(data))


def ec2(signer: FileSigner) -> EC2Key:
    raw = signer.public.raw
    return EC2Key(crv="P_256", x=raw[1:33], y=raw[33:])


def test_pycose_verifies_a_policy() -> None:
    link = t.signed_policy(policy())
    message = CoseMessage.decode(link.encode())
    assert isinstance(message, SignMessage)
    assert message.payload == link.payload
    assert len(message.signers) == 2
    parts: list[Any] = message.signers
    for signer, part in zip(ROOTS[:2], parts, strict=True):
        part.key = ec2(signer)
        assert part.verify_signature()
        part.key = ec2(ROOTS[2])
        assert not part.verify_signature()


def test_cwt_verifies_a_policy() -> None:
    link = t.signed_policy(policy())
    for signer in ROOTS[:2]:
        key = COSEKey.from_pem(signer.public.pem(), kid=signer.kid)
        assert COSE.new().decode(link.encode(), key) == link.payload


def test_cwt_verifies_a_policy_with_keys_of_es384() -> None:
    link = t.signed_policy(t.wide_policy(), t.WIDE[:2])
    for signer in t.WIDE[:2]:
        key = COSEKey.from_pem(signer.public.pem(), kid=signer.kid)
        assert COSE.new().decode(link.encode(), key) == link.payload
    stranger = COSEKey.from_pem(t.WIDE[2].public.pem(), kid=t.WIDE[0].kid)
    with pytest.raises(VerifyError):
        COSE.new().decode(link.encode(), stranger)


def test_openssl_verifies_a_signature_of_es384(tmp_path: Path) -> None:
    """Over bytes that cbor2 makes, as RFC 9052 has them."""
    signer = t.WIDE[0]
    (entry,) = entries(signer, b"payload", "it")
    protected = cbor2.dumps({1: -35, 4: signer.kid}, canonical=True)
    signed, signature = tmp_path / "signed", tmp_path / "signature"
    signed.write_bytes(cbor2.dumps(["Signature", b"", protected, b"", b"payload"]))
    r, s = (int.from_bytes(entry.signature[at : at + 48], "big") for at in (0, 48))
    signature.write_bytes(encode_dss_signature(r, s))
    key = tmp_path / "key.pem"
    key.write_bytes(signer.public.pem())
    command = ["openssl", "dgst", "-sha384", "-verify", str(key), "-signature", str(signature), str(signed)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"Verified OK\n"
    signed.write_bytes(signed.read_bytes() + b"x")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_key_has_the_id_that_its_file_has(algorithm: Algorithm) -> None:
    """Computed from the bytes in the policy, so that no policy can say another one."""
    for _ in range(3):
        public = public_of(generate(algorithm))
        assert Key.of(public).kid == public.kid == load_public_key(public.pem()).kid
        assert len(Key.of(public).raw) == KEY_BYTES[KINDS[algorithm]]


def test_a_version_keeps_what_is_revoked() -> None:
    """Of a file, and on the way to the next version."""
    gone, more = frozenset([b"a" * 16]), frozenset([b"a" * 16, b"b" * 16])
    first = policy(revoked=gone)
    follow_error(first, policy(version=2, revoked=more))
    for revoked in (frozenset[bytes](), frozenset([b"b" * 16])):
        links = (t.signed_policy(first), t.signed_policy(policy(version=2, revoked=revoked)))
        with pytest.raises(TrustError, match=f"version 2 takes a revocation back: expected key {'61' * 16}"):
            Chain.decode(b"".join(link.encode() for link in links))


def test_keys_that_are_none() -> None:
    good = Key.of(ROOTS[0].public)
    assert good.first == ROOTS[0].public
    assert replace(good, raw=b"\4" + bytes(64)).first is None
    hybrid = Key.of(HYBRIDS[0].public)
    assert hybrid.first == HYBRIDS[0].public.halves[0]
    with pytest.raises(TrustError, match=r"expected ES256 or ES256.ML-DSA-44 or ES384 or EdDSA, found ML-DSA-44"):
        Key.of(HYBRIDS[0].public.halves[1])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 0}, "name and version"),
        ({"version": 2**32}, "cannot be written"),
        ({"name": "x" * 33}, "cannot be written"),
        ({"name": ""}, "name and version"),
        ({"name": "größe"}, "ASCII that can be printed"),
        ({"keys": ()}, "a role's key: expected one of the trust policy's keys"),
        ({"root": Role(kids(ROOTS), 4)}, "keys and threshold"),
        ({"root": Role(kids(ROOTS), 0)}, "keys and threshold"),
        ({"not_before": 2, "not_after": 1}, "not from its end on"),
        ({"rules": (rule("a"),) * 17}, "rules of a policy: expected 0 to 16, found 17"),
        ({"rules": (rule("", prefix=False),)}, "name of a rule"),
        ({"rules": (rule("a", platform="x" * 17),)}, "cannot be written"),
        ({"revoked": kids(ROOTS)}, "revoked and has rights"),
        ({"revoked": frozenset(bytes([n]) * 16 for n in range(33))}, "revokeds of a policy: expected 0 to 32"),
    ],
)
def test_policies_that_no_device_takes(changes: dict[str, object], text: str) -> None:
    with pytest.raises(TrustError, match=text):
        replace(policy(), **changes).encode()  # type: ignore[arg-type]


def test_anchors() -> None:
    """A key file, or a policy's; one that lacks signatures is none."""
    assert load_anchor(ES256.public.pem()) == ES256.public
    first, second = t.signed_policy(policy()), t.signed_policy(policy(version=2))
    assert load_anchor(first.encode()) == policy()
    assert load_anchor(first.encode() + second.encode()) == policy(version=2)
    for bad, text in (
        (
            t.signed_policy(policy(), ROOTS[:1]).encode(),
            "version 1 of trust policy fleet is not signed by enough root keys",
        ),
        (
            first.encode() + t.signed_policy(policy(version=2), []).encode(),
            "version 2 of trust policy fleet is not signed",
        ),
        (second.encode() + first.encode(), "does not follow the one before it"),
        (first.encode() + t.signed_policy(policy(version=2, name="other")).encode(), "found version 2 of other"),
        (first.encode()[:-1], "COSE_Sign"),
        (Signatures({}).encode(), "a message without a trust policy"),
        (first.encode() * 33, "expected 1 to 32, found 33"),
    ):
        with pytest.raises(TraceError, match=text):
            load_anchor(bad, file="x.gtp")


def test_links_say_who_is_missing() -> None:
    before, link = policy(), t.signed_policy(policy(version=2), ROOTS[:1])
    for found in link.quorums(before):
        assert (found.signed, found.missing, bool(found)) == (kids(ROOTS[:1]), 1, False)
    spoiled = link.sign(ROOTS[1].kid, entries(ROOTS[1], b"another", "it"))
    assert spoiled.quorums(None)[0].bad == {ROOTS[1].kid: Status.SIGNATURE}
    assert [link.policy.version for link in Chain((t.signed_policy(before), link)).unfinished()] == [2]


def test_to_be_signed_has_the_key_in_it() -> None:
    assert to_be_signed(ROOTS[0].kid, b"x") != to_be_signed(ROOTS[1].kid, b"x")
