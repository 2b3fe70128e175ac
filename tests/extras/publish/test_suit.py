# SPDX-License-Identifier: BSD-2-Clause
"""SUIT envelopes: one of another implementation, ours in other readers' hands, and what is refused by name."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycddl import Schema, ValidationError
from pycose.keys import EC2Key, OKPKey
from pycose.messages import Sign1Message

from host_tools.extras.publish.errors import DocumentError
from host_tools.extras.publish.suit import Manifest, class_id, vendor_id
from host_tools.extras.publish.suit_manifest import Envelope, loads
from signing import key_files
from signing.sign import sign_trace
from tests.support import replayer_samples as s
from tests.support import tokens
from tests.support.signing_commands import run, run_json
from tests.support.signing_samples import EDDSA, ES256, SIGNERS

DEVICE = bytes(range(16))
NET = sign_trace(s.trace(meta={"name": "small", "security_version": 3}).build(), ES256)
MANIFEST = Manifest.of(NET, "example.com", None, None, "#net.sgtr")
RULES = (Path(__file__).parent / "suit.cddl").read_text(encoding="utf-8")

# An envelope with a payload of libcsuit, another implementation: its test file suit_manifest_expI, signed with the
# key that the draft publishes for its examples. Its installation has the label of draft 19, so only the envelope
# is read. It settles what the text leaves open: what a digest, and what a signature, is of.
LIBCSUIT = bytes.fromhex(
    "d86ba3025873825824822f582014a98be957de38fae37376ea491fd6cad9bfbd3c90051c8f5b017d7a496c3b05584ad28443a10126a0f6"
    "58404093b323953785981eb607c8ba61b21e5c4f85726a2af48c1cb05bd4401b1b1565070728fda38e6496d631e1d23f966cff7805ede7"
    "21d48507d9192993da872263237463"
    "5448656c6c6f2c2053656375726520576f726c642103589aa401010203035884a20281844b5445"
    "45502d446576696365485365637572654653508d82573a926d4754935332dc29997f744274610458548614a40150c0ddd5f15243566087"
    "db4f5b0aa26c2f0250db42f7093d8c55baa8c5265fc5820f4e035824822f58208cf71ac86af31be184ec7a05a411a8c3a14fd9b77a30d0"
    "46397481469468ece80e14010f020f094c8614a11563237463150f030f"
)  # fmt: skip
DRAFTS_KEY = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhJaBGq4LqqvSYVcYnuzaJr6qi/Eb
bz/m4rVlnIXbwK07HypLbAmBMcCjbazR14vTgdzfsJwFLbM5kdtzOLSolg==
-----END PUBLIC KEY-----
"""


def validate(data: bytes, rule: str = "envelope") -> None:
    """ValidationError where data is not what a rule of suit.cddl says."""
    Schema(f"root = {rule}\n{RULES}").validate_cbor(data)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(NET)
    for name, signer in SIGNERS.items():
        Path(f"{name}.pem").write_bytes(key_files.private_pem(signer.key))
        Path(f"{name}.pub.pem").write_bytes(signer.public.pem())


def export(*words: str, key: str = "es256") -> dict[str, Any]:
    words = ("net.sgtr", "--vendor", "example.com", "--signing-key", f"{key}.pem", "-o", "net.suit", *words)
    return run_json("publish", "suit", "export", *words)


def taken(*words: str, key: str = "es256", status: int = 0) -> dict[str, Any]:
    words = ("net.suit", "--key", f"{key}.pub.pem", "-o", "out.sgtr", *words)
    found = run_json("publish", "suit", "import", *words, status=status)
    assert Path("out.sgtr").exists() == (status == 0)
    return found


def faults(*words: str, key: str = "es256") -> list[str]:
    return [one["fault"] for one in taken(*words, key=key, status=1)["findings"]]


def test_an_envelope_of_another_implementation() -> None:
    envelope = Envelope.decode(LIBCSUIT)
    public = key_files.load_public_key(DRAFTS_KEY)
    assert envelope.signers([public, ES256.public]) == {public.kid}
    assert envelope.payloads == {"#tc": b"Hello, Secure World!"}
    for at in range(0, len(LIBCSUIT) * 8, 7):  # bits
        changed = bytearray(LIBCSUIT)
        changed[at // 8] ^= 1 << at % 8
        try:
            found = Envelope.decode(bytes(changed))
        except DocumentError:
            continue
        if found.signers([public]):
            assert (found.manifest, found.payloads == envelope.payloads) == (envelope.manifest, False)


@pytest.mark.parametrize("name", SIGNERS)
def test_other_programs_read_ours(name: str) -> None:
    """A CDDL validator all of it, pycose the signature; plain CBOR shows what the digests are of."""
    signer = SIGNERS[name]
    export("--device-id", DEVICE.hex(), "--reference-uri", "https://example.com/net.suit", key=name)
    data = Path("net.suit").read_bytes()
    validate(data)
    content = cbor2.loads(data).value
    assert content["#net.sgtr"] == NET
    digest, block = cbor2.loads(content[2])
    validate(digest, "digest")
    validate(block, "block")
    validate(cbor2.loads(block).value[0], "protected")
    assert cbor2.loads(digest)[1] == hashlib.sha256(cbor2.dumps(content[3])).digest()
    message = Sign1Message.decode(block)
    message.payload = digest
    raw = signer.public.raw
    message.key = OKPKey(crv="ED25519", x=raw) if name == "eddsa" else EC2Key(crv="P_256", x=raw[1:33], y=raw[33:])
    assert message.verify_signature()
    message.payload = digest + b"\0"
    assert not message.verify_signature()
    manifest = cbor2.loads(content[3])
    parameters = cbor2.loads(cbor2.loads(manifest[3])[4])[1]
    assert cbor2.loads(parameters[3])[1] == hashlib.sha256(NET).digest()
    assert (parameters[14], parameters[24], manifest[2], manifest[4]) == (
        len(NET), DEVICE, 3, "https://example.com/net.suit",
    )  # fmt: skip


def test_the_validator_refuses_what_is_none() -> None:
    for change in ({2: b""}, {7: cbor2.dumps([99, 15])}, {5: b"\xa0"}):
        data = Envelope(cbor2.dumps(cbor2.loads(MANIFEST.encode()) | change)).signed(ES256).encode()
        with pytest.raises(ValidationError):
            validate(data)
    for rule, data in {
        "digest": cbor2.dumps([-44, bytes(64)]),
        "protected": b"\xa0",
        "block": b"\xd1\x80",
    }.items():
        with pytest.raises(ValidationError):
            validate(data, rule)


def test_ids_of_vendors_and_classes() -> None:
    """The draft's example: vendor id and class id of its first manifests."""
    vendor = vendor_id("example.com")
    assert vendor.hex() == "cfbff0d193755685968c48ce8b15ae17"
    assert class_id(bytes.fromhex("fa6b4a53d5ad5fdfbe9de663e4d41ffe"), "x") != class_id(vendor, "x")


def test_out_and_in() -> None:
    made = export("--sequence", "7")
    assert made["manifest"]["sequence"] == 7
    words = ("--vendor", "example.com", "--class", "v3d42", "--min-sequence", "7", "--device-id", DEVICE.hex())
    found = taken(*words)
    assert Path("out.sgtr").read_bytes() == NET
    assert (found["signed_by"], found["manifest"]) == ([ES256.kid.hex()], made["manifest"])
    words = ("publish", "suit", "import", "net.suit", "--key", "es256.pub.pem", "-o", "again")
    assert "trace small, sequence number 7" in run(*words).stdout


def test_a_trace_that_is_fetched() -> None:
    export("--uri", "https://example.com/net.sgtr")
    assert len(Path("net.suit").read_bytes()) < 500
    assert faults() == ["payload-missing"]
    taken("--payload", "net.sgtr")
    assert Path("out.sgtr").read_bytes() == NET


def test_signed_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("publish", "suit", "export", "net.sgtr", "--vendor", "example.com", "--public-key", "es256.pub.pem")
    key = shlex.quote(str(Path("es256.pem").absolute()))
    run(*words, "--signer-command", f"openssl dgst -sha256 -sign {key}", "-o", "net.suit")
    taken()
    Path("out.sgtr").unlink()
    run(*words, "--to-be-signed", "-o", "tbs")
    subprocess.run(["openssl", "dgst", "-sha256", "-sign", "es256.pem", "-out", "sig", "tbs"], check=True)
    run(*words, "--signature", "sig", "-o", "net.suit")
    taken()
    Path("out.sgtr").unlink()
    tokens.make(tmp_path, monkeypatch, "safe")
    tokens.put(tmp_path, ES256.key, token="safe", label="net")
    Path("pin").write_bytes(tokens.PIN)
    run(*words, "--pkcs11", "pkcs11:token=safe;object=net", "--passphrase-file", "pin", "-o", "net.suit")
    taken()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--vendor", "other.example"), "vendor"),
        (("--class", "v3d71"), "class"),
        (("--device-id", "ff" * 16), "device"),
        (("--min-sequence", "4"), "sequence"),
    ],
)
def test_a_manifest_for_another_device(words: tuple[str, ...], fault: str) -> None:
    export("--device-id", DEVICE.hex())
    assert faults(*words) == [fault]


def put(manifest: bytes | Manifest, payloads: Mapping[str, bytes] | None = None) -> None:
    """Write an envelope that the owner has signed."""
    data = manifest if isinstance(manifest, bytes) else manifest.encode()
    Path("net.suit").write_bytes(Envelope(data, payloads or {"#net.sgtr": NET}).signed(ES256).encode())


SHORTER, OTHER = NET[:-1], sign_trace(s.trace(meta={"name": "other"}).build(), ES256)


def about(data: bytes, **changes: Any) -> Manifest:
    return replace(MANIFEST, sha256=hashlib.sha256(data).digest(), size=len(data), **changes)


def test_another_payload() -> None:
    put(MANIFEST, {"#net.sgtr": SHORTER})
    assert faults() == ["payload-size"]
    put(MANIFEST, {"#net.sgtr": SHORTER + b"\1"})
    assert faults() == ["payload-digest"]
    put(about(SHORTER), {"#net.sgtr": SHORTER})
    assert faults() == ["payload-kind"]
    put(about(OTHER), {"#net.sgtr": OTHER})
    assert faults() == ["component"]
    put(MANIFEST, {"#net.sgtr": NET, "#more": b""})
    assert faults() == ["payload-more"]
    put(MANIFEST, {"#more": NET})
    assert faults() == ["payload-more", "payload-missing"]


def test_another_signer_and_a_changed_manifest() -> None:
    export()
    assert faults(key="eddsa") == ["signature"]
    envelope = Envelope.decode(Path("net.suit").read_bytes())
    later = replace(MANIFEST, sequence=9).encode()
    Path("net.suit").write_bytes(replace(envelope, manifest=later).encode())
    assert faults() == ["digest"]
    Path("net.suit").write_bytes(replace(envelope, manifest=later, digest=None).encode())
    assert faults() == ["signature"]
    Path("net.suit").write_bytes(replace(envelope, blocks=()).encode())
    assert faults() == ["signature"]


def test_of_several_signatures_one_is_enough() -> None:
    envelope = Envelope(MANIFEST.encode(), {"#net.sgtr": NET})
    both = replace(envelope, blocks=(*envelope.signed(EDDSA).blocks, *envelope.signed(ES256).blocks))
    Path("net.suit").write_bytes(both.encode())
    assert taken()["signed_by"] == [ES256.kid.hex()]


# What is malformed: status 2, with the sentence that names it.
BODY: dict[int, Any] = cbor2.loads(MANIFEST.encode())
COMMON: dict[int, Any] = cbor2.loads(BODY[3])
SHARED: list[Any] = cbor2.loads(COMMON[4])


def manifest(**changes: Any) -> bytes:
    """An envelope whose signed manifest has other elements: `e7`, of the common part `c2`, parameters `p14`."""
    parts = {kind: {int(k[1:]): v for k, v in changes.items() if k[0] == kind} for kind in "ecp"}
    shared = changes.get("shared", [20, SHARED[1] | parts["p"], *SHARED[2:]])
    common = COMMON | {4: cbor2.dumps(shared)} | parts["c"]
    body = BODY | {3: cbor2.dumps(common)} | parts["e"]
    return Envelope(cbor2.dumps({k: v for k, v in body.items() if v is not ...})).signed(ES256).encode()


def envelope(content: object, tag: int = 107) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(tag, content))


GOOD = Envelope.decode(Envelope(MANIFEST.encode()).signed(ES256).encode())
AUTH = cbor2.loads(cbor2.loads(GOOD.encode()).value[2])
SIGN1 = cbor2.loads(AUTH[1]).value


def authentication(*entries: object) -> bytes:
    return envelope({2: cbor2.dumps(list(entries)), 3: GOOD.manifest})


def block(*values: object, tag: int = 18) -> bytes:
    return authentication(AUTH[0], cbor2.dumps(cbor2.CBORTag(tag, list(values))))


DIGEST = [-16, bytes(32)]
MALFORMED: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "empty": (b"", "a SUIT envelope: not CBOR"),
    "noise": (b"\xff\x00", "a SUIT envelope: not CBOR"),
    "cut": (GOOD.encode()[:-1], "a SUIT envelope: not CBOR"),
    "a byte more": (GOOD.encode() + b"\0", "not the one encoding"),
    "deep": (b"\x81" * 100_000, "not CBOR"),
    "no tag": (cbor2.dumps({2: b"", 3: b""}), "expected tag 107"),
    "another tag": (envelope({}, 48), "expected tag 107"),
    "no map": (envelope([]), "the envelope: expected a map"),
    "a trace": (NET, "a SUIT envelope: not"),
    "a longer number": (b"\xd8\x6b\xa1\x18\x02\x40", "not the one encoding"),
    "an open end": (b"\xd8\x6b\xbf\x02\x40\xff", "not the one encoding"),
    "an element twice": (b"\xd8\x6b\xa2\x02\x40\x02\x40", "not the one encoding"),
    "an unknown element": (envelope({1: b""}), "element of the envelope: expected 2, 3"),
    "true for one": (b"\xd8\x6b\xa1\xf5\x40", "element of the envelope"),
    "not bytes": (envelope({2: 7}), "element 2 of the envelope: expected a byte string"),
    "no manifest": (envelope({2: b""}), "element 3 of the envelope: expected a byte string, found nothing"),
    "no authentication": (envelope({3: b""}), "element 2 of the envelope"),
    "severed text": (envelope({2: b"", 3: b"", 23: b""}), "severed elements"),
    "authentication of noise": (envelope({2: b"\xff", 3: b""}), "the authentication: not CBOR"),
    "authentication no list": (envelope({2: b"\xa0", 3: b""}), "the authentication: expected 1 to 33 entries"),
    "authentication empty": (authentication(), "the authentication: expected 1 to 33 entries"),
    "too many signatures": (authentication(*[AUTH[0]] * 34), "expected 1 to 33 entries"),
    "a digest not wrapped": (authentication(DIGEST), "the authentication: expected byte strings"),
    "a digest of text": (authentication(cbor2.dumps("a")), "the manifest's digest: expected an algorithm"),
    "a digest of SHA-512": (authentication(cbor2.dumps([-44, bytes(64)])), "algorithm: expected -16"),
    "a digest too short": (authentication(cbor2.dumps([-16, bytes(31)])), "expected 32 bytes"),
    "a MAC": (block(b"", {}, None, b"", tag=17), "expected COSE_Sign1 (tag 18)"),
    "a signature of three": (block(b"", {}, None), "a signature: expected an array of 4"),
    "a header that is a map": (block({}, {}, None, b""), "a signature: expected byte strings"),
    "a payload inside": (block(SIGN1[0], {}, AUTH[0], SIGN1[3]), "payload: expected nil"),
    "another header no map": (block(SIGN1[0], [], None, SIGN1[3]), "unprotected header: expected a map"),
    "manifest of noise": (Envelope(b"\xff").signed(ES256).encode(), "the manifest: not CBOR"),
    "manifest no map": (Envelope(b"\x80").signed(ES256).encode(), "the manifest: expected a map"),
    "no sequence number": (manifest(e2=...), "the manifest: elements"),
    "another version": (manifest(e1=2), "the manifest's version: expected 1, found 2"),
    "true for a version": (manifest(e1=True), "the manifest's version"),
    "a negative sequence": (manifest(e2=-1), "the sequence number: expected an integer"),
    "a sequence of text": (manifest(e2="7"), "the sequence number: expected an integer"),
    "common not wrapped": (manifest(e3={}), "the common part: expected a byte string"),
    "no components": (manifest(c2=[]), "components: expected one, of gramophone"),
    "two components": (manifest(c2=[[b"gramophone", b"a"]] * 2), "components: expected one"),
    "another's component": (manifest(c2=[[b"\0"]]), "components: expected one, of gramophone"),
    "a component not text": (manifest(c2=[[b"gramophone", b"\xff"]]), "component's name: expected UTF-8"),
    "no parameters": (manifest(shared=[1, 15]), "the shared sequence: expected parameters first"),
    "parameters no map": (manifest(shared=[20, 7]), "parameters: expected a map"),
    "no vendor": (manifest(shared=[20, {2: bytes(16)}]), "parameters: elements"),
    "a short UUID": (manifest(p1=bytes(15)), "parameter 1: expected a UUID of 16 bytes"),
    "an unknown parameter": (manifest(p99=7), "a parameter: expected one of"),
    "a size of text": (manifest(p14="7"), "a parameter: expected one of"),
    "a negative size": (manifest(p14=-7), "the image's size: expected an integer"),
    "an image's digest of another kind": (manifest(p3=cbor2.dumps([-44, b""])), "the image's digest: algorithm"),
    "no check of the vendor": (manifest(shared=SHARED[:2]), "the elements and commands of a trace's"),
    "a command more": (manifest(shared=[*SHARED, 14, 15]), "the elements and commands of a trace's"),
    "nothing validated": (manifest(e7=cbor2.dumps([3, 0, 3, 15])), "validation: expected [3, 15]"),
    "no URI": (manifest(e20=cbor2.dumps([20, {}, 21, 2, 3, 15])), "installation: expected a URI"),
    "installed unchecked": (manifest(e20=cbor2.dumps([20, {21: "#net.sgtr"}, 21, 2])), "elements and commands"),
    "another's command": (
        manifest(e20=cbor2.dumps([20, {21: "#a"}, 21, 2, 3, 15, 23, 2])),
        "elements and commands",
    ),
    "invoked": (manifest(e9=cbor2.dumps([23, 2])), "the elements and commands of a trace's"),
    "a reference of bytes": (manifest(e4=b"x"), "the elements and commands of a trace's"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_envelope(name: str) -> None:
    data, text = MALFORMED[name]
    assert isinstance(data, bytes)
    Path("net.suit").write_bytes(data)
    found = run("publish", "suit", "import", "net.suit", "--key", "es256.pub.pem", "-o", "out.sgtr", status=2)
    assert "net.suit" in found.stderr
    assert text in found.stderr
    assert found.stderr.count("\n") == 1
    assert not Path("out.sgtr").exists()


def test_what_cannot_be_exported() -> None:
    Path("net.gtr").write_bytes(s.trace().build())
    words = (
        "publish",
        "suit",
        "export",
        "net.gtr",
        "--vendor",
        "example.com",
        "--signing-key",
        "es256.pem",
        "-o",
        "out",
    )
    assert "net.gtr at offset 0x0: a trace that is not signed" in run(*words, status=2).stderr
    assert "--uri: without it" in run(*words, "--uri", "#x", status=2).stderr
    assert not Path("out").exists()


@given(
    st.text(max_size=40).filter(lambda name: name.isprintable()),
    st.integers(0, 2**64 - 1),
    st.binary(min_size=16, max_size=16),
    st.text(max_size=40),
    st.none() | st.binary(min_size=16, max_size=16),
    st.text(max_size=20),
)
def test_manifests_are_read_as_they_were_written(
    name: str, number: int, ident: bytes, uri: str, device: bytes | None, reference: str
) -> None:
    made = Manifest(name, number, ident, ident[::-1], ident * 2, number, uri, device, reference)
    assert Manifest.decode(made.encode()) == made
    envelope = Envelope(made.encode(), {uri: ident}).signed(ES256)
    assert replace(Envelope.decode(envelope.encode()), digest=None) == envelope


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_or_the_one_encoding(data: bytes) -> None:
    try:
        found = loads(data, "it")
    except DocumentError:
        return
    assert cbor2.dumps(found) == data
