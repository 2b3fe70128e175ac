# SPDX-License-Identifier: BSD-2-Clause
"""Keys on PKCS#11 tokens: smart cards, hardware security modules, SoftHSM.

A key is named by a `pkcs11:` URI (RFC 7512). Only the digest of what is signed goes to the token, as CKM_ECDSA
takes it (PKCS#11 3.0, 2.3.6), so that any token with P-256 will do.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_public_key

from signing.errors import SignerError
from signing.keys import PublicKey

SCHEME = "pkcs11:"
MODULE_VARIABLE = "PKCS11_MODULE"  # environment variable of the token's library, where the URI does not name it
# Of RFC 7512, 2.3: what names the token and the key, and the library. A PIN in a URI would stand in the list of
# processes, so it is refused.
_PATH = ("token", "serial", "manufacturer", "model", "object", "id", "type")
_QUERY = ("module-path",)


@dataclass(frozen=True)
class TokenUri:
    """What a `pkcs11:` URI names.

    Attributes:
        text: the URI.
        values: its attributes, decoded.
    """

    text: str
    values: dict[str, bytes]

    @classmethod
    def parse(cls, text: str) -> TokenUri:
        """Read a URI; SignerError where it is none, or has an attribute that is not known."""
        if not text.startswith(SCHEME):
            raise SignerError(
                f"not a URI of a token's key: expected '{SCHEME}token=NAME;object=NAME', found '{text}'"
            )
        path, _, query = text.removeprefix(SCHEME).partition("?")
        values: dict[str, bytes] = {}
        for part, separator, known in ((path, ";", _PATH), (query, "&", _QUERY)):
            for pair in filter(None, part.split(separator)):
                name, equals, value = pair.partition("=")
                if name.startswith("pin-"):
                    raise SignerError(f"{name} in a URI can be seen by others: --passphrase-file has the PIN")
                if name not in known or not equals or name in values:
                    raise SignerError(f"{text}: '{pair}': expected NAME=VALUE, each once, of {', '.join(known)}")
                values[name] = unquote_to_bytes(value)
        if not values.keys() & {"object", "id"}:
            raise SignerError(f"{text}: it names no key: expected object=NAME or id=%01")
        return cls(text, values)

    def word(self, name: str) -> str | None:
        """An attribute as text; None where it is not there."""
        value = self.values.get(name)
        return None if value is None else value.decode(errors="replace")

    @property
    def module(self) -> str:
        """The token's library; SignerError where nothing names it."""
        found = self.word("module-path") or os.environ.get(MODULE_VARIABLE, "")
        if not found:
            raise SignerError(
                f"{self.text}: which library talks to the token? Put ?module-path=/path/of/library.so after it, "
                f"or set {MODULE_VARIABLE}"
            )
        return found


@dataclass(frozen=True)
class TokenSigner:
    """Signs with a key of ES256 on a token; every signature opens a session of its own.

    Attributes:
        uri: which key.
        pin: the user's PIN; None where the token asks for none.
        public: the key's public half.
    """

    uri: TokenUri
    pin: bytes | None
    public: PublicKey

    @classmethod
    def find(cls, text: str, pin: bytes | None, public: PublicKey | None = None) -> TokenSigner:
        """Find the key on its token.

        Args:
            text: the `pkcs11:` URI.
            pin: the user's PIN.
            public: the public half, for tokens that hold the private one only.

        Raises:
            SignerError: no library, token or key, a wrong PIN, or a key of another kind than P-256.
        """
        uri = TokenUri.parse(text)
        with _session(uri, pin) as session:
            _key(session, uri, "PRIVATE_KEY")
            return cls(uri, pin, public or _public(session, uri))

    def sign(self, tbs: bytes) -> bytes:
        """Signature of 64 bytes."""
        pkcs11 = _library()
        with _session(self.uri, self.pin) as session:
            key = _key(session, self.uri, "PRIVATE_KEY")
            return bytes(key.sign(hashlib.sha256(tbs).digest(), mechanism=pkcs11.Mechanism.ECDSA))


def _library() -> Any:
    try:
        import pkcs11
    except ImportError:
        raise SignerError("keys on tokens need python-pkcs11: pip install 'gramophone[pkcs11]'") from None
    return pkcs11


@contextmanager
def _session(uri: TokenUri, pin: bytes | None) -> Iterator[Any]:
    """A session with the token; what goes wrong in it becomes a SignerError that names the URI."""
    pkcs11 = _library()
    serial = uri.values.get("serial")
    try:
        text = None if pin is None else pin.decode()
    except UnicodeDecodeError:
        raise SignerError("the PIN is not UTF-8, as PKCS#11 has it") from None
    try:
        token = pkcs11.lib(uri.module).get_token(token_label=uri.word("token"), token_serial=serial)
        for name, found in (("manufacturer", token.manufacturer_id), ("model", token.model)):
            if (expected := uri.word(name)) not in (None, found):
                raise SignerError(f"{uri.text}: the token's {name}: expected {expected}, found {found}")
        with token.open(user_pin=text) as session:
            yield session
    except pkcs11.PKCS11Error as error:
        raise SignerError(f"{uri.text}: {_words(error)}") from None
    except (OSError, RuntimeError) as error:  # the library cannot be loaded
        raise SignerError(f"{uri.module}: {error}") from None


def _key(session: Any, uri: TokenUri, kind: str) -> Any:
    """The one object of this kind; all of them are asked for, so that the search ends before the session does."""
    pkcs11 = _library()
    wanted = {
        pkcs11.Attribute.CLASS: getattr(pkcs11.ObjectClass, kind),
        pkcs11.Attribute.LABEL: uri.word("object"),
        pkcs11.Attribute.ID: uri.values.get("id"),
    }
    found = list(session.get_objects({name: value for name, value in wanted.items() if value is not None}))
    if not found:
        raise pkcs11.NoSuchKey
    if len(found) > 1:
        raise pkcs11.MultipleObjectsReturned
    return found[0]


def _public(session: Any, uri: TokenUri) -> PublicKey:
    from pkcs11.util.ec import encode_ec_public_key

    key = _key(session, uri, "PUBLIC_KEY")
    try:
        public = load_der_public_key(encode_ec_public_key(key))
    except (ValueError, KeyError, AttributeError, _library().PKCS11Error):
        public = None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise SignerError(f"{uri.text}: not a key that traces are signed with: expected one of ECDSA on P-256")
    return PublicKey(public)


def _words(error: Exception) -> str:
    """An error of the library, whose messages are often empty, in words."""
    known = {
        "NoSuchKey": "the token has no such key, or shows it after a PIN only",
        "MultipleObjectsReturned": "several keys fit: name one by id=%..",
        "NoSuchToken": "there is no such token",
        "MultipleTokensReturned": "several tokens fit: name one by token=NAME or serial=NUMBER",
        "PinIncorrect": "the PIN is wrong",
        "PinLenRange": "the PIN is wrong: it is too short or too long",
        "PinLocked": "the token is locked: the PIN was wrong too often",
        "UserNotLoggedIn": "the token wants a PIN (--passphrase-file)",
    }
    name = type(error).__name__
    return known.get(name) or str(error) or f"the token's library says {name}"
