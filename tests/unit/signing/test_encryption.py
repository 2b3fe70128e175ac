# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces on the host: back as they were, for whom they are, and read by programs that are not ours."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from pathlib import Path

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cwt import COSEKey, Recipient
from hypothesis import given
from hypothesis import strategies as st

from signing import cose_encrypt, encryption
from signing.cose_encrypt import Encryption
from signing.cose_encrypt import Recipient as Row
from signing.delivery import Delivery
from signing.errors import EncryptionError, KeyFileError
from signing.keys import PublicKey
from tests.support import encryption_samples as e
from trace_format import layout
from trace_format.errors import ChunkHashError, EncryptedError, ReservedError, SectionError, TraceError
from trace_format.schema import MAX_RECIPIENTS, SectionType
from trace_format.trace import Trace

KIDS = st.sets(st.binary(min_size=16, max_size=16), min_size=1, max_size=MAX_RECIPIENTS)


def message_of(trace: bytes) -> tuple[bytes, bytes]:
    """The COSE_Encrypt message of a trace, and what precedes it."""
    part = layout.disassemble(trace)[1].one(SectionType.ENCRYPTION)
    return bytes(part.stored), trace[: part.offset]


@given(
    st.sets(st.binary(min_size=16, max_size=16), min_size=1, max_size=MAX_RECIPIENTS),
    st.binary(min_size=12, max_size=12),
)
def test_a_message_is_read_as_it_was_written(kids: set[bytes], counter: bytes) -> None:
    rows = tuple(Row(kid, b"\x04" + kid * 4, kid + kid[:8]) for kid in sorted(kids))
    message = Encryption(counter + bytes(4), rows)
    assert Encryption.decode(message.encode()) == message
    assert len(message.encode()) == cose_encrypt.size_of(len(rows))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_other_bytes_are_a_message(at: int, byte: int) -> None:
    """What `decode` takes, `encode` writes: there is one encoding."""
    good = message_of(TRACE)[0]
    bad = bytearray(good)
    bad[at % len(bad)] = byte
    with contextlib.suppress(EncryptionError):
        assert Encryption.decode(bytes(bad)).encode() == bytes(bad)


TRACE = e.encrypted(e.DEVICE, e.OWNER)


@pytest.mark.parametrize("key", [e.DEVICE, e.OWNER], ids=["device", "owner"])
def test_decrypted_it_is_as_it_was(key: ec.EllipticCurvePrivateKey) -> None:
    assert encryption.decrypt(TRACE, [e.STRANGER, key]) == e.plain()


def test_nothing_of_the_body_is_there() -> None:
    """No 16 bytes of the plain body, but those of padding, are in the encrypted file."""
    plain, start = e.plain(), int.from_bytes(e.plain()[24:28], "little")
    windows = {plain[at : at + 16] for at in range(start, len(plain) - 16)} - {bytes(16)}
    assert windows
    assert not any(window in TRACE for window in windows)


def test_each_time_it_has_another_key() -> None:
    again = e.encrypted(e.DEVICE, e.OWNER)
    start = int.from_bytes(TRACE[24:28], "little")
    assert TRACE[start:] != again[start:]
    assert encryption.decrypt(again, [e.OWNER]) == encryption.decrypt(TRACE, [e.OWNER])


def test_for_whom_it_says_it_is() -> None:
    assert encryption.recipients(TRACE) == tuple(sorted(e.public(key).kid for key in (e.DEVICE, e.OWNER)))
    assert encryption.recipients(e.plain()) == ()


def test_without_a_key_the_head_can_be_read() -> None:
    delivery = Delivery(e.signed(TRACE))
    assert delivery.manifest["name"]
    assert delivery.trace is None
    with pytest.raises(EncryptedError, match="--decrypt-with"):
        delivery.parse()


def test_with_a_key_at_hand_everything_reads_it() -> None:
    with encryption.reading_with([e.OWNER]):
        found = Delivery(e.signed(TRACE)).parse()
    assert found.trace_id == Trace.parse(e.plain()).trace_id
    assert encryption.keys_at_hand() == ()


def test_with_another_key() -> None:
    with pytest.raises(EncryptedError, match=e.public(e.STRANGER).kid.hex()):
        encryption.decrypt(TRACE, [e.STRANGER])


def test_under_another_head_it_cannot_be_read() -> None:
    with pytest.raises(EncryptedError, match="not one for this head"):
        encryption.decrypt(e.transplanted(), [e.DEVICE])


def test_a_damaged_chunk_is_found_before_it_is_decrypted() -> None:
    bad = bytearray(TRACE)
    bad[-1] ^= 1
    with pytest.raises(ChunkHashError):
        encryption.decrypt(bytes(bad), [e.STRANGER])


CASES = [(name, trace) for name, trace, status in e.cases() if status == "SECTIONS"]


@pytest.mark.parametrize("trace", [trace for _, trace in CASES], ids=[name for name, _ in CASES])
def test_messages_that_devices_refuse(trace: bytes) -> None:
    with pytest.raises(TraceError) as error:
        encryption.recipients(trace)
    assert isinstance(error.value, EncryptionError | SectionError | ReservedError)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ([], "1 to 16 different keys"),
        ([e.public(e.OWNER)] * 2, "1 to 16 different keys"),
        ([e.public(key) for key in e._keys(17)], "1 to 16 different keys"),
        ([PublicKey(ed25519.Ed25519PrivateKey.generate().public_key())], "one on P-256"),
    ],
    ids=["none", "one twice", "seventeen", "Ed25519"],
)
def test_keys_that_it_is_not_encrypted_for(keys: list[PublicKey], what: str) -> None:
    with pytest.raises(KeyFileError, match=what):
        encryption.encrypt(e.plain(), keys)


def test_twice_is_an_error() -> None:
    with pytest.raises(EncryptedError):
        encryption.encrypt(TRACE, [e.public(e.OWNER)])


def test_cwt_unwraps_the_key_and_openssl_decrypts_the_body(tmp_path: Path) -> None:
    """RFC 9053's ECDH-ES + A128KW by cwt, which knows nothing of this library; AES by the openssl command."""
    message, before = message_of(TRACE)
    binding = hashlib.sha256(before).digest()
    protected, unprotected, _, rows = cbor2.loads(message).value
    assert protected == b""
    assert unprotected[1] == -65534  # A128CTR, RFC 9459, table 1
    row = next(row for row in rows if row[1][4] == e.public(e.OWNER).kid)
    context = [-3, [None, None, None], [None, None, None], [128, row[0], binding]]
    key = _unwrapped_by_cwt(row, context, e.OWNER)
    (tmp_path / "body").write_bytes(TRACE[int.from_bytes(TRACE[24:28], "little") :])
    done = subprocess.run(
        ["openssl", "enc", "-d", "-aes-128-ctr", "-K", key.hex(), "-iv", unprotected[5].hex(), "-in", "body"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    plain = e.plain()
    assert done.stdout == plain[int.from_bytes(plain[24:28], "little") :]


def _unwrapped_by_cwt(row: list, context: list, key: ec.EllipticCurvePrivateKey) -> bytes:  # type: ignore[type-arg]
    numbers = key.private_numbers()
    whole = COSEKey.new(
        {
            1: 2,
            2: row[1][4],
            3: -29,
            -1: 1,
            -2: numbers.public_numbers.x.to_bytes(32, "big"),
            -3: numbers.public_numbers.y.to_bytes(32, "big"),
            -4: numbers.private_value.to_bytes(32, "big"),
        }
    )
    recipient = Recipient.new(cbor2.loads(row[0]), row[1], row[2], context=context)
    found = recipient.decode(whole)
    assert isinstance(found, bytes)
    return found


def test_a_sample_by_another_program() -> None:
    """RFC 3394, 4.1: 128 bits of key data with a 128-bit key; the functions that are taken for it agree."""
    from cryptography.hazmat.primitives.keywrap import aes_key_wrap

    wrapped = aes_key_wrap(bytes(range(16)), bytes.fromhex("00112233445566778899AABBCCDDEEFF"))
    assert wrapped.hex().upper() == "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5"
