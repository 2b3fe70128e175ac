# SPDX-License-Identifier: BSD-2-Clause
"""Files that commands take, good and in all the ways in which they can be bad, and what a refusal looks like."""

from __future__ import annotations

import io
import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.extras.publish import suit_manifest as suit
from host_tools.extras.publish.dsse import Envelope
from host_tools.extras.publish.statement import PAYLOAD_TYPE, Subject, make
from host_tools.extras.publish.suit import Manifest
from signing import key_files
from signing.sign import sign_trace
from signing.trust import Role
from tee_replayer.generator.device import Device
from tests.support import log_samples, merkle, trust_samples
from tests.support.attestation_samples import attest, claims_of
from tests.support.commands import split
from tests.support.signing_samples import EDDSA, ES256
from tests.support.trace_text import plain
from trace_format.actions import MAP_READ, MAP_WRITE, Op, action, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

SHAPE = (2, 3)
STRIDES = (12, 4)
VERSION_OFFSET = 8  # of a trace's header and of a signed trace's


def trace() -> bytes:
    """A valid raw trace with a slot of each kind."""
    kinds = {"x": SlotKind.INPUT, "w": SlotKind.PARAMETER, "y": SlotKind.OUTPUT}
    slots = [
        Slot(name, kind, DType.FLOAT32, SHAPE, STRIDES, 64 * index, 0, True)
        for index, (name, kind) in enumerate(kinds.items())
    ]
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, frame=8, address_space=0, va_page=0),
        action(Op.REPLAY_START),
        action(Op.COPY_TO_GPU, slot=0),
        action(Op.COPY_TO_GPU, slot=1),
        action(Op.JOB),
        action(Op.COPY_FROM_GPU, slot=2),
    ]
    image = bytes(range(256))
    size = 16 * PAGE_BYTES
    return Trace("v3d42", array_of(rows), image, size, size, slots, meta={"name": "bad"}, raw=True).build()


def npy(array: object) -> bytes:
    """Bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3))
    return file.getvalue()


def npy_header(text: str) -> bytes:
    """A .npy file of version 1.0 with this text as header, and some data."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(24)


def changed(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + bytes([value]) + data[offset + 1 :]


RAW = trace()
SIGNED = sign_trace(RAW, ES256)
PRIVATE, PUBLIC = key_files.private_pem(ES256.key), ES256.public.pem()
ARRAY = npy(np.zeros(SHAPE, np.float32))
PARAM = b"7767517\n2 2\nInput data 0 1 data\nReLU out 1 1 data out\n"
NOISE = random.Random(7).randbytes(5000)
# A trust policy of one key, the samples': its first version, signed.
_OWN = trust_samples.policy(trust_samples.rule(threshold=1, signers=[ES256]), keys=trust_samples.keys([ES256]))
FLEET = trust_samples.signed_policy(replace(_OWN, root=Role(frozenset([ES256.kid]))), [ES256]).encode()

# What goes with the signed trace: statement, SUIT envelope, proof of a transparency log.
STATEMENT = Envelope(make(Subject.of(SIGNED, "net.sgtr"), "a:b", {}), PAYLOAD_TYPE).signed(ES256).encode()
_MANIFEST = Manifest.of(SIGNED, "example.com", None, None, "#net.sgtr").encode()
SUIT = suit.Envelope(_MANIFEST, {"#net.sgtr": SIGNED}).signed(ES256).encode()
PROOF = json.dumps(merkle.Log([merkle.hashedrekord(SIGNED)], EDDSA).entry(0)).encode()

DEVICE_FILE = b'gpu = "v3d42"\nplatform = "qemu-virt"\nkey = "pub.pem"\nprofile = "plain"\n'
GOOD = {
    "net.gtr": RAW,
    "net.sgtr": SIGNED,
    "key.pem": PRIVATE,
    "pub.pem": PUBLIC,
    "eddsa.pem": EDDSA.public.pem(),
    "array.npy": ARRAY,
    "my.toml": b'like = "optee"',
    "device.toml": DEVICE_FILE,
    "my.h": b"policy_clients policy_traces POLICY_STORAGE",
    "horse.txt": b"horse\n",
    "fleet.gtp": FLEET,
    "net.param": PARAM,
    "net.bin": bytes(64),
    "a.log": log_samples.sample().data,
    "a.tail": bytes(48),
    "log.key": log_samples.KEYS.log,
    "device.secret": log_samples.SECRET,
    "a.cbor": attest(claims_of(log_samples.sample(), log_samples.TRACES[0], bytes(range(8)))),
    "net.intoto.jsonl": STATEMENT,
    "net.suit": SUIT,
    "proof.json": PROOF,
    "a.bin": Device("qemu-virt", 1, 0, ES256.public).encoded,
}

ANY = {"empty": b"", "random": NOISE, "zeros": bytes(5000), "text": b"hello\n", "an archive": npz()}
TRACE = {
    **ANY,
    "one byte": RAW[:1],
    "cut in the header": RAW[:50],
    "cut in the head": RAW[:400],
    "cut in the body": RAW[:-16],
    "too long": RAW + bytes(16),
    "wrong version": changed(RAW, VERSION_OFFSET, 9),
    "damaged body": changed(RAW, len(RAW) - 20, RAW[-20] ^ 1),
    "cut, signed": SIGNED[:-1],
    "wrong version, signed": changed(SIGNED, VERSION_OFFSET, 9),
    "a key": PRIVATE,
    "an array": ARRAY,
}
UNSIGNED = {**TRACE, "signed": SIGNED}
SIGNED_TRACE = {
    **ANY,
    "cut in the header": SIGNED[:20],
    "cut in the envelope": SIGNED[:100],
    "cut in the body": SIGNED[:-1],
    "too long": SIGNED + b"\0",
    "wrong version": changed(SIGNED, VERSION_OFFSET, 9),
    "not signed": RAW,
    "a key": PRIVATE,
    "an array": ARRAY,
}
KEY = {
    **ANY,
    "truncated": PRIVATE[: len(PRIVATE) // 2],
    "damaged": PRIVATE.replace(b"M", b"N"),
    "two of them": PRIVATE + PUBLIC,
    "a trace": RAW,
    "an array": ARRAY,
    "only the frame": b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
}
PRIVATE_KEY = {**KEY, "public": PUBLIC, "locked": key_files.private_pem(ES256.key, b"horse")}
PUBLIC_KEY = {**KEY, "private": PRIVATE, "damaged, public": PUBLIC.replace(b"M", b"N")}
DEVICE_KEY = {**PUBLIC_KEY, "EdDSA": EDDSA.public.pem()}
TENSOR = {
    **ANY,
    "truncated": ARRAY[:-1],
    "cut in the header": ARRAY[:40],
    "cut in the magic": ARRAY[:3],
    "wrong version": changed(ARRAY, 6, 9),
    "wrong shape": npy(np.zeros((3, 2), np.float32)),
    "a number": npy(np.float32(1)),
    "too many dimensions": npy(np.zeros((1, 2, 3, 1), np.float32)),
    "wrong type": npy(np.zeros(SHAPE, np.float64)),
    "wrong byte order": npy(np.zeros(SHAPE, ">f4")),
    "objects": npy(np.array([[None] * 3] * 2, dtype=object)),
    "a record": npy(np.zeros(SHAPE, [("a", "f4")])),
    "huge": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1048576), }\n"),
    "overflowing": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2**70,), }\n"),
    "open brackets": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (((((((2, 3), }\n"),
    "no type": npy_header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (2, 3), }\n"),
    "negative": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }\n"),
    "not a dictionary": npy_header("[" * 500 + "\n"),
    "a trace": RAW,
}
SECRET = {"empty": b"", "only a line end": b"\n"}
NCNN_PARAM = {
    **ANY,
    "truncated": PARAM[:5],
    "only the magic": PARAM[:8],
    "wrong version": PARAM.replace(b"7767517", b"7767518"),
    "binary form": (7767517).to_bytes(4, "little") + bytes(60),
    "a trace": RAW,
}
BOARD = {"empty": b"", "not TOML": b"[", "not text": b"\xff", "like nothing": b"like = 1", "noise": NOISE}
BAD_DEVICE_FILE = {
    **ANY,
    "empty": b"",
    "not TOML": b"[",
    "not text": b"\xff",
    "another key": DEVICE_FILE + b"clock_mhz = 1\n",
    "a board's": b'like = "optee"',
}
TRUST_POLICY = {
    **ANY,
    "cut": FLEET[:-1],
    "cut in the policy": FLEET[:300],
    "one byte more": FLEET + b"\0",
    "another's": FLEET + FLEET,
    "a key": PUBLIC,
    "a trace": RAW,
}
# What no longer has enough good signatures is still one, which can be read and signed again.
SIGNED_POLICY = {**TRUST_POLICY, "changed": changed(FLEET, 40, 9)}
TRUSTED = {name: data for name, data in SIGNED_POLICY.items() if name != "a key"}  # a key is trusted, too
POLICY = {"empty": b"", "noise": NOISE}
LOG, TAIL = log_samples.sample().data, bytes(48)
REPLAY_LOG = {
    **{what: content for what, content in ANY.items() if what != "zeros"},
    "zeros": bytes(480),
    "cut": LOG[:-1],
    "too long": LOG + b"\0",
    "a trace": RAW,
}
LOG_TAIL = {"empty": b"", "cut": TAIL[:-1], "too long": TAIL + b"\0", "a log": LOG}
DEVICE_SECRET = {"empty": b"", "cut": log_samples.SECRET[:-1], "too long": log_samples.SECRET + b"\0"}
MESSAGE = attest(claims_of(log_samples.sample(), log_samples.TRACES[0], bytes(range(8))))
ATTESTATION = {**ANY, "cut": MESSAGE[:-1], "too long": MESSAGE + b"\0", "a trace": RAW, "a log": LOG}
# More: tests/extras/publish.
DOCUMENT = {**ANY, "a list": b"[]", "a trace": RAW, "a key": PUBLIC, "an empty object": b"{}"}
IN_TOTO = {**DOCUMENT, "cut": STATEMENT[:-9], "two": STATEMENT + STATEMENT, "a proof": PROOF}
LOGGED = {**DOCUMENT, "cut": PROOF[:-9], "a statement": STATEMENT}
SUIT_ENVELOPE = {**ANY, "cut": SUIT[:-1], "too long": SUIT + b"\0", "a trace": RAW, "a key": PUBLIC}
TEXT = {
    **ANY,
    "not text": b"gramophone-trace 1\n\xff",
    "a trace": RAW,
    "cut": b"gramophone-trace 1\nmanifest\n  gpu v3d42\n",
}
NOTHING: dict[str, bytes] = {}  # any content is accepted, or checked elsewhere


def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with good files, and one for temporary files that must be empty in the end."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name, content in {
        **GOOD,
        "other.gtr": RAW,
        "net.txt": plain(RAW).encode(),
        "other.npy": GOOD["array.npy"],
        "locked.pem": PRIVATE_KEY["locked"],
    }.items():
        Path(name).write_bytes(content)
    yield work
    assert list(temporary.iterdir()) == []


def listing() -> list[tuple[Path, bytes]]:
    """Every file here and its content."""
    return sorted((path, path.read_bytes() if path.is_file() else b"") for path in Path().rglob("*"))


def refused(words: list[str], written: str = "") -> str:
    """Its sentence, of a command that must refuse, with --json, too. `written`: what it leaves all the same."""
    before = listing()
    result = run(words)
    assert result.stdout == ""
    sentence = check(result)
    command, more = split(words)
    with_json = run([*command, "--json", *more])
    assert check(with_json) == sentence
    assert with_json.stdout.count("\n") == 1
    assert json.loads(with_json.stdout) == {"ok": False, "error": sentence}
    if written:
        Path(written).unlink()
    assert listing() == before
    return sentence


def run(words: list[str]) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def check(result: Result) -> str:
    assert result.exit_code == 2, result.output
    # A warning may stand before it: that the archive has newer packages for the guest than those that were tested.
    lines = result.stderr.splitlines(keepends=True)
    said = "".join(line for line in lines if not re.match("warning: .* is taken from the archive; ", line))
    assert said.startswith("error: "), result.stderr
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert "Traceback" not in said
    return said.removeprefix("error: ").removesuffix("\n")
