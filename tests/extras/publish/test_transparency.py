# SPDX-License-Identifier: BSD-2-Clause
"""Proofs of transparency logs: entries of real logs, those of a log made here, and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.publish.dsse import Envelope
from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.statement import PAYLOAD_TYPE, Subject, make
from host_tools.extras.publish.transparency import Checkpoint, Entry, NotLoggedError, Proof, leaf_hash, root_of
from signing import key_files, keys
from signing.sign import FileSigner, sign_trace
from tests.support import replayer_samples as s
from tests.support.merkle import ORIGIN, Log, b64, body, hashedrekord, note, path, tree
from tests.support.signing_commands import run, run_json
from tests.support.signing_samples import EDDSA, ES256

VECTORS = Path(__file__).parent / "rekor"
# Entries of logs of others, with the logs' keys: of sigstore-python's tests an entry of Sigstore's public log, and
# one of the second version in its staging; of sigstore-conformance one of a log made for it. SHA-256: of a file.
REAL = {
    "rekor-hashedrekord": (
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2G2Y+2tabdTV5BcGiBIx0a9fAFwr"
        "kBbmLSGtks4L3qX6yYY0zufBnhC8Ur/iy55GhWP/9A/bY2LhC30M9+RYtw==",
        "c4e92e9ecc828bef2aa7dba1de8ac983511f7532a0df11c770d39099a25cf201",
        ("rekor.sigstore.dev - 2605736670972794746", 75441652, 75441653, "hashedrekord"),
    ),
    "rekor2-dsse": (
        "MCowBQYDK2VwAyEAPn+AREHoBaZ7wgS1zBqpxmLSGnyhxXj4lFxSdWVB8o8=",
        "e248a5db4933dba6578200238c91a57f5e65b925b73050ae786933468b7ac101",
        ("log2025-alpha1.rekor.sigstage.dev", 689, 690, "dsse"),
    ),
    "rekor-intoto": (
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXlYI/a1XM9LYk54J0H/lm4EeboY1"
        "vhheo0TbTln8aWofhvUYUH9fIKz10uhbCDlTfOF+ymQlkiuDReSCMA2zAw==",
        "a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
        ("rekor.test", 0, 1, "intoto"),
    ),
}
NET = sign_trace(s.trace(meta={"name": "net"}).build(), ES256)
OTHER = FileSigner(ec.generate_private_key(ec.SECP256R1()))
LOG = Log([hashedrekord(b"one"), hashedrekord(b"two"), hashedrekord(NET), hashedrekord(b"four")], EDDSA)
STATEMENT = Envelope(make(Subject.of(NET, "net.sgtr"), "a:b", {}), PAYLOAD_TYPE).signed(ES256)


def pem(der: str) -> keys.PublicKey:
    lines = f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"
    return key_files.load_public_key(lines.encode())


def vector(name: str) -> tuple[bytes, keys.PublicKey, bytes]:
    key, sha256, _ = REAL[name]
    return (VECTORS / f"{name}.json").read_bytes(), pem(key), bytes.fromhex(sha256)


@pytest.mark.parametrize("name", REAL)
def test_an_entry_of_a_real_log(name: str) -> None:
    data, key, sha256 = vector(name)
    entry = Proof.decode(data).entry_of_file(sha256, key)
    assert (entry.checkpoint.origin, entry.index, entry.size, entry.kind) == REAL[name][2]
    with pytest.raises(NotLoggedError, match="subject: "):
        Proof.decode(data).entry_of_file(bytes(32), key)
    with pytest.raises(NotLoggedError, match=r"checkpoint: key .* has not signed"):
        Proof.decode(data).entry_of_file(sha256, ES256.public)


@pytest.mark.parametrize("name", REAL)
def test_nothing_of_a_real_entry_can_be_changed(name: str) -> None:
    data, key, _ = vector(name)
    (entry,) = Proof.decode(data).entries
    changes: list[dict[str, Any]] = [
        {"body": entry.body[:-1] + b" }"},
        {"index": entry.index + 1},
        {"size": entry.size + 1},
        {"root": bytes(32)},
        {"path": (*entry.path, bytes(32))},
        {"checkpoint": replace(entry.checkpoint, size=entry.size + 1)},
        {"checkpoint": replace(entry.checkpoint, text=entry.checkpoint.text + b"more\n")},
        {"checkpoint": replace(entry.checkpoint, signatures=())},
    ]
    changes += [{"path": entry.path[:-1]}, {"path": entry.path[::-1]}] if len(entry.path) > 1 else []
    entry.check(key)
    for change in changes:
        with pytest.raises(NotLoggedError):
            replace(entry, **change).check(key)


@given(st.integers(1, 70), st.data())
def test_every_path_of_every_tree(size: int, data: st.DataObject) -> None:
    """And no other: another leaf, place or size, or another node, gives another root or none."""
    leaves = [bytes([number]) for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    root, nodes = tree(leaves), tuple(path(index, leaves))
    leaf = leaf_hash(leaves[index])
    assert root_of(index, size, leaf, nodes) == root
    assert root_of(index, size, leaf_hash(b"x"), nodes) != root
    assert root_of(index, size, leaf, (*nodes, root)) is None
    assert root_of(index + size, size, leaf, nodes) is None
    for at in range(len(nodes)):
        assert root_of(index, size, leaf, nodes[:at] + nodes[at + 1 :]) != root
        assert root_of(index, size, leaf, (*nodes[:at], bytes(32), *nodes[at + 1 :])) != root
    for other in range(size):
        if other != index:
            assert root_of(other, size, leaf, nodes) != root


def test_roots_of_rfc_6962() -> None:
    """Of Certificate Transparency's own tests (merkletree_test.cc): the first leaf, and the tree of all eight."""
    leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    assert tree([bytes.fromhex(one) for one in leaves[:1]]).hex() == (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )
    assert tree([bytes.fromhex(one) for one in leaves]).hex() == (
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    )


# As commands.


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(NET)
    Path("pub.pem").write_bytes(ES256.public.pem())
    Path("log.pem").write_bytes(EDDSA.public.pem())
    Path("other.pem").write_bytes(OTHER.public.pem())
    Path("net.intoto.jsonl").write_bytes(STATEMENT.encode())


def bundle(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"verificationMaterial": {"tlogEntries": list(entries)}, **more}


def verify(
    proof: Any, *, key: str = "log.pem", status: int = 0, command: str = "verify trace net.sgtr"
) -> dict[str, Any]:
    Path("proof.json").write_bytes(proof if isinstance(proof, bytes) else json.dumps(proof).encode())
    words = (*command.split(), "--key", "pub.pem", "--transparency", "proof.json", "--transparency-key", key)
    return run_json(*words, status=status)


ABOUT = {"log": ORIGIN, "log_key_id": EDDSA.kid.hex(), "index": 2, "size": 4, "kind": "hashedrekord"}


@pytest.mark.parametrize(
    "proof", [LOG.entry(2), LOG.answer(2), bundle(LOG.entry(2)), bundle(*map(LOG.entry, (1, 2)))]
)
def test_a_trace_that_is_logged(proof: Any) -> None:
    assert verify(proof)["transparency"] == ABOUT
    words = ("--transparency", "proof.json", "--transparency-key", "log.pem")
    text = run("verify", "trace", "net.sgtr", "--key", "pub.pem", *words).stdout
    assert f"\nlogged: entry 2 of 4 of {ORIGIN} (hashedrekord)\n" in text


def envelope_entry(kind: str, version: str, envelope: Envelope = STATEMENT) -> bytes:
    digest = {"algorithm": "sha256", "value": hashlib.sha256(envelope.payload).hexdigest()}
    signature = b64(envelope.signatures[0][1])
    if kind == "dsse":
        return body(
            kind, version, {"payloadHash": digest, "signatures": [{"signature": signature, "verifier": ""}]}
        )
    rows = [{"sig": b64(signature.encode()), "publicKey": ""}]
    return body(kind, version, {"content": {"payloadHash": digest, "envelope": {"signatures": rows}}})


@pytest.mark.parametrize(("kind", "version"), [("dsse", "0.0.1"), ("intoto", "0.0.2")])
def test_a_statement_that_is_logged(kind: str, version: str) -> None:
    """Beside the statement's own file, and in a bundle that has the statement, about the trace."""
    entry = Log([hashedrekord(b"one"), envelope_entry(kind, version)], EDDSA).entry(1)
    command = "verify provenance net.intoto.jsonl --trace net.sgtr"
    expected = ABOUT | {"index": 1, "size": 2, "kind": kind}
    assert verify(bundle(entry), command=command)["transparency"] == expected
    assert verify(bundle(entry, dsseEnvelope=json.loads(STATEMENT.encode())))["transparency"] == expected
    found = verify(bundle(LOG.entry(2)), command=command, status=1)
    assert [one["fault"] for one in found["findings"]] == ["transparency"]


def _changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    entry = deepcopy(LOG.entry(2))
    change(entry["inclusionProof"])
    return entry


def _other_envelope() -> dict[str, Any]:
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": "00" * 32}}]}
    other = Envelope(json.dumps(statement).encode(), PAYLOAD_TYPE).signed(ES256)
    entry = Log([envelope_entry("dsse", "0.0.1", other)], EDDSA).entry(0)
    return bundle(entry, dsseEnvelope=json.loads(other.encode()))


def _log(*bodies: bytes, signer: FileSigner = EDDSA) -> dict[str, Any]:
    return Log(bodies, signer).entry(len(bodies) - 1)


ROOT = tree(LOG.bodies)
REFUSED: dict[str, tuple[Any, str]] = {
    "an entry about another file": (LOG.entry(1), "subject: the entry is not about the file"),
    "another body": (LOG.entry(2) | {"canonicalizedBody": b64(b"{}")}, "inclusion: entry 2 of 4"),
    "another place": (_changed(lambda proof: proof.update(logIndex="1")), "inclusion: entry 1 of 4"),
    "a place beyond": (_changed(lambda proof: proof.update(logIndex="4")), "found a path of another length"),
    "no place": (_changed(lambda proof: proof.pop("logIndex")), "inclusion: entry 0 of 4"),
    "another size": (_changed(lambda proof: proof.update(treeSize="3")), "inclusion: entry 2 of 3"),
    "an empty tree": (_changed(lambda proof: proof.update(treeSize="0")), "inclusion: entry 2 of 0"),
    "a hash less": (_changed(lambda proof: proof["hashes"].pop()), "inclusion: "),
    "no hashes": (_changed(lambda proof: proof.pop("hashes")), "inclusion: "),
    "a hash more": (_changed(lambda proof: proof["hashes"].append(b64(bytes(32)))), "a path of another length"),
    "another root": (_changed(lambda proof: proof.update(rootHash=b64(bytes(32)))), "inclusion: "),
    "a checkpoint of another tree": (
        _changed(lambda proof: proof["checkpoint"].update(envelope=note(4, bytes(32), EDDSA))),
        "checkpoint: expected size 4",
    ),
    "a checkpoint of another size": (
        _changed(lambda proof: proof["checkpoint"].update(envelope=note(5, ROOT, EDDSA))),
        "checkpoint: expected size 4",
    ),
    "another log's checkpoint": (_log(hashedrekord(NET), signer=OTHER), "has not signed that of 'log.example"),
    "a checkpoint that was changed": (
        _changed(lambda proof: proof["checkpoint"].update(
            envelope=note(4, ROOT, EDDSA).replace("log.example - 1", "log.example - 2"))),
        "has not signed that of 'log.example - 2'",
    ),
    "an entry of another kind": (_log(body("rpm", "0.0.1", {})), "expected an entry about a file (hashedrekord)"),
    "a SHA-512": (
        _log(body("hashedrekord", "0.0.1", {"data": {"hash": {"algorithm": "sha512", "value": ""}}})),
        "subject: expected a SHA-256, found 'sha512'",
    ),
    "a statement about another file": (_other_envelope(), "the statement in the bundle is not about the file"),
    "a statement of another kind": (
        bundle(LOG.entry(2), dsseEnvelope=json.loads(Envelope(b"x", "text/plain").signed(ES256).encode())),
        "the bundle has no in-toto statement",
    ),
    "a bundle's statement that is not logged": (
        bundle(LOG.entry(2), dsseEnvelope=json.loads(STATEMENT.encode())),
        "expected an entry about an envelope",
    ),
    "a statement with another signature": (
        bundle(_log(envelope_entry("dsse", "0.0.1")), dsseEnvelope=json.loads(
            Envelope(STATEMENT.payload, PAYLOAD_TYPE).signed(OTHER).encode())),
        "the entry has none of the envelope's signatures",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_shows_nothing(name: str) -> None:
    """Exit status 1, although the trace is well signed."""
    proof, text = REFUSED[name]
    found = verify(proof, status=1)
    assert (found["verdict"], found["transparency"]) == ("not-logged", None)
    assert found["reason"].startswith("proof.json: ")
    assert text in found["reason"]


def _note(text: str) -> dict[str, Any]:
    return _changed(lambda proof: proof["checkpoint"].update(envelope=text))


GOOD = note(4, ROOT, EDDSA)
LINE = GOOD.splitlines(keepends=True)[-1]
MALFORMED: dict[str, tuple[Any, str]] = {
    "empty": (b"", "the proof: not JSON"),
    "not text": (b"\xff", "the proof: not UTF-8"),
    "a list": (b"[]", "the proof: expected an object"),
    "deep": (b"[" * 100_000, "the proof: not JSON that is read"),
    "twice": (b'{"verificationMaterial":{},"verificationMaterial":{}}', "is given twice"),
    "an empty object": ({}, "the proof: entries: expected at least 1"),
    "no entries": (bundle(), "the proof: entries: expected at least 1, found none"),
    "entries of text": ({"verificationMaterial": {"tlogEntries": "x"}}, "tlogEntries: expected a list"),
    "too many entries": (bundle(*[LOG.entry(2)] * 17), "entries: expected at most 16, found 17"),
    "too many answers": ({str(at): {} for at in range(17)}, "entries: expected at most 16, found 17"),
    "an answer of text": ({"a": "b"}, "expected an object, found 'b'"),
    "an answer without a body": ({"a": {}}, "expected an object"),
    "no proof": (bundle({"canonicalizedBody": ""}), "inclusionProof: expected an object, found nothing"),
    "no body": (bundle({k: v for k, v in LOG.entry(2).items() if k != "canonicalizedBody"}), "expected text"),
    "a body not base64": (LOG.entry(2) | {"canonicalizedBody": "~"}, "canonicalizedBody: expected base64"),
    "no size": (_changed(lambda proof: proof.pop("treeSize")), "treeSize: expected an integer, found nothing"),
    "a size of words": (_changed(lambda proof: proof.update(treeSize="four")), "treeSize: expected an integer"),
    "a negative size": (_changed(lambda proof: proof.update(treeSize=-4)), "treeSize: expected an integer from 0"),
    "a size with a zero": (_changed(lambda proof: proof.update(treeSize="04")), "treeSize: expected an integer"),
    "a true size": (_changed(lambda proof: proof.update(treeSize=True)), "treeSize: expected an integer"),
    "a large place": (
        _changed(lambda proof: proof.update(logIndex=2**63)),
        "logIndex: expected an integer from 0",
    ),
    "a root too short": (_changed(lambda proof: proof.update(rootHash="AAAA")), "rootHash: expected 32 bytes"),
    "hashes of numbers": (_changed(lambda proof: proof.update(hashes=[7])), "hashes: expected texts, found 7"),
    "hashes too short": (_changed(lambda proof: proof.update(hashes=["AAAA"])), "hashes: expected 32 bytes"),
    "too many hashes": (_changed(lambda proof: proof.update(hashes=[""] * 64)), "entries: expected at most 63"),
    "no checkpoint": (_changed(lambda proof: proof.pop("checkpoint")), "checkpoint: expected an object"),
    "a checkpoint of one line": (_note("x"), "expected a signed note of 3 lines or more"),
    "no blank line": (_note(GOOD.replace("\n\n", "\n")), "expected a signed note of 3 lines or more"),
    "no end": (_note(GOOD[:-1]), "expected a signed note of 3 lines or more"),
    "two lines": (_note(f"{ORIGIN}\n4\n\n{LINE}"), "expected a signed note of 3 lines or more"),
    "half a pair of surrogates": (_note(GOOD.replace("log.example - 1", "\ud800")), "envelope: expected text"),
    "no origin": (_note(GOOD.removeprefix(ORIGIN)), "expected an origin and a size"),
    "a size with a sign": (_note(GOOD.replace("\n4\n", "\n+4\n")), "expected an origin and a size"),
    "a root not base64": (_note(GOOD.replace(b64(ROOT), "~")), "the log checkpoint: root: expected base64"),
    "a root of 3 bytes": (_note(GOOD.replace(b64(ROOT), "AAAA")), "the log checkpoint: root: expected 32 bytes"),
    "a signature without a dash": (_note(GOOD.replace("—", "-")), "a dash, a name, base64"),
    "a signature not base64": (_note(GOOD + "— a ~\n"), "the log checkpoint: signature: expected base64"),
    "too many signatures": (_note(GOOD + LINE * 16), "signatures: expected at most 16, found 17"),
    "a body that is none": (_log(b"hello"), "the entry's body: not JSON"),
    "a body of another version": (_log(body("hashedrekord", "9", {})), "apiVersion: expected 0.0.1 or 0.0.2"),
    "a body without a kind": (_log(b'{"apiVersion":"0.0.1"}'), "kind: expected text"),
    "a body without a hash": (_log(body("hashedrekord", "0.0.1", {"data": {}})), "hash: expected an object"),
    "a hash not hexadecimal": (
        _log(body("hashedrekord", "0.0.1", {"data": {"hash": {"algorithm": "sha256", "value": "xx"}}})),
        "value: expected hexadecimal",
    ),
    "a hash too short": (
        _log(body("hashedrekord", "0.0.1", {"data": {"hash": {"algorithm": "sha256", "value": "00"}}})),
        "value: expected 32 bytes",
    ),
    "an envelope without signatures": (
        bundle(LOG.entry(2), dsseEnvelope={"payload": "", "payloadType": "", "signatures": []}),
        "signatures: expected at least 1",
    ),
    "a statement that is none": (
        bundle(LOG.entry(2), dsseEnvelope=json.loads(Envelope(b"x", PAYLOAD_TYPE).signed(ES256).encode())),
        "the statement in the bundle: not JSON",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_proof(name: str) -> None:
    proof, text = MALFORMED[name]
    Path("proof.json").write_bytes(proof if isinstance(proof, bytes) else json.dumps(proof).encode())
    words = ("--key", "pub.pem", "--transparency", "proof.json", "--transparency-key", "log.pem")
    found = run("verify", "trace", "net.sgtr", *words, status=2)
    assert "proof.json" in found.stderr
    assert text in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_good_proof_of_a_trace_that_is_not_well_signed() -> None:
    other = sign_trace(s.trace(meta={"name": "net"}).build(), OTHER)
    Path("net.sgtr").write_bytes(other)
    found = verify(_log(hashedrekord(other)), status=1)
    assert found["verdict"] == "unknown-key"


def test_options_that_belong_together() -> None:
    words = ("--transparency", "--transparency-key")
    for word, other in (words, words[::-1]):
        found = run("verify", "trace", "net.sgtr", "--key", "pub.pem", word, "log.pem", status=2)
        assert f"error: {word} requires {other} (see " in found.stderr


@given(st.text(max_size=200))
def test_any_text_is_an_error_or_a_checkpoint(text: str) -> None:
    try:
        found = Checkpoint.decode(text)
    except DocumentError:
        return
    assert text.encode().startswith(found.text)


@given(st.integers(0, 2**62), st.binary(min_size=32, max_size=32), st.sampled_from(["", "more\n", "a\nb\n"]))
def test_checkpoints_are_read_as_they_were_signed(size: int, root: bytes, more: str) -> None:
    found = Checkpoint.decode(note(size, root, EDDSA, more=more))
    assert (found.origin, found.size, found.root) == (ORIGIN, size, root)
    assert found.is_of(EDDSA.public)
    assert not found.is_of(ES256.public)


@given(st.binary(max_size=100), st.integers(0, 2**62))
def test_an_entry_alone_in_a_log(data: bytes, index: int) -> None:
    entry = Entry(data, 0, 1, leaf_hash(data), (), Checkpoint.decode(note(1, leaf_hash(data), ES256)))
    entry.check(ES256.public)
    if index:
        with pytest.raises(NotLoggedError):
            replace(entry, index=index).check(ES256.public)
