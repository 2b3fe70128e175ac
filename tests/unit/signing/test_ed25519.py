# SPDX-License-Identifier: BSD-2-Clause
"""Keys of Ed25519 under trust policies: other programs verify what they sign."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cwt import COSE, COSEKey, VerifyError

from signing.curves import ED25519_PRIME
from signing.errors import KeyFileError
from signing.key_files import load_public_key
from signing.keys import PublicKey
from signing.sign import entries
from signing.trust import Policy
from signing.trust_keys import Key
from tests.support import ed25519_cases as e
from tests.support import trust_samples as t
from trace_format.schema.trust import KeyKind


def test_cwt_verifies_a_policy_with_keys_of_ed25519() -> None:
    link = t.signed_policy(t.edwards_policy(), t.EDWARDS[:2])
    for signer in t.EDWARDS[:2]:
        key = COSEKey.from_pem(signer.public.pem(), kid=signer.kid)
        assert COSE.new().decode(link.encode(), key) == link.payload
    stranger = COSEKey.from_pem(t.EDWARDS[2].public.pem(), kid=t.EDWARDS[0].kid)
    with pytest.raises(VerifyError):
        COSE.new().decode(link.encode(), stranger)


def test_openssl_verifies_a_signature_of_ed25519(tmp_path: Path) -> None:
    """Over bytes that cbor2 makes, as RFC 9052 has them."""
    signer = t.EDWARDS[0]
    (entry,) = entries(signer, b"payload", "it")
    protected = cbor2.dumps({1: -8, 4: signer.kid}, canonical=True)
    key, signed, signature = (tmp_path / name for name in ("key.pem", "signed", "signature"))
    key.write_bytes(signer.public.pem())
    signed.write_bytes(cbor2.dumps(["Signature", b"", protected, b"", b"payload"]))
    signature.write_bytes(entry.signature)
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(key), "-rawin", "-in", str(signed)]
    command += ["-sigfile", str(signature)]
    assert b"Signature Verified Successfully" in subprocess.run(command, capture_output=True, check=True).stdout
    signed.write_bytes(signed.read_bytes() + b"x")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_a_policy_with_such_keys_is_read_as_it_was_written() -> None:
    policy = t.edwards_policy()
    assert Policy.decode(policy.encode()) == policy
    keys = [key for key in policy.keys if key.kind is KeyKind.ED25519]
    assert [key.first for key in keys] == [PublicKey(_public(key.raw)) for key in keys]
    assert len(keys) == 2


def test_keys_of_small_order_are_no_keys_of_a_policy() -> None:
    for point in e.SMALL:
        for more in (0, ED25519_PRIME) if point[1] < 19 else (0,):
            public = PublicKey(_public(e.encoded(point, more)))
            assert Key(public.raw, KeyKind.ED25519).first is None
            with pytest.raises(KeyFileError, match="small order"):
                load_public_key(public.pem())


def _public(raw: bytes) -> ed25519.Ed25519PublicKey:
    return ed25519.Ed25519PublicKey.from_public_bytes(raw)
