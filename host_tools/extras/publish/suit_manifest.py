# SPDX-License-Identifier: BSD-2-Clause
"""SUIT envelopes: a manifest, who has signed it, and what it brings along. What it says is not read here.

Facts: draft-ietf-suit-manifest-33, "Authenticated Manifests" and the registries of "IANA Considerations". The
digest is of the manifest with the head of its byte string; COSE_Sign1's payload, detached, is the encoded digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cbor2

from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.strict_json import short
from signing.cose import HEADER_ALGORITHM, protected_header
from signing.errors import SignerError
from signing.keys import PublicKey
from signing.sign import Signer, checked

TAG = 107
AUTHENTICATION, MANIFEST = 2, 3
SEVERED = (16, 20, 23)  # parts of a manifest that can travel beside it: payload fetch, installation, text
SHA256 = -16  # COSE's number (RFC 9054)
COSE_SIGN1 = 18
MAX_BLOCKS = 32


@dataclass(frozen=True)
class Block:
    """One signature of a manifest.

    Attributes:
        protected: its protected header, encoded.
        signature: 64 bytes.
        unprotected: its other header.
    """

    protected: bytes
    signature: bytes
    unprotected: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def algorithm(self) -> Any:
        """What it says; None: nothing that can be read."""
        try:
            header = loads(self.protected, "a protected header")
        except DocumentError:
            return None
        return header.get(HEADER_ALGORITHM) if isinstance(header, dict) else None


@dataclass(frozen=True)
class Envelope:
    """A manifest that is signed, or to be signed.

    Attributes:
        manifest: its bytes.
        payloads: what it brings along, by the URI that the manifest has for it, such as "#net.sgtr".
        blocks: signatures.
        digest: what they are of, as the file has it; None: what it should be.
    """

    manifest: bytes
    payloads: Mapping[str, bytes] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    digest: bytes | None = None

    @property
    def right_digest(self) -> bytes:
        """The encoded digest of the manifest."""
        return cbor2.dumps([SHA256, hashlib.sha256(cbor2.dumps(self.manifest)).digest()])

    @property
    def is_whole(self) -> bool:
        """Whether what is signed is this manifest."""
        return self.digest in (None, self.right_digest)

    def to_be_signed(self, public: PublicKey) -> bytes:
        """What a key signs: Sig_structure of RFC 9052, 4.4."""
        return _tbs(protected_header(public.algorithm, public.kid), self.right_digest)

    def signed(self, signer: Signer) -> Envelope:
        """With one signature; SignerError where the signer gives none that fits."""
        public, tbs = signer.public, self.to_be_signed(signer.public)
        signature = checked(signer.sign(tbs), public, tbs, "the manifest's digest")
        return replace(self, blocks=(Block(protected_header(public.algorithm, public.kid), signature),))

    def signers(self, keys: Iterable[PublicKey]) -> frozenset[bytes]:
        """Ids of those keys of which there is a good signature of this manifest."""
        if not self.is_whole:
            return frozenset()
        return frozenset(key.kid for key in keys if any(self._fits(block, key) for block in self.blocks))

    def _fits(self, block: Block, key: PublicKey) -> bool:
        if block.algorithm != key.algorithm:
            return False
        try:
            checked(block.signature, key, _tbs(block.protected, self.right_digest), "the manifest's digest")
        except SignerError:
            return False
        return True

    def encode(self) -> bytes:
        """The file's bytes."""
        blocks = [
            cbor2.dumps(
                cbor2.CBORTag(COSE_SIGN1, [block.protected, dict(block.unprotected), None, block.signature])
            )
            for block in self.blocks
        ]
        authentication = cbor2.dumps([self.digest or self.right_digest, *blocks])
        content: dict[Any, bytes] = {AUTHENTICATION: authentication, MANIFEST: self.manifest}
        return cbor2.dumps(cbor2.CBORTag(TAG, content | dict(sorted(self.payloads.items()))))

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        """Read a file. Nothing is verified.

        Raises:
            DocumentError: it is no SUIT envelope of that draft, or its CBOR can be read in two ways.
        """
        found = loads(data, "a SUIT envelope")
        if not isinstance(found, cbor2.CBORTag) or found.tag != TAG:
            raise DocumentError("not a SUIT envelope", offset=0, expected=f"tag {TAG}", found=short(found))
        content = _map(found.value, "the envelope")
        for name, value in content.items():
            known = (
                name in (AUTHENTICATION, MANIFEST, *SEVERED) if isinstance(name, int) else isinstance(name, str)
            )
            if not known or isinstance(name, bool):
                raise DocumentError(
                    "element of the envelope", expected="2, 3, 16, 20, 23 or a URI", found=short(name)
                )
            if not isinstance(value, bytes):
                raise DocumentError(
                    f"element {name} of the envelope", expected="a byte string", found=short(value)
                )
        for name in (AUTHENTICATION, MANIFEST):
            if name not in content:
                raise DocumentError(f"element {name} of the envelope", expected="a byte string", found="nothing")
        severed = [name for name in SEVERED if name in content]
        if severed:
            raise DocumentError("severed elements, which are not read", expected="none", found=severed)
        wrapper = loads(content[AUTHENTICATION], "the authentication")
        if not isinstance(wrapper, list) or not 1 <= len(wrapper) <= 1 + MAX_BLOCKS:
            raise DocumentError(
                "the authentication", expected=f"1 to {1 + MAX_BLOCKS} entries", found=short(wrapper)
            )
        for value in wrapper:
            if not isinstance(value, bytes):
                raise DocumentError("the authentication", expected="byte strings", found=short(value))
        read_digest(wrapper[0], "the manifest's digest")
        payloads = {name: value for name, value in content.items() if isinstance(name, str)}
        return cls(content[MANIFEST], payloads, tuple(map(_block, wrapper[1:])), wrapper[0])


def read_digest(data: bytes, what: str) -> bytes:
    """The SHA-256 in an encoded SUIT_Digest; DocumentError where it is another thing."""
    found = loads(data, what)
    if not isinstance(found, list) or len(found) != 2:
        raise DocumentError(what, expected="an algorithm and bytes", found=short(found))
    if found[0] != SHA256 or isinstance(found[0], bool):
        raise DocumentError(f"{what}: algorithm", expected=f"{SHA256} (SHA-256)", found=short(found[0]))
    if not isinstance(found[1], bytes) or len(found[1]) != hashlib.sha256().digest_size:
        raise DocumentError(what, expected="32 bytes", found=short(found[1]))
    return found[1]


def loads(data: bytes, what: str) -> Any:
    """A value, of CBOR that says one thing: no name twice, the shortest form of each number, no open ends.

    Raises:
        DocumentError: it is none.
    """
    try:
        found = cbor2.loads(data)
        again = cbor2.dumps(found)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DocumentError(f"{what}: not CBOR ({type(error).__name__})") from None
    if again != data:
        at = _first_difference(again, data)
        raise DocumentError(
            f"{what}: not the one encoding of its CBOR",
            expected=again[at : at + 1].hex() or "the end",
            found=f"{data[at : at + 1].hex() or 'the end'} at its byte {at}",
        )
    return _plain(found)


def _first_difference(one: bytes, other: bytes) -> int:
    """Where they differ first, or the shorter one ends; by halves, since both can be large."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _plain(value: Any) -> Any:
    """The same with lists and dictionaries: cbor2 6 has tuples and others inside of tags."""
    if isinstance(value, cbor2.CBORTag):
        return cbor2.CBORTag(value.tag, _plain(value.value))
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, cbor2.CBORSimpleValue):
        return [_plain(one) for one in value]
    return value


def _map(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DocumentError(what, expected="a map", found=short(value))
    return value


def _block(data: bytes) -> Block:
    found = loads(data, "a signature")
    if not isinstance(found, cbor2.CBORTag) or found.tag != COSE_SIGN1:
        raise DocumentError("a signature", expected=f"COSE_Sign1 (tag {COSE_SIGN1})", found=short(found))
    if not isinstance(found.value, list) or len(found.value) != 4:
        raise DocumentError("a signature", expected="an array of 4", found=short(found.value))
    protected, unprotected, payload, signature = found.value
    if not isinstance(protected, bytes) or not isinstance(signature, bytes):
        raise DocumentError("a signature", expected="byte strings", found=short(found.value))
    if payload is not None:
        raise DocumentError("a signature: payload", expected="nil (detached)", found=short(payload))
    return Block(protected, signature, _map(unprotected, "a signature: unprotected header"))


def _tbs(protected: bytes, digest: bytes) -> bytes:
    return cbor2.dumps(["Signature1", protected, b"", digest])
