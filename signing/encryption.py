# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces: who can read a trace's body, and reading it.

Encrypted is the body: actions, image (weights, shaders) and notes. The head stays as it is: manifest and slots are
what one must know to call a trace, and the chunk hashes are of what lies in the file, so a device checks them
before it decrypts anything. The key that the body's key is wrapped with is derived from all of the head that
precedes the message: nobody can put a body that he cannot read under another head. ADR 0062 says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from signing.cose_encrypt import COUNTER_BYTES, COUNTER_ZEROS, Encryption, Recipient, key_context, size_of
from signing.curves import SCALAR_BYTES
from signing.errors import EncryptionError, KeyFileError
from signing.keys import Algorithm, PublicKey
from trace_format import assembly, layout
from trace_format.codec import Buffer
from trace_format.errors import EncryptedError, listed
from trace_format.schema import HEADER_FLAG_ENCRYPTED, MAX_RECIPIENTS, SectionType
from trace_format.trace import Trace

KEY_BYTES = 16
PrivateKey = ec.EllipticCurvePrivateKey
Random = Callable[[int], bytes]
_KEYS: ContextVar[tuple[PrivateKey, ...]] = ContextVar("keys that traces are decrypted with", default=())


@contextlib.contextmanager
def reading_with(keys: Sequence[PrivateKey]) -> Iterator[None]:
    """Inside, `opened` and `parse` take these keys, too: whoever reads a trace need not know of them."""
    token = _KEYS.set((*_KEYS.get(), *keys))
    try:
        yield
    finally:
        _KEYS.reset(token)


def keys_at_hand() -> tuple[PrivateKey, ...]:
    """Keys of `reading_with`."""
    return _KEYS.get()


def key_for(kids: Sequence[bytes], keys: Sequence[PrivateKey]) -> tuple[bytes, PrivateKey] | None:
    """The first of these ids that one of the keys has, and that key."""
    by_kid = {PublicKey(key.public_key()).kid: key for key in keys}
    return next(((kid, by_kid[kid]) for kid in kids if kid in by_kid), None)


def key_bytes(key: PrivateKey) -> bytes:
    """A private key as a device has it: 32 bytes, the most significant first."""
    return key.private_numbers().private_value.to_bytes(SCALAR_BYTES, "big")


def encrypt(trace: Buffer, keys: Sequence[PublicKey], *, random: Random = secrets.token_bytes) -> bytes:
    """A trace with its body encrypted.

    Args:
        trace: a trace's bytes, neither signed nor encrypted.
        keys: whoever has one of the private keys can read it: at most 16 on P-256.
        random: so many random bytes; tests give others.

    Raises:
        TraceError: the trace is malformed, or encrypted already.
        KeyFileError: a key of another kind, one twice, none, or too many.
    """
    by_kid = {key.kid: _point_of(key) for key in keys}
    if len(by_kid) != len(keys) or not 0 < len(keys) <= MAX_RECIPIENTS:
        raise KeyFileError("recipients", expected=f"1 to {MAX_RECIPIENTS} different keys", found=len(keys))
    trace = bytes(trace)
    Trace.parse(trace)
    header, parts = layout.disassemble(trace)
    key, counter = random(KEY_BYTES), random(COUNTER_BYTES - COUNTER_ZEROS) + bytes(COUNTER_ZEROS)
    body = _in_counter_mode(key, counter, trace[header["head_bytes"] :])
    hashes = assembly.chunk_hashes([body], header["chunk_bytes"])
    in_head = len(layout.head_sections(header))
    message = layout.Part(SectionType.ENCRYPTION, bytes(size_of(len(keys))))
    head = _with_hashes(parts[:in_head], hashes)
    flags = header["flags"] | HEADER_FLAG_ENCRYPTED
    # The message is the last of the head, so all that precedes it is known before it is.
    found = assembly.head_of([*head, message], parts[in_head:], header["chunk_bytes"], flags)
    binding = _binding(found, layout.sections(assembly.with_zeros(found), layout.read_header(found)))
    rows = tuple(_wrapped(key, kid, point, binding) for kid, point in sorted(by_kid.items()))
    message = layout.Part(SectionType.ENCRYPTION, Encryption(counter, rows).encode())
    return assembly.head_of([*head, message], parts[in_head:], header["chunk_bytes"], flags) + body


def recipients(trace: Buffer) -> tuple[bytes, ...]:
    """Ids of the keys that an encrypted trace says it is for; empty: it is not encrypted. TraceError."""
    header, parts = layout.disassemble(trace)
    return tuple(row.kid for row in _message(parts).recipients) if layout.is_encrypted(header) else ()


def proven(trace: Buffer, encrypted_for: Sequence[PublicKey]) -> tuple[bytes, ...]:
    """Those of its recipients' ids that are no mere claims of who encrypted it.

    Args:
        trace: that was encrypted here, or was opened with the keys at hand.
        encrypted_for: the keys that it was encrypted for here; empty: somebody else did it.
    """
    kids = recipients(trace)
    opened_by = key_for(kids, keys_at_hand())
    known = [key.kid for key in encrypted_for] or ([opened_by[0]] if opened_by else [])
    return tuple(kid for kid in kids if kid in known)


def decrypt(trace: Buffer, keys: Sequence[PrivateKey]) -> bytes:
    """The trace that `encrypt` was given.

    Raises:
        TraceError: it is malformed or damaged.
        EncryptedError: it is for none of these keys.
    """
    header, parts = layout.disassemble(trace)
    if not layout.is_encrypted(header):
        return bytes(trace)
    parts.check_chunks(trace, header)
    message = _message(parts)
    key = _unwrapped(message, _binding(trace, parts), keys, parts.one(SectionType.ENCRYPTION).offset)
    body = _in_counter_mode(key, message.counter, trace[header["head_bytes"] :])
    in_head = len(layout.head_sections(header))
    head = _with_hashes(parts[: in_head - 1], assembly.chunk_hashes([body], header["chunk_bytes"]))
    flags = header["flags"] & ~HEADER_FLAG_ENCRYPTED
    return assembly.head_of(head, parts[in_head:], header["chunk_bytes"], flags) + body


def opened(trace: Buffer, file: str = "") -> Buffer:
    """A trace that can be read: itself, or decrypted with the keys at hand; EncryptedError: with none of them."""
    with layout.naming(file):
        is_encrypted = layout.is_encrypted(layout.read_header(trace))
        return decrypt(trace, keys_at_hand()) if is_encrypted else trace


def parse(trace: Buffer, file: str = "") -> Trace:
    """As `Trace.parse`, also of an encrypted trace, if a key for it is at hand.

    Offsets in what is wrong with its content count in the decrypted trace.
    """
    return Trace.parse(opened(trace, file), file)


def _with_hashes(head: Sequence[layout.Part], hashes: bytes) -> list[layout.Part]:
    """Sections of a head, of another body."""
    chunks = layout.Part(SectionType.CHUNKS, hashes)
    return [chunks if part.type == SectionType.CHUNKS else part for part in head]


def _point_of(key: PublicKey) -> ec.EllipticCurvePublicKey:
    if not isinstance(key.key, ec.EllipticCurvePublicKey) or key.algorithm is not Algorithm.ES256:
        raise KeyFileError(
            "key of a recipient", expected="one on P-256", found=f"an {key.algorithm.title} key {key.kid.hex()}"
        )
    return key.key


def _message(parts: layout.Parts) -> Encryption:
    part = parts.one(SectionType.ENCRYPTION)
    try:
        return Encryption.decode(bytes(part.stored))
    except EncryptionError as error:
        error.offset = part.offset + (error.offset or 0)
        raise


def _binding(trace: Buffer, parts: layout.Parts) -> bytes:
    """SHA-256 of all that precedes the message."""
    return hashlib.sha256(trace[: parts.one(SectionType.ENCRYPTION).offset]).digest()


def _wrapping_key(private: PrivateKey, public: ec.EllipticCurvePublicKey, binding: bytes) -> bytes:
    shared = private.exchange(ec.ECDH(), public)
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=key_context(binding)).derive(shared)


def _wrapped(key: bytes, kid: bytes, point: ec.EllipticCurvePublicKey, binding: bytes) -> Recipient:
    ephemeral = ec.generate_private_key(ec.SECP256R1())
    wrapped = aes_key_wrap(_wrapping_key(ephemeral, point, binding), key)
    return Recipient(kid, PublicKey(ephemeral.public_key()).raw, wrapped)


def _unwrapped(message: Encryption, binding: bytes, keys: Sequence[PrivateKey], offset: int) -> bytes:
    rows = {row.kid: row for row in message.recipients}
    chosen = key_for(list(rows), keys)
    if chosen is None:
        ours = [PublicKey(key.public_key()).kid.hex() for key in keys]
        raise EncryptedError(
            "the body is encrypted (--decrypt-with takes a key)",
            offset=offset,
            expected=f"the private key of {listed(kid.hex() for kid in rows)}",
            found=listed(dict.fromkeys(ours)) if ours else "none",
        )
    kid, key = chosen
    try:
        ephemeral = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), rows[kid].ephemeral)
        return aes_key_unwrap(_wrapping_key(key, ephemeral, binding), rows[kid].wrapped)
    except (InvalidUnwrap, ValueError):
        raise EncryptedError(
            f"the key of the body, wrapped for {kid.hex()}, is not one for this head", offset=offset
        ) from None


def _in_counter_mode(key: bytes, counter: bytes, data: Buffer) -> bytes:
    context = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    return context.update(data) + context.finalize()
