# SPDX-License-Identifier: BSD-2-Clause
"""Hybrid keys: who signs with which half, and what another COSE library makes of what comes out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import mldsa
from cwt import COSE, COSEKey

from host_tools.commands.signers import chosen
from signing import key_files, keys
from signing.cose_sign import Entries, Signatures, to_be_signed
from signing.errors import KeyFileError, SignerError
from signing.keys import Algorithm, PublicKey
from signing.sign import FileSigner, HybridSigner, entries, sign_trace
from signing.trust import Role
from signing.trust_chain import Quorum, quorum
from signing.trust_keys import KINDS, Key
from tests.support import trust_samples as t
from tests.support.trust_samples import HYBRIDS, MIXED
from trace_format.schema.report import Status

HYBRID = HYBRIDS[0]
assert isinstance(HYBRID.key, keys.HybridPrivateKey)
HALVES = FileSigner(HYBRID.key.es256), FileSigner(HYBRID.key.ml_dsa)
WAYS = ("signing_key", "pkcs11", "signer_command", "signature", "public_key", "passphrase_file", "passphrase_env")
OPTIONS: dict[str, None] = dict.fromkeys([*WAYS, "half", "ml_dsa_key", "ml_dsa_signature"])


def judged(found: keys.PublicKey, made: Entries, payload: bytes = b"payload") -> Quorum:
    policy = t.hybrid_policy()
    message = Signatures({found.kid: made}, payload)
    return quorum(policy, policy.rules[0].role, payload, message)


def test_halves_of_two_signers_are_one_key() -> None:
    signer = HybridSigner(*HALVES)
    assert signer.public == HYBRID.public
    found = entries(signer, b"payload", "it")
    assert [entry.algorithm for entry in found] == [Algorithm.ES256, Algorithm.ML_DSA_44]
    assert judged(signer.public, found).signed == {HYBRID.kid}
    with pytest.raises(KeyFileError, match="expected one of ES256 and one of ML-DSA-44"):
        entries(HybridSigner(HALVES[0], HALVES[0]), b"", "it")


def test_a_half_that_signs_something_else_is_found_out() -> None:
    @dataclass
    class Other:
        public: PublicKey
        by: FileSigner

        def sign(self, tbs: bytes) -> bytes:
            return self.by.sign(tbs + b"\0")

    for halves in (
        (HALVES[0], Other(HALVES[1].public, HALVES[1])),
        (Other(HALVES[0].public, HALVES[0]), HALVES[1]),
    ):
        with pytest.raises(SignerError, match="does not fit"):
            entries(HybridSigner(*halves), b"payload", "it")


def test_alone_a_hybrid_key_signs_no_trace() -> None:
    for signer in (HYBRID, HALVES[1]):
        with pytest.raises(SignerError, match="signs under a trust policy only"):
            sign_trace(t.small(), signer)
    with pytest.raises(SignerError, match="its halves have"):
        HYBRID.sign(b"")


def test_each_reason() -> None:
    found = entries(HYBRID, b"payload", "it")
    other = entries(HYBRIDS[1], b"payload", "it")
    for made, status in (
        (found[:1], Status.TRUST_HALF),
        ((found[0], other[1]), Status.TRUST_KEY),
        ((found[0], replace(found[1], signature=other[1].signature)), Status.SIGNATURE),
    ):
        assert judged(HYBRID.public, made).bad == {HYBRID.kid: status}


def test_a_cose_library_verifies_the_es256_half_and_openssl_the_other() -> None:
    """python-cwt knows no ML-DSA; its half is verified over bytes that cbor2 makes, as RFC 9052 has them."""
    link = t.signed_policy(t.hybrid_policy(root=Role(t.kids(MIXED), 1)), [HYBRID])
    key = COSEKey.from_pem(HALVES[0].public.pem(), kid=HYBRID.kid)
    assert COSE.new().decode(link.encode(), key) == link.payload
    protected, _, payload, signatures = cbor2.loads(link.encode()).value
    header, unprotected, signature = signatures[1]
    assert cbor2.loads(header) == {1: -48, 4: HYBRID.kid}
    public = unprotected[14][8][1]
    assert {name: public[name] for name in (1, 3)} == {1: 7, 3: -48}
    tbs = cbor2.dumps(["Signature", protected, header, b"", payload])
    assert tbs == to_be_signed(HYBRID.kid, payload, Algorithm.ML_DSA_44)
    mldsa.MLDSA44PublicKey.from_public_bytes(public[-1]).verify(signature, tbs)
    assert hashlib.sha256(public[-1]).digest() == Key.of(HYBRID.public).raw[65:]


def test_one_half_elsewhere(tmp_path: Path) -> None:
    """Both ways: a key file beside another signer, and both signatures made elsewhere."""
    es256, ml_dsa, public = tmp_path / "es.pem", tmp_path / "pq.pem", tmp_path / "pub.pem"
    es256.write_bytes(key_files.private_pem(HALVES[0].key))
    ml_dsa.write_bytes(key_files.private_pem(HALVES[1].key))
    public.write_bytes(HYBRID.public.pem())
    by = chosen(**OPTIONS | {"to_be_signed": False, "signing_key": es256, "ml_dsa_key": ml_dsa})  # type: ignore[arg-type]
    assert by.signer is not None
    assert judged(by.public, entries(by.signer, b"payload", "it")).signed == {HYBRID.kid}
    signed = []
    for name, half in zip(("es256", "ml-dsa-44"), HALVES, strict=True):
        asked = chosen(**OPTIONS | {"to_be_signed": True, "public_key": public, "half": name})  # type: ignore[arg-type]
        assert asked.signer is None
        tbs = to_be_signed(asked.public.kid, b"payload", asked.signing.algorithm)
        signed.append(tmp_path / f"{name}.sig")
        signed[-1].write_bytes(half.sign(tbs))
    given = {"to_be_signed": False, "public_key": public, "signature": signed[0], "ml_dsa_signature": signed[1]}
    by = chosen(**OPTIONS | given)  # type: ignore[arg-type]
    assert by.signer is not None
    assert judged(by.public, entries(by.signer, b"payload", "it")).signed == {HYBRID.kid}


def test_all_kinds_have_a_name() -> None:
    assert {Key.of(one.public).title for one in (HYBRID, t.ROOTS[0], t.WIDE[0], t.EDWARDS[0])} == {
        one.title for one in KINDS
    }
