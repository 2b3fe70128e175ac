# SPDX-License-Identifier: BSD-2-Clause
"""Entries of transparency logs that are compatible with Rekor: that a log has one, and what it is about.

Facts: RFC 6962, 2.1 (Merkle trees) and RFC 9162, 2.1.3.2 (the check of a path); Rekor's entry types hashedrekord,
dsse and intoto (sigstore/rekor, pkg/types; sigstore/rekor-tiles); the signed note of a checkpoint
(https://github.com/C2SP/C2SP, signed-note.md, tlog-checkpoint.md); Sigstore's bundle (sigstore/protobuf-specs).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from host_tools.extras.publish import strict_json
from host_tools.extras.publish.dsse import MAX_SIGNATURES, Envelope
from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.strict_json import Fields, short
from signing.errors import SignerError
from signing.keys import PublicKey
from signing.sign import checked

MAX_ENTRIES = 16
MAX_HASHES = 63  # a tree of 2^63 leaves
MAX_NOTE_SIGNATURES = 16  # the log's, and those of witnesses
HASH_BYTES = 32
IN_TOTO = "application/vnd.in-toto+json"
_DASH = "\N{EM DASH} "
_HEX = re.compile(r"(?:[0-9a-f]{2})*")


class NotLoggedError(Exception):
    """Why an entry shows nothing of a file: a sentence."""


@dataclass(frozen=True)
class Checkpoint:
    """What a log signed of itself; nothing is verified.

    Attributes:
        origin: which log it is.
        size: how many entries.
        root: hash of the tree.
        text: what is signed.
        signatures: without the four bytes in front that hint at the key.
    """

    origin: str
    size: int
    root: bytes
    text: bytes
    signatures: tuple[bytes, ...]

    @classmethod
    def decode(cls, note: str) -> Checkpoint:
        """Read a signed note; DocumentError where it is none."""
        text, blank, below = note.rpartition("\n\n")
        lines = text.split("\n")
        if not blank or len(lines) < 3 or not below.endswith("\n"):
            raise DocumentError(
                "the log checkpoint", expected="a signed note of 3 lines or more", found=short(note)
            )
        if not lines[0] or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]):
            raise DocumentError("the log checkpoint", expected="an origin and a size", found=short(lines[:2]))
        signatures = []
        for line in below.removesuffix("\n").split("\n"):
            name, _, encoded = line.removeprefix(_DASH).partition(" ")
            if not line.startswith(_DASH) or not name:
                raise DocumentError(
                    "the log checkpoint: signature", expected="a dash, a name, base64", found=short(line)
                )
            signatures.append(strict_json.from_base64(encoded, "the log checkpoint: signature")[4:])
        if len(signatures) > MAX_NOTE_SIGNATURES:
            what = "the log checkpoint: signatures"
            raise DocumentError(what, expected=f"at most {MAX_NOTE_SIGNATURES}", found=len(signatures))
        root = _hash(strict_json.from_base64(lines[2], "the log checkpoint: root"), "the log checkpoint: root")
        return cls(lines[0], int(lines[1]), root, f"{text}\n".encode(), tuple(signatures))

    def is_of(self, key: PublicKey) -> bool:
        """Whether a log's key has signed it."""
        for signature in self.signatures:
            try:
                checked(signature, key, self.text, "the log checkpoint")
            except SignerError:
                continue
            return True
        return False


@dataclass(frozen=True)
class Entry:
    """An entry of a log, with the proof that the log has it; nothing is verified.

    Attributes:
        body: what the log keeps, a JSON document.
        index: place in the tree.
        size: of the tree, in entries.
        root: of the tree.
        path: hashes of the nodes beside the way to the root.
        checkpoint: of the tree.
    """

    body: bytes
    index: int
    size: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: Checkpoint

    def check(self, key: PublicKey) -> None:
        """NotLoggedError unless the entry is in the tree, and the log's key has signed that tree."""
        found = root_of(self.index, self.size, leaf_hash(self.body), self.path)
        if found != self.root:
            shown = found.hex() if found else "a path of another length"
            raise NotLoggedError(
                f"inclusion: entry {self.index} of {self.size}: root: expected {self.root.hex()}, found {shown}"
            )
        point = self.checkpoint
        if (point.size, point.root) != (self.size, self.root):
            raise NotLoggedError(
                f"checkpoint: expected size {self.size} and root {self.root.hex()}, "
                f"found {point.size} and {point.root.hex()}"
            )
        if not point.is_of(key):
            raise NotLoggedError(f"checkpoint: key {key.kid.hex()} has not signed that of {point.origin!r}")

    def check_file(self, sha256: bytes) -> None:
        """NotLoggedError unless it is about a file with this hash; DocumentError where it is malformed."""
        kind, version, spec = self._parts()
        if kind != "hashedrekord":
            raise NotLoggedError(f"subject: expected an entry about a file (hashedrekord), found {short(kind)}")
        hashed = (
            spec.part("data").part("hash") if version == "0.0.1" else spec.part("hashedRekordV002").part("data")
        )
        _compare(_digest(hashed), sha256, "the file")

    def check_envelope(self, envelope: Envelope) -> None:
        """NotLoggedError unless it is about a DSSE envelope; DocumentError where it is malformed."""
        kind, version, spec = self._parts()
        signatures: list[bytes]
        if kind == "dsse" and version == "0.0.2":
            spec = spec.part("dsseV002")
            signatures = [one.data("content") for one in spec.parts("signatures", MAX_SIGNATURES)]
        elif kind == "dsse":
            signatures = [one.data("signature") for one in spec.parts("signatures", MAX_SIGNATURES)]
        elif kind == "intoto" and version == "0.0.2":
            spec = spec.part("content")
            rows = spec.part("envelope").parts("signatures", MAX_SIGNATURES)
            signatures = [_twice(one.data("sig"), one.place("sig")) for one in rows]
        else:
            found = short(f"{kind} {version}")
            raise NotLoggedError(
                f"subject: expected an entry about an envelope (dsse, intoto 0.0.2), found {found}"
            )
        _compare(_digest(spec.part("payloadHash")), hashlib.sha256(envelope.payload).digest(), "the statement")
        if not {signature for _, signature in envelope.signatures} & set(signatures):
            raise NotLoggedError("subject: the entry has none of the envelope's signatures")

    @property
    def kind(self) -> str:
        """What kind of entry it says it is."""
        return self._parts()[0]

    def _parts(self) -> tuple[str, str, Fields]:
        body = strict_json.parse(self.body, "the entry's body")
        version = body.text("apiVersion")
        if version not in ("0.0.1", "0.0.2"):
            raise DocumentError(body.place("apiVersion"), expected="0.0.1 or 0.0.2", found=short(version))
        return body.text("kind"), version, body.part("spec")


@dataclass(frozen=True)
class Proof:
    """A file with entries.

    Attributes:
        entries: at least one.
        envelope: that the file has besides, in a bundle.
    """

    entries: tuple[Entry, ...]
    envelope: Envelope | None = None

    @classmethod
    def decode(cls, data: bytes) -> Proof:
        """Read a bundle of Sigstore's, an entry as a Rekor server answers with, or one of a bundle.

        Raises:
            DocumentError: it is none of these.
        """
        found = strict_json.parse(data, "the proof")
        if "verificationMaterial" in found:
            material = found.part("verificationMaterial")
            entries = tuple(_entry(one) for one in material.parts("tlogEntries", MAX_ENTRIES))
            envelope = Envelope.of(found.part("dsseEnvelope")) if "dsseEnvelope" in found else None
        elif "canonicalizedBody" in found:
            entries, envelope = (_entry(found),), None
        else:  # by the entry's id
            rows = [Fields.of(value, f"the proof: {short(name)}") for name, value in found.values.items()]
            if len(rows) > MAX_ENTRIES:
                raise DocumentError("the proof: entries", expected=f"at most {MAX_ENTRIES}", found=len(rows))
            entries, envelope = tuple(_answer(row) for row in rows), None
        if not entries:
            raise DocumentError("the proof: entries", expected="at least 1", found="none")
        return cls(entries, envelope)

    def entry_of_file(self, sha256: bytes, key: PublicKey) -> Entry:
        """An entry of a log about a file, or about the statement in the bundle, which is about it.

        Raises:
            NotLoggedError: none is, or none is in the log.
            DocumentError: one is malformed.
        """
        if self.envelope is None:
            return self._first(key, lambda entry: entry.check_file(sha256))
        _check_subject(self.envelope, sha256)
        return self.entry_of_envelope(self.envelope, key)

    def entry_of_envelope(self, envelope: Envelope, key: PublicKey) -> Entry:
        """An entry of a log about an envelope; errors as `entry_of_file`."""
        return self._first(key, lambda entry: entry.check_envelope(envelope))

    def _first(self, key: PublicKey, check: Any) -> Entry:
        reasons = []
        for entry in self.entries:
            try:
                entry.check(key)
                check(entry)
            except NotLoggedError as error:
                reasons.append(str(error))
            else:
                return entry
        raise NotLoggedError("; ".join(reasons))


def leaf_hash(body: bytes) -> bytes:
    """Hash of a leaf."""
    return hashlib.sha256(b"\0" + body).digest()


def root_of(index: int, size: int, leaf: bytes, path: tuple[bytes, ...]) -> bytes | None:
    """Root of a tree of so many leaves, of the hash of one of them and its path; None: the path is another's."""
    at, last, found = index, size - 1, leaf
    if not 0 <= index < size:
        return None
    for node in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            found = hashlib.sha256(b"\1" + node + found).digest()
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\1" + found + node).digest()
        at, last = at >> 1, last >> 1
    return found if last == 0 else None


def _entry(found: Fields) -> Entry:
    """Of a bundle: numbers as text, bytes in base64."""
    proof = found.part("inclusionProof")
    path = tuple(
        _hash(strict_json.from_base64(_str(one, proof), proof.place("hashes")), proof.place("hashes"))
        for one in proof.entries("hashes", MAX_HASHES)
    ) if "hashes" in proof else ()  # fmt: skip
    return Entry(
        found.data("canonicalizedBody"),
        proof.integer("logIndex") if "logIndex" in proof else 0,  # Protobuf leaves out what is 0
        proof.integer("treeSize"),
        _hash(proof.data("rootHash"), proof.place("rootHash")),
        path,
        Checkpoint.decode(proof.part("checkpoint").text("envelope")),
    )


def _answer(found: Fields) -> Entry:
    """As a server of the first version answers: hashes in hexadecimal."""
    proof = found.part("verification").part("inclusionProof")
    return Entry(
        found.data("body"),
        proof.integer("logIndex"),
        proof.integer("treeSize"),
        _hash(_hex(proof.text("rootHash"), proof.place("rootHash")), proof.place("rootHash")),
        tuple(
            _hash(_hex(_str(one, proof), proof.place("hashes")), proof.place("hashes"))
            for one in proof.entries("hashes", MAX_HASHES)
        ),
        Checkpoint.decode(proof.text("checkpoint")),
    )


def _digest(found: Fields) -> bytes:
    """SHA-256 as the kinds of entries have it."""
    name = found.text("algorithm")
    if name == "sha256":
        return _hash(_hex(found.text("value"), found.place("value")), found.place("value"))
    if name == "SHA2_256":
        return _hash(found.data("digest"), found.place("digest"))
    raise NotLoggedError(f"subject: expected a SHA-256, found {short(name)}")


def _compare(found: bytes, expected: bytes, what: str) -> None:
    if found != expected:
        raise NotLoggedError(
            f"subject: the entry is not about {what}: expected SHA-256 {expected.hex()}, found {found.hex()}"
        )


def _check_subject(envelope: Envelope, sha256: bytes) -> None:
    if envelope.payload_type != IN_TOTO:
        found = short(envelope.payload_type)
        raise NotLoggedError(f"subject: the bundle has no in-toto statement: expected {IN_TOTO}, found {found}")
    statement = strict_json.parse(envelope.payload, "the statement in the bundle")
    for one in statement.parts("subject", 1024):
        digest = one.part("digest")
        if "sha256" in digest and digest.text("sha256").lower() == sha256.hex():
            return
    raise NotLoggedError(f"subject: the statement in the bundle is not about the file of SHA-256 {sha256.hex()}")


def _str(value: Any, proof: Fields) -> str:
    if not isinstance(value, str):
        raise DocumentError(proof.place("hashes"), expected="texts", found=short(value))
    return value


def _hex(text: str, what: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise DocumentError(what, expected="hexadecimal", found=short(text))
    return bytes.fromhex(text)


def _hash(data: bytes, what: str) -> bytes:
    if len(data) != HASH_BYTES:
        raise DocumentError(what, expected=f"{HASH_BYTES} bytes", found=len(data))
    return data


def _twice(data: bytes, what: str) -> bytes:
    """Bytes in base64 in base64."""
    return strict_json.from_base64(data.decode("ascii", "replace"), what)
