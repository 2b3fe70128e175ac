# SPDX-License-Identifier: BSD-2-Clause
"""Programs that sign, signatures made elsewhere, and what of their answers is taken."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import utils

from signing import curves, key_files, keys
from signing.errors import SignerError
from signing.sign import FileSigner, checked, sign_trace, to_be_signed
from signing.signers import ANSWER_BYTES, CommandSigner, GivenSignature
from signing.verify import verify_trace
from tests.support.signing_samples import ES256, SIGNERS, small_trace

TRACE = small_trace()


def program(text: str) -> str:
    return shlex.join([sys.executable, "-c", text])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "a key.pem"  # a space: words are quoted as in a shell
    path.write_bytes(key_files.private_pem(ES256.key))
    return path


@pytest.mark.parametrize("words", ["", " -out {output}", " -out {output} {input}"])
def test_openssl_signs(key: Path, words: str) -> None:
    """With its DER, by pipes or by files."""
    command = f"openssl dgst -sha256 -sign {shlex.quote(str(key))}{words}"
    assert verify_trace(sign_trace(TRACE, CommandSigner(ES256.public, command)), [ES256.public])


def test_openssl_signs_with_ed25519(tmp_path: Path) -> None:
    signer = SIGNERS["eddsa"]
    path = tmp_path / "key.pem"
    path.write_bytes(key_files.private_pem(signer.key))
    command = f"openssl pkeyutl -sign -rawin -inkey {path} -in {{input}}"
    assert sign_trace(TRACE, CommandSigner(signer.public, command)) == sign_trace(TRACE, signer)


@pytest.mark.parametrize("name", SIGNERS)
def test_a_signature_made_elsewhere(name: str) -> None:
    """Where signatures are deterministic, the file is the same as if the key were here."""
    signer = SIGNERS[name]
    signature = signer.sign(to_be_signed(TRACE, signer.public))
    assert sign_trace(TRACE, GivenSignature(signer.public, signature)) == sign_trace(TRACE, signer)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("", "the signer's command is empty"),
        ("'a", "cannot be read"),
        ("/no/program", "/no/program: the signer cannot be started"),
        ("a\0b", "cannot be started"),
        ("false", "false: the signer ended with status 1"),
        ("true", "true: the signer's answer: expected a signature, found nothing"),
        ("true {output}", "true: the signer wrote no file {output}"),
        ("echo", "1 bytes instead of a signature of 64"),
        ("cat", "instead of a signature of 64"),
        (f"head -c {ANSWER_BYTES + 1} /dev/zero", f"expected a signature, found {ANSWER_BYTES + 1} bytes"),
        ("head -c 64 /dev/zero", "no signature of ES256"),
        ("head -c 70 /dev/zero", "70 bytes instead of a signature of 64"),
    ],
)
def test_programs_that_do_not_sign(command: str, text: str) -> None:
    with pytest.raises(SignerError, match=text):
        sign_trace(TRACE, CommandSigner(ES256.public, command))


def test_a_program_that_never_ends() -> None:
    with pytest.raises(SignerError, match=r"took more than 0\.1 s"):
        CommandSigner(ES256.public, "sleep 60", timeout_s=0.1).sign(b"")


def test_no_shell_is_between(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(SignerError, match="instead of a signature"):
        sign_trace(TRACE, CommandSigner(ES256.public, f"echo $(touch {made}); touch {made}"))
    assert not made.exists()


def test_the_program_sees_what_is_to_be_signed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = f"import sys; open({str(seen)!r}, 'wb').write(sys.stdin.buffer.read()); print('x')"
    assert CommandSigner(ES256.public, program(text)).sign(b"some bytes") == b"x\n"
    assert seen.read_bytes() == b"some bytes"


def test_forms_of_signatures() -> None:
    """DER or not, with a low or a high s: one form comes out, and of other bytes or keys none."""
    signature = ES256.sign(b"text")
    r, s = curves.scalars(signature)
    for given in (s, curves.P256_ORDER - s):
        raw = r.to_bytes(32, "big") + given.to_bytes(32, "big")
        for form in (raw, utils.encode_dss_signature(r, given)):
            assert checked(form, ES256.public, b"text", "a text") == signature
    with pytest.raises(SignerError, match="expected one of a text by ES256 key"):
        checked(signature, ES256.public, b"texts", "a text")
    with pytest.raises(SignerError, match="does not fit"):
        checked(signature, FileSigner(keys.generate(keys.Algorithm.ES256)).public, b"text", "a text")
    for wrong in (
        b"",
        utils.encode_dss_signature(r, 1 << 300),
        bytes.fromhex("3006020181020101"),
        signature + b"x",
    ):
        with pytest.raises(SignerError, match="instead of a signature of 64"):
            checked(wrong, ES256.public, b"text", "a text")
    with pytest.raises(SignerError, match="no signature of ES256"):
        checked(utils.encode_dss_signature(0, s), ES256.public, b"text", "a text")
