# SPDX-License-Identifier: BSD-2-Clause
"""Keys on PKCS#11 tokens, with SoftHSM2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from signing import keys
from signing.errors import SignerError
from signing.sign import FileSigner, sign_trace
from signing.tokens import TokenSigner, TokenUri
from signing.verify import verify_trace
from tests.support import tokens
from tests.support.signing_samples import ES256, small_trace

NET = "pkcs11:token=owner;object=net"


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tokens")
        tokens.make(folder, patch, "owner", "other")
        tokens.put(folder, ES256.key, token="owner", label="net")
        tokens.put(folder, ec.generate_private_key(ec.SECP384R1()), token="owner", label="wide", key_id="02")
        for key_id in ("03", "04"):
            tokens.put(folder, keys.generate(keys.Algorithm.ES256), token="owner", label="twin", key_id=key_id)
        yield


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(
    "uri", [NET, "pkcs11:token=owner;id=%01", "pkcs11:object=ne%74;token=owner;model=SoftHSM%20v2"]
)
def test_a_trace_signed_on_a_token(uri: str) -> None:
    signer = TokenSigner.find(uri, tokens.PIN)
    assert signer.public.kid == ES256.public.kid
    assert verify_trace(sign_trace(small_trace(), signer), [ES256.public])


@pytest.mark.usefixtures("token")
def test_a_token_without_the_public_half() -> None:
    """It is given then; another key's is found out before anything is written."""
    assert TokenSigner.find(NET, tokens.PIN, ES256.public).public == ES256.public
    other = FileSigner(keys.generate(keys.Algorithm.ES256)).public
    with pytest.raises(SignerError, match="signature does not fit"):
        sign_trace(small_trace(), TokenSigner.find(NET, tokens.PIN, other))


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(
    ("uri", "pin", "text"),
    [
        ("pkcs11:token=owner;object=none", tokens.PIN, "the token has no such key"),
        ("pkcs11:token=owner;object=twin", tokens.PIN, "several keys fit"),
        ("pkcs11:token=owner;object=twin;id=%05", tokens.PIN, "the token has no such key"),
        ("pkcs11:token=third;object=net", tokens.PIN, "there is no such token"),
        ("pkcs11:object=net", tokens.PIN, "several tokens fit"),
        ("pkcs11:token=other;object=net", tokens.PIN, "the token has no such key"),
        ("pkcs11:token=owner;object=net;manufacturer=ACME", tokens.PIN, "the token's manufacturer: expected ACME"),
        ("pkcs11:token=owner;object=wide", tokens.PIN, "expected one of ECDSA on P-256"),
        (NET, b"4321", "the PIN is wrong"),
        (NET, b"1", "the PIN is wrong"),
        (NET, b"\xff", "not UTF-8"),
        (NET, None, "or shows it after a PIN only"),
        (f"{NET}?module-path=/no/library.so", tokens.PIN, "/no/library.so"),
    ],
)
def test_what_cannot_be_had(uri: str, pin: bytes | None, text: str) -> None:
    with pytest.raises(SignerError, match=text):
        TokenSigner.find(uri, pin)


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("net", "not a URI of a token's key"),
        ("pkcs11:token=owner", "names no key"),
        ("pkcs11:", "names no key"),
        ("pkcs11:token=owner;object=net;pin-value=1234", "can be seen by others"),
        ("pkcs11:object=net?pin-source=file:/pin", "can be seen by others"),
        ("pkcs11:object=net;object=other", "'object=other': expected NAME=VALUE, each once"),
        ("pkcs11:object", "'object': expected NAME=VALUE"),
        ("pkcs11:object=net;module-path=/a.so", "'module-path=/a.so': expected NAME=VALUE, each once, of token"),
        ("pkcs11:object=net?object=a", "of module-path"),
    ],
)
def test_uris_that_are_refused(uri: str, text: str) -> None:
    with pytest.raises(SignerError, match=text):
        TokenUri.parse(uri)


def test_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PKCS11_MODULE", raising=False)
    assert TokenUri.parse(f"{NET}?module-path=/a/b.so").module == "/a/b.so"
    with pytest.raises(SignerError, match="which library talks to the token"):
        _ = TokenUri.parse(NET).module
    monkeypatch.setenv("PKCS11_MODULE", "/c.so")
    assert TokenUri.parse(NET).module == "/c.so"


def test_without_the_extra() -> None:
    """The package is asked for when it is needed, and named."""
    program = (
        "import sys; sys.modules['pkcs11'] = None\n"
        "from signing.tokens import TokenSigner\n"
        "try: TokenSigner.find('pkcs11:object=net?module-path=/a.so', None)\n"
        "except Exception as error: print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'gramophone[pkcs11]'" in ended.stdout
