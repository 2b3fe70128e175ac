# SPDX-License-Identifier: BSD-2-Clause
"""The signed trace's bytes: one encoding, and every other one refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signing.envelope import ALGORITHMS, Envelope, join, split, to_be_signed
from signing.errors import EnvelopeError
from signing.keys import Algorithm
from signing.sign import sign_trace
from signing.verify import Verdict, verify_trace
from tests.support.signing_samples import ENVELOPE_BYTES, ENVELOPE_START, ES256, TRACE_START, small_trace
from trace_format import layout
from trace_format.errors import TraceError

TRACE = small_trace()
SIGNED = sign_trace(TRACE, ES256)
HEAD = TRACE[: layout.read_header(TRACE)["head_bytes"]]
KID = ES256.kid
PROTECTED = bytes.fromhex("a201260450") + KID


def message(
    protected: bytes = PROTECTED,
    *,
    start: str = "d284",
    protected_start: str = "",
    unprotected: str = "a0",
    payload: str = "f6",
    signature: str = "",
    end: str = "",
) -> bytes:
    """A COSE message written by hand: any part may be odd, the signature is good unless it is given."""
    tbs = b"\x84\x6aSignature1" + _byte_string(protected) + b"\x40" + _byte_string(HEAD)
    parts = [
        bytes.fromhex(start),
        bytes.fromhex(protected_start) + protected if protected_start else _byte_string(protected),
        bytes.fromhex(unprotected),
        bytes.fromhex(payload),
        bytes.fromhex(signature) if signature else _byte_string(ES256.sign(tbs)),
        bytes.fromhex(end),
    ]
    return b"".join(parts)


def _byte_string(data: bytes) -> bytes:
    size = len(data)
    if size < 24:
        return bytes([0x40 + size]) + data
    return (b"\x58" + bytes([size]) if size < 256 else b"\x59" + struct.pack(">H", size)) + data


def signed_with(envelope: bytes) -> bytes:
    """A signed trace around a message, its header as it must be."""
    header = struct.pack("<8sHHIQ8x", b"\x89GSG\r\n\x1a\n", 1, 0, len(envelope), len(TRACE))
    return header + envelope + bytes(-len(envelope) % 8) + TRACE


def test_layout() -> None:
    assert signed_with(message()) == SIGNED
    assert len(message()) == ENVELOPE_BYTES
    assert SIGNED[TRACE_START:] == TRACE
    fixed = bytes.fromhex("d28455a201260450") + KID + bytes.fromhex("a0f65840")
    assert SIGNED[ENVELOPE_START:].startswith(fixed)


def test_signed_bytes_are_those_of_rfc_9052() -> None:
    expected = b"\x84\x6aSignature1\x55" + PROTECTED + b"\x40" + _byte_string(HEAD)
    assert to_be_signed(Algorithm.ES256, KID, HEAD) == expected


envelopes = st.builds(
    Envelope,
    algorithm=st.sampled_from(ALGORITHMS),
    kid=st.binary(min_size=16, max_size=16),
    signature=st.binary(min_size=64, max_size=64),
)


@given(envelopes)
def test_envelope_round_trip(envelope: Envelope) -> None:
    data = envelope.encode()
    assert len(data) == ENVELOPE_BYTES
    assert Envelope.decode(data) == envelope


@given(envelopes, st.binary(max_size=500))
def test_signed_trace_round_trip(envelope: Envelope, trace: bytes) -> None:
    data = join(envelope, trace)
    found = split(data)
    assert (found.envelope, bytes(found.trace), found.offset) == (envelope, trace, TRACE_START)


@given(st.binary(max_size=200))
def test_any_bytes_are_one_encoding_or_an_error(data: bytes) -> None:
    try:
        envelope = Envelope.decode(data)
    except EnvelopeError:
        return
    assert envelope.encode() == data


@given(envelopes, st.lists(st.tuples(st.integers(0, 91), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_one_encoding_or_an_error(envelope: Envelope, changes: list[tuple[int, int]]) -> None:
    data = bytearray(envelope.encode())
    for at, byte in changes:
        data[at] = byte
    try:
        found = Envelope.decode(bytes(data))
    except EnvelopeError:
        return
    assert found.encode() == bytes(data)


SIGNATURE = "5840" + "01" * 64
MALFORMED_MESSAGES = {
    "no tag": (message(start="84"), "not a COSE_Sign1 message: expected tag 18"),
    "tag of COSE_Mac0": (message(start="d184"), "not a COSE_Sign1 message"),
    "tag of COSE_Sign": (message(start="d86284"), "a COSE_Sign message in its one encoding"),
    "tag twice": (message(start="d2d284"), "an array of 4"),
    "tag not minimal": (message(start="d81284"), "not the canonical encoding"),
    "CBOR's own tag before it": (message(start="d9d9f7d284"), "not the canonical encoding"),
    "array of 3": (message(start="d283", signature=SIGNATURE)[:-66], "an array of 4"),
    "array of 5": (message(start="d285", end="a0"), "an array of 4"),
    "array of unknown length": (message(start="d29f", end="ff"), "not the canonical encoding"),
    "array length not minimal": (message(start="d29804"), "not the canonical encoding"),
    "a map": (bytes.fromhex("d2a10102"), "an array of 4"),
    "trailing zero": (message(end="00"), "not the canonical encoding"),
    "message twice": (message() + message(), "not the canonical encoding"),
    "cut by a byte": (message()[:-1], "not CBOR"),
    "one byte": (b"\xd2", "not CBOR"),
    "not CBOR": (b"\x1c" * 92, "not CBOR"),
    "all ones": (b"\xff" * 92, "net.sgtr at offset 0x20: "),  # a break code; cbor2 6 says that it is not CBOR
    "deep nesting": (b"\x81" * 1023 + b"\x00", "not CBOR"),
    "deep nesting of tags": (b"\xd2" * 1023 + b"\x00", "not CBOR"),
    "endless byte string": (bytes.fromhex("d2845f4101ffa0f6") + b"\x40", "signature: expected 64 bytes"),
    "huge byte string": (bytes.fromhex("d2845bffffffffffffffff"), "not CBOR"),
    "huge array": (bytes.fromhex("9bffffffffffffffff"), "not CBOR"),
    "date": (bytes.fromhex("d28455") + PROTECTED + bytes.fromhex("c06161f640"), "not CBOR"),
    "shared reference": (bytes.fromhex("d284d81c40d81d00f640"), "unprotected header"),
    "protected length not minimal": (message(protected_start="5815"), "not the canonical encoding"),
    "protected in pieces": (message(protected_start="5f55", unprotected="ffa0"), "not the canonical encoding"),
    "protected a map": (message(protected_start="a201260450")[:2] + PROTECTED + message()[24:], "a byte string"),
    "protected empty": (message(b""), "not CBOR"),
    "protected an empty map": (message(b"\xa0"), "a map of 1 (algorithm) and 4 (key id)"),
    "protected not a map": (message(b"\x80"), "a map of 1"),
    "no key id": (message(bytes.fromhex("a10126")), "a map of 1"),
    "no algorithm": (message(bytes.fromhex("a10450") + KID), "a map of 1"),
    "one entry more": (message(bytes.fromhex("a30126030004") + b"\x50" + KID), "a map of 1"),
    "critical entry": (message(bytes.fromhex("a30126028104") + bytes.fromhex("0450") + KID), "a map of 1"),
    "entries swapped": (
        message(bytes.fromhex("a20450") + KID + bytes.fromhex("0126")),
        "not the canonical encoding",
    ),
    "key twice": (message(bytes.fromhex("a3012601260450") + KID), "not the canonical encoding"),
    "map of unknown length": (
        message(bytes.fromhex("bf01260450") + KID + b"\xff"),
        "not the canonical encoding",
    ),
    "map length not minimal": (message(bytes.fromhex("b80201260450") + KID), "not the canonical encoding"),
    "label not minimal": (message(bytes.fromhex("a21801260450") + KID), "not the canonical encoding"),
    "algorithm not minimal": (message(bytes.fromhex("a20138060450") + KID), "not the canonical encoding"),
    "algorithm a float": (message(bytes.fromhex("a201f9c7000450") + KID), "algorithm: expected -7"),
    "label a float": (message(bytes.fromhex("a2f93c00260450") + KID), "not the canonical encoding"),
    "key id not minimal": (message(bytes.fromhex("a20126045810") + KID), "not the canonical encoding"),
    "more after the map": (message(PROTECTED + b"\x00"), "not the canonical encoding"),
    "ES384": (
        message(bytes.fromhex("a20138220450") + KID),
        "algorithm: expected -7 (ES256) or -8 (EdDSA), found -35",
    ),
    "RS1": (message(bytes.fromhex("a20139fffe0450") + KID), "algorithm: expected"),
    "HMAC": (message(bytes.fromhex("a201050450") + KID), "algorithm: expected"),
    "algorithm a text": (message(bytes.fromhex("a201654553323536") + b"\x04\x50" + KID), "algorithm: expected"),
    "algorithm a list": (message(bytes.fromhex("a20181260450") + KID), "algorithm: expected"),
    "algorithm true": (message(bytes.fromhex("a201f50450") + KID), "algorithm: expected"),
    "key id of 15 bytes": (message(bytes.fromhex("a20126044f") + KID[:15]), "key id: expected 16 bytes"),
    "key id of 17 bytes": (message(bytes.fromhex("a201260451") + KID + b"\x00"), "key id: expected 16 bytes"),
    "key id a text": (message(bytes.fromhex("a201260470") + b"a" * 16), "key id: expected 16 bytes"),
    "key id in the unprotected header": (
        message(bytes.fromhex("a10126"), unprotected="a10450" + KID.hex()),
        "unprotected header: expected an empty map",
    ),
    "unprotected entry": (message(unprotected="a10405"), "unprotected header: expected an empty map"),
    "unprotected nil": (message(unprotected="f6"), "unprotected header"),
    "unprotected an array": (message(unprotected="80"), "unprotected header"),
    "unprotected of unknown length": (message(unprotected="bfff"), "not the canonical encoding"),
    "payload inside": (message(payload="4101"), "payload: expected nil (detached)"),
    "payload empty": (message(payload="40"), "payload: expected nil"),
    "payload undefined": (message(payload="f7"), "payload: expected nil"),
    "payload false": (message(payload="f4"), "payload: expected nil"),
    "signature of 63 bytes": (message(signature="583f" + "01" * 63), "signature: expected 64 bytes"),
    "signature of 65 bytes": (message(signature="5841" + "01" * 65), "signature: expected 64 bytes"),
    "signature empty": (message(signature="40"), "signature: expected 64 bytes"),
    "signature nil": (message(signature="f6"), "signature: expected 64 bytes"),
    "signature a text": (message(signature="7840" + "61" * 64), "signature: expected 64 bytes"),
    "signature length not minimal": (message(signature="590040" + "01" * 64), "not the canonical encoding"),
}


@pytest.mark.parametrize("name", MALFORMED_MESSAGES)
def test_malformed_message(name: str) -> None:
    envelope, reason = MALFORMED_MESSAGES[name]
    assert envelope != message()
    result = verify_trace(signed_with(envelope), [ES256.public], file="net.sgtr")
    assert result.verdict == Verdict.MALFORMED
    assert reason in result.reason
    assert result.reason.startswith("net.sgtr at offset 0x")
    assert "\n" not in result.reason
    assert len(result.reason) < 300
    assert result.trace is None


def header(**changes: object) -> bytes:
    """The sample with fields of its header changed."""
    values: dict[str, object] = {
        "magic": b"\x89GSG\r\n\x1a\n",
        "major": 1,
        "minor": 0,
        "envelope_bytes": ENVELOPE_BYTES,
        "trace_bytes": len(TRACE),
        "reserved": bytes(8),
    }
    values |= changes
    return struct.pack("<8sHHIQ8s", *values.values()) + SIGNED[ENVELOPE_START:]


MALFORMED_FILES = {
    "empty": (b"", "too short for a signed trace"),
    "a byte": (b"\x89", "too short"),
    "only the header": (SIGNED[:32], "size of the file"),
    "not signed": (TRACE, "a trace that is not signed"),
    "text": (b"hello, world\n" * 20, "not a signed trace"),
    "mangled line ends": (SIGNED.replace(b"\r\n", b"\n"), "not a signed trace"),
    "version 0": (header(major=0), "version of the signed trace: expected 1.0, found 0.0"),
    "version 2": (header(major=2), "version of the signed trace: expected 1.0, found 2.0"),
    "version 1.1": (header(minor=1), "version of the signed trace: expected 1.0, found 1.1"),
    "no envelope": (header(envelope_bytes=0), "envelope_bytes: expected 1 to 1024, found 0"),
    "envelope too large": (header(envelope_bytes=1025), "envelope_bytes: expected 1 to 1024"),
    "envelope of 4 GiB": (header(envelope_bytes=0xFFFFFFFF), "envelope_bytes: expected 1 to 1024"),
    "envelope takes the padding": (header(envelope_bytes=96), "not the canonical encoding"),
    "envelope a byte short": (header(envelope_bytes=91), "not CBOR"),
    "envelope beyond the file": (header(envelope_bytes=1000)[:200], "size of the file"),
    "trace longer": (header(trace_bytes=len(TRACE) + 1), "size of the file"),
    "trace shorter": (header(trace_bytes=len(TRACE) - 1), "size of the file"),
    "trace of 2^64": (header(trace_bytes=2**64 - 1), "size of the file"),
    "no trace": (header(trace_bytes=0)[:TRACE_START], "too short for a trace header"),
    "reserved bytes": (header(reserved=b"\0\0\0\1\0\0\0\0"), "reserved bytes"),
    "padding": (SIGNED[:126] + b"\x01" + SIGNED[127:], "padding after the envelope"),
    "a byte more": (SIGNED + b"\0", "size of the file"),
    "signed twice": (
        struct.pack("<8sHHIQ8x", b"\x89GSG\r\n\x1a\n", 1, 0, 92, len(SIGNED)) + SIGNED[32:128] + SIGNED,
        "not a trace",
    ),
}


@pytest.mark.parametrize("name", MALFORMED_FILES)
def test_malformed_file(name: str) -> None:
    data, reason = MALFORMED_FILES[name]
    result = verify_trace(data, [ES256.public], file="net.sgtr")
    assert result.verdict == Verdict.MALFORMED
    assert reason in result.reason
    assert result.reason.startswith("net.sgtr at offset 0x")


def test_every_truncation_is_refused() -> None:
    for size in range(len(SIGNED)):
        result = verify_trace(SIGNED[:size], [ES256.public])
        assert result.verdict == Verdict.MALFORMED, size
        assert "too short" in result.reason or "size of the file" in result.reason


@given(st.binary(max_size=400))
def test_random_file_is_refused(data: bytes) -> None:
    assert verify_trace(data, [ES256.public]).verdict == Verdict.MALFORMED
    assert verify_trace(SIGNED[:32] + data, [ES256.public]).verdict == Verdict.MALFORMED


def test_offsets_are_those_of_the_file() -> None:
    with pytest.raises(TraceError) as caught:
        split(signed_with(message(end="00")))
    assert caught.value.offset == ENVELOPE_START + ENVELOPE_BYTES
    trace = bytearray(SIGNED)
    trace[TRACE_START + 12] ^= 1  # header_bytes of the trace
    assert f"at offset {TRACE_START + 12:#x}: header_bytes" in verify_trace(bytes(trace), [ES256.public]).reason
