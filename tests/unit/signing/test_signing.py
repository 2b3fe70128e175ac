# SPDX-License-Identifier: BSD-2-Clause
"""Signing and verifying: other people's COSE libraries, golden vectors, every bit flipped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cwt import COSE, COSEKey, COSEMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from pycose.algorithms import EdDSA, Es256
from pycose.headers import KID, Algorithm
from pycose.keys import EC2Key, OKPKey
from pycose.messages import CoseMessage, Sign1Message

from signing import curves, key_files, keys
from signing.envelope import ALGORITHMS, Envelope, join, split, to_be_signed
from signing.errors import SignerError
from signing.sign import FileSigner, sign_trace
from signing.verify import Verdict, verify_trace
from tests.support.sampling import SomeOf
from tests.support.signing_samples import (
    ED25519_SEED,
    ENVELOPE_START,
    P256_SCALAR,
    SIGNERS,
    TRACE_START,
    flipped,
    small_trace,
)
from trace_format import layout
from trace_format.errors import MagicError, TraceError

VECTORS = Path(__file__).parent / "vectors"
TRACE = small_trace()
LONG_TRACE = small_trace(9000)  # three chunks

both = pytest.mark.parametrize("name", SIGNERS)


def head_of(trace: bytes) -> bytes:
    return trace[: layout.read_header(trace)["head_bytes"]]


def pycose_key(name: str) -> EC2Key | OKPKey:
    raw = SIGNERS[name].public.raw
    if name == "eddsa":
        return OKPKey(crv="ED25519", x=raw, d=ED25519_SEED)
    return EC2Key(crv="P_256", x=raw[1:33], y=raw[33:], d=P256_SCALAR.to_bytes(32, "big"))


def low(envelope: Envelope) -> Envelope:
    """As it is read: other people's ES256 signatures have any s."""
    is_ecdsa = envelope.algorithm == keys.Algorithm.ES256
    return replace(envelope, signature=curves.lowered(envelope.signature)) if is_ecdsa else envelope


@both
def test_signed_trace_is_verified_by_pycose(name: str) -> None:
    signed = sign_trace(TRACE, SIGNERS[name])
    message = CoseMessage.decode(signed[ENVELOPE_START : ENVELOPE_START + 92])
    assert isinstance(message, Sign1Message)
    assert message.phdr == {Algorithm: {"es256": Es256, "eddsa": EdDSA}[name], KID: SIGNERS[name].kid}
    assert message.uhdr == {}
    message.key = pycose_key(name)
    assert message.verify_signature(head_of(TRACE))
    if name == "es256":  # for EdDSA, pycose raises what its own library raises
        assert not message.verify_signature(flipped(head_of(TRACE), 999))


@both
def test_signed_trace_is_verified_by_cwt(name: str) -> None:
    signed = sign_trace(TRACE, SIGNERS[name])
    key = COSEKey.from_pem(SIGNERS[name].public.pem(), kid=SIGNERS[name].kid)
    envelope = signed[ENVELOPE_START : ENVELOPE_START + 92]
    assert COSE.new().decode(envelope, key, detached_payload=head_of(TRACE)) == head_of(TRACE)
    with pytest.raises(Exception, match="Failed to verify"):
        COSE.new().decode(envelope, key, detached_payload=flipped(head_of(TRACE), 999))


@both
def test_message_made_by_cwt_is_verified(name: str) -> None:
    signer = SIGNERS[name]
    key = COSEKey.from_pem(key_files.private_pem(signer.key), kid=signer.kid)
    made = COSE.new().encode_and_sign(head_of(TRACE), key, protected={1: int(signer.alg), 4: signer.kid})
    detached, _ = COSEMessage.loads(made).detach_payload()
    envelope = low(Envelope.decode(detached.dumps()))
    result = verify_trace(join(envelope, TRACE), [signer.public])
    assert result.ok, result.reason


@both
@given(head=st.binary(max_size=300))
@settings(max_examples=20, deadline=None)
def test_any_head_signed_by_pycose_has_our_bytes(name: str, head: bytes) -> None:
    signer = SIGNERS[name]
    algorithm = {"es256": Es256, "eddsa": EdDSA}[name]
    made = Sign1Message(phdr={Algorithm: algorithm, KID: signer.kid}, uhdr={}, key=pycose_key(name))
    ours = Envelope(signer.alg, signer.kid, signer.sign(to_be_signed(signer.alg, signer.kid, head)))
    assert low(Envelope.decode(made.encode(detached_payload=head))) == ours


@both
def test_golden_vector(name: str) -> None:
    """Made by pycose (vectors/make.py): it is verified, and signing gives the same bytes."""
    signed = (VECTORS / f"{name}.sgtr").read_bytes()
    trace = (VECTORS / "trace.gtr").read_bytes()
    public = key_files.load_public_key((VECTORS / f"{name}.pub.pem").read_bytes())
    result = verify_trace(signed, [public])
    assert result.ok, result.reason
    assert bytes(result.trace or b"") == trace
    signer = SIGNERS[name]
    assert public.kid == signer.kid
    signature = signer.sign(to_be_signed(signer.alg, signer.kid, head_of(trace)))
    assert join(Envelope(signer.alg, signer.kid, signature), trace) == signed


@both
@pytest.mark.parametrize("trace", [TRACE, LONG_TRACE], ids=["one chunk", "three chunks"])
def test_sign_and_verify(name: str, trace: bytes) -> None:
    signer = SIGNERS[name]
    signed = sign_trace(trace, signer)
    assert sign_trace(trace, signer) == signed
    result = verify_trace(signed, [signer.public], file="net.sgtr")
    assert result
    assert (result.verdict, result.algorithm, result.kid) == (Verdict.VERIFIED, signer.alg, signer.kid)
    assert bytes(result.trace or b"") == trace
    assert result.reason == f"net.sgtr: signed by {signer.alg.title} key {signer.kid.hex()}"


@both
def test_every_flipped_bit_is_refused(name: str, some_of: SomeOf) -> None:
    signer = SIGNERS[name]
    signed = sign_trace(TRACE, signer)
    seen = set()
    for bit in some_of(range(len(signed) * 8), 800):
        result = verify_trace(flipped(signed, bit), [signer.public])
        assert not result, bit
        assert result.trace is None
        assert result.reason
        seen.add(result.verdict)
    assert seen == set(Verdict) - {Verdict.VERIFIED, Verdict.NOT_TRUSTED}


@both
def test_a_flipped_bit_of_every_byte_of_the_body_is_refused(name: str, some_of: SomeOf) -> None:
    signer = SIGNERS[name]
    signed = sign_trace(LONG_TRACE, signer)
    body = TRACE_START + len(head_of(LONG_TRACE))
    for at in some_of(range(body, len(signed)), 800):
        result = verify_trace(flipped(signed, at * 8 + at % 8), [signer.public])
        chunk = (at - body) // 4096
        if result.verdict != Verdict.MALFORMED:  # zero bytes after a section
            assert result.verdict == Verdict.BAD_CHUNK
            assert f"at offset {body + chunk * 4096:#x}: hash of chunk {chunk}: expected" in result.reason


@both
def test_unknown_key(name: str) -> None:
    signed = sign_trace(TRACE, SIGNERS[name])
    other = FileSigner(keys.generate(SIGNERS[name].alg)).public
    result = verify_trace(signed, [other], file="net.sgtr")
    assert result.verdict == Verdict.UNKNOWN_KEY
    assert result.reason == (
        f"net.sgtr: signed by an unknown key: expected {other.kid.hex()}, found {SIGNERS[name].kid.hex()}"
    )
    assert verify_trace(signed, []).verdict == Verdict.UNKNOWN_KEY


@both
def test_one_of_several_keys_is_enough(name: str) -> None:
    trusted = [FileSigner(keys.generate(a)).public for a in ALGORITHMS] + [s.public for s in SIGNERS.values()]
    assert verify_trace(sign_trace(TRACE, SIGNERS[name]), trusted).ok


@both
def test_key_id_of_a_trusted_key_on_another_keys_signature(name: str) -> None:
    """A forger can name any key; the signature must be that key's."""
    trusted, forger = SIGNERS[name], FileSigner(keys.generate(SIGNERS[name].alg))
    signature = forger.sign(to_be_signed(trusted.alg, trusted.kid, head_of(TRACE)))
    result = verify_trace(join(Envelope(trusted.alg, trusted.kid, signature), TRACE), [trusted.public])
    assert result.verdict == Verdict.BAD_SIGNATURE
    assert "does not fit the trace's head" in result.reason


@both
def test_algorithm_is_the_keys_own(name: str) -> None:
    """Signed correctly, but with an algorithm number that is not the key's."""
    signer = SIGNERS[name]
    other = next(a for a in ALGORITHMS if a != signer.alg)
    signature = signer.sign(to_be_signed(other, signer.kid, head_of(TRACE)))
    result = verify_trace(join(Envelope(other, signer.kid, signature), TRACE), [signer.public])
    assert result.verdict == Verdict.BAD_SIGNATURE
    assert f"expected {signer.alg.title}, found {other.title}" in result.reason


@both
def test_signature_of_another_trace(name: str) -> None:
    signer = SIGNERS[name]
    envelope = split(sign_trace(LONG_TRACE, signer)).envelope
    assert verify_trace(join(envelope, TRACE), [signer.public]).verdict == Verdict.BAD_SIGNATURE


def test_body_of_another_trace() -> None:
    """The head is signed, the body is not its own: the chunk hashes show it."""
    signer = SIGNERS["es256"]
    head = head_of(LONG_TRACE)
    body = bytearray(LONG_TRACE[len(head) :])
    body[4096 : 2 * 4096], body[:4096] = body[:4096], body[4096 : 2 * 4096]
    envelope = split(sign_trace(LONG_TRACE, signer)).envelope
    result = verify_trace(join(envelope, head + bytes(body)), [signer.public])
    assert result.verdict == Verdict.BAD_CHUNK
    assert "hash of chunk 0" in result.reason


def test_signed_head_that_is_malformed() -> None:
    """A trusted signature does not make a head readable."""
    signer = SIGNERS["es256"]
    broken = bytearray(TRACE)
    broken[64 + 8] ^= 8  # offset of the first section
    signature = signer.sign(to_be_signed(signer.alg, signer.kid, head_of(bytes(broken))))
    result = verify_trace(join(Envelope(signer.alg, signer.kid, signature), bytes(broken)), [signer.public])
    assert result.verdict == Verdict.MALFORMED
    assert f"at offset {TRACE_START + 64 + 8:#x}: offset of a section" in result.reason


@pytest.mark.parametrize(
    "trace",
    [
        b"",
        TRACE[:40],
        TRACE[:-1],
        TRACE + b"\0",
        flipped(TRACE, 8 * 8 + 1),
        flipped(TRACE, len(TRACE) * 8 - 1),
        b"x" * 900,
    ],
    ids=["empty", "cut header", "cut", "a byte more", "version", "chunk", "text"],
)
def test_malformed_trace_is_not_signed(trace: bytes) -> None:
    with pytest.raises(TraceError, match=r"^net\.gtr at offset 0x"):
        sign_trace(trace, SIGNERS["es256"], file="net.gtr")


def test_signed_trace_is_not_signed_again() -> None:
    with pytest.raises(MagicError, match=r"^net\.sgtr at offset 0x0: signed already"):
        sign_trace(sign_trace(TRACE, SIGNERS["es256"]), SIGNERS["eddsa"], file="net.sgtr")


@dataclass
class Token:
    """A signer that is not a file: it sees nothing but the bytes to be signed."""

    signature_bytes: int = 64
    is_high: bool = False
    public: keys.PublicKey = SIGNERS["es256"].public
    seen: bytes = b""

    def sign(self, tbs: bytes) -> bytes:
        self.seen = tbs
        signature = SIGNERS["es256"].sign(tbs)
        if self.is_high:
            signature = the_other(signature)
        return signature[: self.signature_bytes].ljust(self.signature_bytes, b"\0")


def the_other(signature: bytes) -> bytes:
    """(r, n - s) for (r, s)."""
    r, s = curves.scalars(signature)
    return r.to_bytes(32, "big") + (curves.P256_ORDER - s).to_bytes(32, "big")


def test_a_trace_has_one_signed_file_only() -> None:
    """Anybody can write the second signature; ECDSA itself accepts it."""
    signer = SIGNERS["es256"]
    signed = split(sign_trace(TRACE, signer))
    second = replace(signed.envelope, signature=the_other(signed.envelope.signature))
    result = verify_trace(join(second, TRACE), [signer.public], file="net.sgtr")
    assert result.verdict == Verdict.BAD_SIGNATURE
    assert result.reason.startswith(f"net.sgtr: the signature of key {signer.kid.hex()} has a high s: expected")
    assert not signer.public.verify(second.signature, to_be_signed(signer.alg, signer.kid, head_of(TRACE)))


def test_a_token_may_give_either_signature() -> None:
    assert sign_trace(TRACE, Token(is_high=True)) == sign_trace(TRACE, SIGNERS["es256"])


@pytest.mark.parametrize("signature", [bytes(64), b"\xff" * 64, bytes(32) + b"\1" * 32, b"\1" * 32 + bytes(32)])
def test_a_token_that_gives_no_signature(signature: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Token, "sign", lambda self, tbs: signature)
    with pytest.raises(SignerError, match="no signature of ES256: r or s is not in 1 to n - 1"):
        sign_trace(TRACE, Token())


def test_any_signer_will_do() -> None:
    token = Token()
    signed = sign_trace(TRACE, token)
    assert signed == sign_trace(TRACE, SIGNERS["es256"])
    assert token.seen == to_be_signed(token.public.algorithm, token.public.kid, head_of(TRACE))


@pytest.mark.parametrize("size", [0, 63, 65, 71])
def test_signer_that_gives_something_else(size: int) -> None:
    with pytest.raises(SignerError, match=f"{size} bytes instead of a signature of 64"):
        sign_trace(TRACE, Token(signature_bytes=size))


@both
def test_a_signer_that_signs_something_else(name: str) -> None:
    """What a token or a program returns is verified before anything is written."""
    signer = SIGNERS[name]
    stranger = FileSigner(keys.generate(signer.alg))

    @dataclass
    class Other:
        public: keys.PublicKey
        key: keys.PrivateKey
        changed: bytes

        def sign(self, tbs: bytes) -> bytes:
            return keys.sign(self.key, tbs + self.changed)

    assert verify_trace(sign_trace(TRACE, Other(signer.public, signer.key, b"")), [signer.public])
    for other in (Other(signer.public, stranger.key, b""), Other(signer.public, signer.key, b"\0")):
        with pytest.raises(
            SignerError, match=f"does not fit: expected .* {signer.alg.title} key {signer.kid.hex()}"
        ):
            sign_trace(TRACE, other)
