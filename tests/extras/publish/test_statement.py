# SPDX-License-Identifier: BSD-2-Clause
"""Statements of provenance: read by other implementations, by every signer, and what is refused by name."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement as in_toto
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from host_tools.demo import RAW
from host_tools.extras.publish.commands.provenance import hashes
from host_tools.extras.publish.dsse import MAX_SIGNATURES, Envelope
from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.statement import BUILD_TYPE, PAYLOAD_TYPE, Statement, Subject, builder_of, make
from signing import key_files
from signing.sign import FileSigner, sign_trace
from tests.support import replayer_samples as s
from tests.support import tokens
from tests.support.bad_input import FLEET
from tests.support.signing_commands import run, run_json
from tests.support.signing_samples import EDDSA, ES256, SIGNERS
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = FileSigner(OTHER_KEY)
# A small trace with the notes of the demo's LeNet, as if it had been built of a recording that lies here.
RECORDING = b"a recording"
LENET = Trace.parse(RAW.read_bytes())
META = {**LENET.meta, "source_hash": hashlib.sha256(RECORDING).digest()}
TRACE = s.trace(meta=META).with_(notes=LENET.notes)
NET = sign_trace(TRACE.build(compress=False), ES256)
SUBJECT = Subject.of(NET, "net.sgtr")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(NET)
    Path("raw.gtr").write_bytes(RECORDING)
    for name, signer in {**SIGNERS, "other": OTHER}.items():
        Path(f"{name}.pem").write_bytes(key_files.private_pem(signer.key))
        Path(f"{name}.pub.pem").write_bytes(signer.public.pem())
    Path("fleet.gtp").write_bytes(FLEET)


def state(*words: str, key: str = "es256", output: str = "net.intoto.jsonl") -> dict[str, Any]:
    return run_json("publish", "provenance", "net.sgtr", "--signing-key", f"{key}.pem", "-o", output, *words)


def verify(*words: str, key: str = "es256.pub.pem", status: int = 0) -> dict[str, Any]:
    return run_json(
        "verify", "provenance", "net.intoto.jsonl", "--trace", "net.sgtr", "--key", key, *words, status=status
    )


def payload(name: str = "net.intoto.jsonl") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(Path(name).read_bytes())["payload"]))
    return found


@pytest.mark.parametrize("name", SIGNERS)
def test_another_implementation_verifies_the_envelope(name: str) -> None:
    state(key=name)
    envelope = OtherEnvelope.from_dict(json.loads(Path("net.intoto.jsonl").read_bytes()))
    key = SSlibKey.from_crypto(SIGNERS[name].public.key, keyid=SIGNERS[name].kid.hex())
    assert envelope.payload_type == PAYLOAD_TYPE
    assert envelope.verify([key], 1) == {key.keyid: key}
    envelope.payload += b" "
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)


def test_another_implementation_reads_the_statement() -> None:
    """in-toto's own classes: names and types of all fields, and what each must have."""
    state("--source", "raw.gtr", "--builder", "https://builder.example/1")
    found = json.dumps(payload())
    read = in_toto.Statement.copy_from_pb(json_format.Parse(found, in_toto.spb.Statement()))
    read.validate()
    predicate = json_format.MessageToJson(read.pb.predicate)
    provenance = json_format.Parse(predicate, provenance_pb2.Provenance())  # refuses fields that there are none of
    definition = provenance.build_definition
    assert (read.pb.predicate_type, definition.build_type) == ("https://slsa.dev/provenance/v1", BUILD_TYPE)
    assert provenance.run_details.builder.id == "https://builder.example/1"
    assert [one.digest["sha256"] for one in read.pb.subject] == [
        hashlib.sha256(NET).hexdigest(),
        hashlib.sha256(NET[128:]).hexdigest(),
    ]
    listed = {one.name: one for one in definition.resolved_dependencies}
    assert listed["network.bin"].digest["sha256"] == LENET.notes["weights_sha256"]
    assert listed["recording"].digest["sha256"] == hashlib.sha256(RECORDING).hexdigest()
    assert listed["libc6"].uri == "pkg:deb/debian/libc6@2.41-12%2Bdeb13u5?arch=arm64"
    assert [name for name, one in listed.items() if one.annotations["checked"]] == ["recording"]


def test_the_same_trace_gives_the_same_bytes() -> None:
    state()
    state(output="again")
    assert Path("again").read_bytes() == Path("net.intoto.jsonl").read_bytes()


def test_what_is_verified() -> None:
    made = state("--source", "raw.gtr")
    assert made["checked"] == ["recording"]
    found = verify("--source", "raw.gtr", "--builder", builder_of(ES256.kid))
    assert (found["findings"], found["covers"], found["signed_by"]) == ([], "file", [ES256.kid.hex()])
    assert found["statement"] == {name: made[name] for name in ("builder", "subjects", "dependencies", "checked")}
    assert run(
        "verify", "provenance", "net.intoto.jsonl", "--trace", "net.sgtr", "--key", "es256.pub.pem"
    ).stdout == (
        f"verified: signed by {ES256.kid.hex()}, about this file\n"
        f"built by {builder_of(ES256.kid)} of {made['dependencies']} things that the trace names; "
        "checked before it was signed: recording\n"
    )


def test_a_trace_that_is_signed_anew() -> None:
    """The statement is about what is in the file, too, and says which of the two it still fits."""
    state()
    run("sign", "net.sgtr", "--replace", "--signing-key", "other.pem", "-o", "new.sgtr")
    Path("new.sgtr").replace("net.sgtr")
    assert verify()["covers"] == "trace"


def test_signatures_of_two() -> None:
    state()
    state("--statement", "net.intoto.jsonl", key="eddsa", output="both")
    Path("both").replace("net.intoto.jsonl")
    assert verify(key="eddsa.pub.pem")["signed_by"] == [EDDSA.kid.hex()]
    assert verify("--key", "eddsa.pub.pem")["signed_by"] == sorted([ES256.kid.hex(), EDDSA.kid.hex()])


def test_a_statement_of_another_trace_gets_no_signature() -> None:
    state()
    Path("net.sgtr").write_bytes(sign_trace(s.trace(meta={"name": "other"}).build(), ES256))
    words = (
        "publish",
        "provenance",
        "net.sgtr",
        "--statement",
        "net.intoto.jsonl",
        "--signing-key",
        "other.pem",
        "-o",
        "out",
    )
    assert "about another file" in run(*words, status=2).stderr
    assert not Path("out").exists()


def test_under_a_trust_policy() -> None:
    """The role that signs traces of the name signs statements about them."""
    trace = Trace.parse(NET[128:])
    Path("net.sgtr").write_bytes(sign_trace(trace.with_(meta={**trace.meta, "name": "small"}).build(), ES256))
    state()
    assert verify(key="fleet.gtp")["signed_by"] == [ES256.kid.hex()]
    state(key="other")
    assert [one["fault"] for one in verify(key="fleet.gtp", status=1)["findings"]] == ["signature"]


# Signers that are elsewhere.


def test_openssl_signs_and_verifies() -> None:
    """A program that signs; and the bytes that are signed, written to be signed on another machine."""
    key = shlex.quote(str(Path("es256.pem").absolute()))
    words = ("publish", "provenance", "net.sgtr", "--public-key", "es256.pub.pem")
    run(*words, "--signer-command", f"openssl dgst -sha256 -sign {key}", "-o", "net.intoto.jsonl")
    verify()
    assert run_json(*words, "--to-be-signed", "-o", "tbs")["signed"] is False
    subprocess.run(["openssl", "dgst", "-sha256", "-sign", "es256.pem", "-out", "sig", "tbs"], check=True)
    run(*words, "--signature", "sig", "-o", "net.intoto.jsonl")
    verify()
    (signature,) = json.loads(Path("net.intoto.jsonl").read_bytes())["signatures"]
    Path("sig").write_bytes(base64.b64decode(signature["sig"]))
    command = ["openssl", "dgst", "-sha256", "-verify", "es256.pub.pem", "-signature", "sig", "tbs"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "Verified OK\n"


def test_a_token_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.make(tmp_path, monkeypatch, "safe")
    tokens.put(tmp_path, ES256.key, token="safe", label="net")
    Path("pin").write_bytes(tokens.PIN)
    words = ("--pkcs11", "pkcs11:token=safe;object=net", "--passphrase-file", "pin")
    run("publish", "provenance", "net.sgtr", *words, "--public-key", "es256.pub.pem", "-o", "net.intoto.jsonl")
    verify()


def test_a_signature_of_another_key_is_not_written() -> None:
    words = ("publish", "provenance", "net.sgtr", "--public-key", "es256.pub.pem", "-o", "out")
    key = shlex.quote(str(Path("other.pem").absolute()))
    found = run(*words, "--signer-command", f"openssl dgst -sha256 -sign {key}", status=2)
    assert "expected one of the statement by ES256 key" in found.stderr
    assert not Path("out").exists()


# What is refused: a change of the statement, signed by the owner -> the fault's name.


def _set(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(statement: dict[str, Any]) -> None:
        part: Any = statement
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value

    return change


DEFINITION = ("predicate", "buildDefinition")
DEPENDENCIES = (*DEFINITION, "resolvedDependencies")
FAULTS: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "another file": ("subject", _set("subject", value=[{"name": "x", "digest": {"sha256": "0" * 64}}])),
    "another build type": ("build-type", _set(*DEFINITION, "buildType", value="https://example/build")),
    "another name": ("parameters", _set(*DEFINITION, "externalParameters", "name", value="alexnet")),
    "a parameter more": ("parameters", _set(*DEFINITION, "externalParameters", "more", value=1)),
    "another head": ("parameters", _set(*DEFINITION, "internalParameters", "head_sha256", value="00")),
    "no internal parameters": ("parameters", _set(*DEFINITION, "internalParameters", value=None)),
    "a dependency of another hash": (
        "dependencies",
        _set(*DEPENDENCIES, 4, "digest", "sha256", value="0" * 64),
    ),
    "a dependency less": ("dependencies", lambda found: found["predicate"]["buildDefinition"].update(
        resolvedDependencies=found["predicate"]["buildDefinition"]["resolvedDependencies"][1:])),
    "a dependency that is none": ("dependencies", _set(*DEPENDENCIES, 0, value=7)),
    "another claim": ("dependencies", _set(*DEPENDENCIES, 0, "annotations", "claim", value="mine")),
    "checked, but not true": ("dependencies", _set(*DEPENDENCIES, 0, "annotations", "checked", value=1)),
}  # fmt: skip


def signed(statement: object, kind: str = PAYLOAD_TYPE, signer: FileSigner = ES256) -> bytes:
    data = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    return Envelope(data, kind).signed(signer).encode()


@pytest.mark.parametrize("name", FAULTS)
def test_a_statement_that_says_something_else(name: str) -> None:
    fault, change = FAULTS[name]
    found = json.loads(make(SUBJECT, "x:y", {}))
    change(found)
    Path("net.intoto.jsonl").write_bytes(signed(found))
    answer = verify(status=1)
    assert [one["fault"] for one in answer["findings"]] == [fault]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--builder", "https://builder.example"), "builder"),
        (("--source", "es256.pem"), "source"),
    ],
)
def test_what_is_expected_and_is_not_so(words: tuple[str, ...], fault: str) -> None:
    state()
    assert [one["fault"] for one in verify(*words, status=1)["findings"]] == [fault]


def test_another_key_and_a_changed_statement() -> None:
    state()
    found = verify(key="other.pub.pem", status=1)
    assert [one["fault"] for one in found["findings"]] == ["signature"]
    assert (found["statement"], found["covers"], found["signed_by"]) == (None, None, [])
    envelope = json.loads(Path("net.intoto.jsonl").read_bytes())
    envelope["payload"] = base64.b64encode(base64.b64decode(envelope["payload"]) + b" ").decode()
    Path("net.intoto.jsonl").write_text(json.dumps(envelope))
    assert [one["fault"] for one in verify(status=1)["findings"]] == ["signature"]


def test_a_hint_decides_nothing() -> None:
    """A signature without a key id counts; one that names a trusted key without being its own does not."""
    envelope = Envelope(make(SUBJECT, "x:y", {}), PAYLOAD_TYPE).signed(ES256)
    ((_, good),) = envelope.signatures
    bare = json.loads(envelope.encode())
    del bare["signatures"][0]["keyid"]
    assert Envelope.decode(json.dumps(bare).encode()).signers([ES256.public, EDDSA.public]) == {ES256.kid}
    bad = OTHER_KEY.sign(envelope.tbs, ec.ECDSA(SHA256()))
    lying = Envelope(envelope.payload, PAYLOAD_TYPE, ((ES256.kid.hex(), bad),))
    assert lying.signers([ES256.public]) == frozenset()
    other = Envelope(envelope.payload, "text/plain", ((ES256.kid.hex(), good),))
    assert other.signers([ES256.public]) == frozenset()


# What is malformed: status 2, with the sentence that names it.
BODY: dict[str, Any] = json.loads(make(SUBJECT, "x:y", {}))


def _without(*path: str) -> bytes:
    found = json.loads(json.dumps(BODY))
    part = found
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    return signed(found)


GOOD = signed(BODY)
MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a DSSE envelope: not JSON"),
    "not text": (b"\xff{}", "at offset 0x0: a DSSE envelope: not UTF-8"),
    "cut": (GOOD[:-10], "a DSSE envelope: not JSON"),
    "two lines": (GOOD + GOOD, "a DSSE envelope: not JSON (Extra data)"),
    "a list": (b"[]", "a DSSE envelope: expected an object, found []"),
    "deep": (b"[" * 100_000, "not JSON that is read (RecursionError)"),
    "a long number": (b'{"a":' + b"1" * 10_000 + b"}", "not JSON that is read (ValueError)"),
    "not a number": (b'{"a":NaN}', "NaN is no number of JSON"),
    "twice": (GOOD.replace(b'{"payload":', b'{"payload":"","payload":', 1), "'payload' is given twice"),
    "no payload": (b'{"payloadType":"a","signatures":[{"sig":"AA=="}]}', "payload: expected text, found nothing"),
    "payload of another kind": (b'{"payload":7,"payloadType":"a","signatures":[{"sig":""}]}', "expected text"),
    "payload not base64": (b'{"payload":"~","payloadType":"a","signatures":[{"sig":""}]}', "expected base64"),
    "half a pair of surrogates": (
        b'{"payload":"","payloadType":"\\ud800","signatures":[{"sig":""}]}',
        "payloadType: expected text",
    ),
    "no type": (b'{"payload":"","signatures":[{"sig":""}]}', "payloadType: expected text, found nothing"),
    "no signatures": (b'{"payload":"","payloadType":"a","signatures":[]}', "signatures: expected at least 1"),
    "signatures missing": (b'{"payload":"","payloadType":"a"}', "signatures: expected a list, found nothing"),
    "a signature of text": (b'{"payload":"","payloadType":"a","signatures":["x"]}', "signatures[0]: expected an"),
    "a signature without bytes": (b'{"payload":"","payloadType":"a","signatures":[{}]}', "sig: expected text"),
    "too many signatures": (
        b'{"payload":"","payloadType":"a","signatures":[' + b",".join([b'{"sig":""}'] * 33) + b"]}",
        f"entries: expected at most {MAX_SIGNATURES}, found 33",
    ),
    "another type": (signed(BODY, "text/plain"), "payloadType: expected application/vnd.in-toto+json"),
    "no statement": (signed(b"hello"), "the statement: not JSON"),
    "another statement": (signed(BODY | {"_type": "x"}), "_type: expected https://in-toto.io/Statement/v1"),
    "another predicate": (signed(BODY | {"predicateType": "x"}), "predicateType: expected https://slsa.dev"),
    "no subject": (signed(BODY | {"subject": []}), "subject: expected one with a SHA-256, found none"),
    "no SHA-256": (signed(BODY | {"subject": [{"name": "a", "digest": {"sha1": "00"}}]}), "one with a SHA-256"),
    "a subject of text": (signed(BODY | {"subject": ["a"]}), "subject[0]: expected an object"),
    "no predicate": (_without("predicate"), "predicate: expected an object"),
    "no definition": (_without("predicate", "buildDefinition"), "buildDefinition: expected an object"),
    "no build type": (_without("predicate", "buildDefinition", "buildType"), "buildType: expected text"),
    "no dependencies": (
        _without("predicate", "buildDefinition", "resolvedDependencies"),
        "resolvedDependencies: expected a list",
    ),
    "no builder": (_without("predicate", "runDetails", "builder"), "builder: expected an object"),
    "no builder's id": (_without("predicate", "runDetails", "builder", "id"), "id: expected text"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_statement(name: str) -> None:
    data, text = MALFORMED[name]
    Path("net.intoto.jsonl").write_bytes(data)
    words = ("verify", "provenance", "net.intoto.jsonl", "--trace", "net.sgtr", "--key", "es256.pub.pem")
    found = run(*words, status=2)
    assert "net.intoto.jsonl" in found.stderr
    assert text in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_source_that_the_trace_does_not_name() -> None:
    words = (
        "publish",
        "provenance",
        "net.sgtr",
        "--source",
        "es256.pem",
        "--signing-key",
        "es256.pem",
        "-o",
        "out",
    )
    assert "es256.pem: the trace does not say that it was made of this file" in run(*words, status=2).stderr
    assert not Path("out").exists()
    with pytest.raises(GramophoneError, match="expected the SHA-256 of none"):
        make(Subject.of(sign_trace(s.trace().build(), ES256), "a"), "b", hashes((Path("raw.gtr"),)))


def test_options_that_do_not_fit() -> None:
    state()
    words = (
        "publish",
        "provenance",
        "net.sgtr",
        "--statement",
        "net.intoto.jsonl",
        "--signing-key",
        "es256.pem",
        "-o",
        "out",
    )
    said = run(*words, "--builder", "a:b", status=2).stderr
    assert "--statement cannot be combined with --builder" in said


@given(st.binary(max_size=200), st.text(max_size=40), st.lists(st.tuples(st.text(), st.binary()), min_size=1))
def test_envelopes_are_read_as_they_were_written(
    data: bytes, kind: str, signatures: list[tuple[str, bytes]]
) -> None:
    envelope = Envelope(data, kind, tuple(signatures[:MAX_SIGNATURES]))
    assert Envelope.decode(envelope.encode()) == envelope
    assert envelope.encode().count(b"\n") == 1


@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_or_an_envelope(data: bytes) -> None:
    try:
        Envelope.decode(data)
    except DocumentError:
        return


def test_statements_are_read_as_they_were_written() -> None:
    read = Statement.decode(make(SUBJECT, "x:y", {}), PAYLOAD_TYPE)
    assert (read.builder, read.build_type, list(read.compare(SUBJECT))) == ("x:y", BUILD_TYPE, [])
