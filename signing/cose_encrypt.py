# SPDX-License-Identifier: BSD-2-Clause
"""COSE_Encrypt messages (RFC 9052, 5.1): who can read the body of an encrypted trace.

The body is encrypted by AES-128 in counter mode (RFC 9459, A128CTR), and its key wrapped for each recipient
(RFC 9053, 6.4.1: ECDH-ES + A128KW). As with COSE_Sign1 (envelope.py), each message has one encoding, and only that
one is read:

    d8 60 84                                tag 96, array of 4
       40                                   protected header, empty (RFC 9459, 5: nothing could protect it)
       a2 01 39 fffd 05 50 <16 bytes>       {1: -65534 (A128CTR), 5: initial counter}, of which the last 4 are zero
       f6                                   ciphertext, nil: it is the body of the trace
       81 to 90                             array of recipients, in ascending order of their key ids, each
          83                                   array of 3
             44 a1 01 38 1c                    protected header, {1: -29 (ECDH-ES + A128KW)}
             a2 04 50 <16 bytes>               {4: key id,
                20 a4 01 02 20 01               -1: {1: 2 (EC2), -1: 1 (P-256),
                   21 58 20 <32 bytes>           -2: x,
                   22 58 20 <32 bytes>           -3: y}}
             58 18 <24 bytes>                  the wrapped key (RFC 3394)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cbor2

from signing.cose import check_encoding
from signing.errors import EncryptionError
from signing.keys import KID_BYTES
from trace_format.schema import MAX_RECIPIENTS

COSE_ENCRYPT_TAG = 96  # RFC 9052, table 1
A128CTR, ECDH_ES_A128KW, A128KW = -65534, -29, -3  # RFC 9459, table 1; RFC 9053, tables 20 and 17
COUNTER_BYTES, WRAPPED_BYTES, COORDINATE_BYTES = 16, 24, 32
COUNTER_ZEROS = 4  # bytes that count blocks
_ALGORITHM, _KID, _IV, _EPHEMERAL = 1, 4, 5, -1
_POINT = 0x04  # not compressed (SEC 1, 2.3.3)


@dataclass(frozen=True)
class Recipient:
    """A key that the body's was wrapped for.

    Attributes:
        kid: its id, 16 bytes: a claim, which only unwrapping proves.
        ephemeral: 65 bytes, the sender's public key for this one message, 04 || x || y.
        wrapped: 24 bytes.
    """

    kid: bytes
    ephemeral: bytes
    wrapped: bytes

    def encode(self) -> list[Any]:
        """As in the message."""
        x, y = self.ephemeral[1 : 1 + COORDINATE_BYTES], self.ephemeral[1 + COORDINATE_BYTES :]
        return [PROTECTED, {_KID: self.kid, _EPHEMERAL: {1: 2, -1: 1, -2: x, -3: y}}, self.wrapped]

    @classmethod
    def decode(cls, row: Any) -> Recipient:
        """Of decoded CBOR; EncryptionError."""
        try:
            _, header, wrapped = row
            point = header[_EPHEMERAL]
            found = cls(bytes(header[_KID]), bytes([_POINT]) + point[-2] + point[-3], bytes(wrapped))
        except (TypeError, ValueError, KeyError):
            raise EncryptionError("a recipient", expected="one of ECDH-ES + A128KW", found=_short(row)) from None
        sizes = len(found.kid), len(found.ephemeral), len(found.wrapped)
        wanted = KID_BYTES, 1 + 2 * COORDINATE_BYTES, WRAPPED_BYTES
        if sizes != wanted:
            raise EncryptionError("key id, point and wrapped key of a recipient", expected=wanted, found=sizes)
        return found


@dataclass(frozen=True)
class Encryption:
    """A COSE_Encrypt message without its ciphertext.

    Attributes:
        counter: 16 bytes, of the body's first block.
        recipients: at least one.
    """

    counter: bytes
    recipients: tuple[Recipient, ...]

    def encode(self) -> bytes:
        """The message's bytes."""
        rows = [row.encode() for row in self.recipients]
        message = [b"", {_ALGORITHM: A128CTR, _IV: self.counter}, None, rows]
        return cbor2.dumps(cbor2.CBORTag(COSE_ENCRYPT_TAG, message), canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> Encryption:
        """Read a message.

        Raises:
            EncryptionError: it is not as `encode` writes it; the offset counts from the start of the bytes.
        """
        try:
            message = cbor2.loads(data)
            _, header, _, rows = message.value
            counter, count = bytes(header[_IV]), len(rows)
        except (cbor2.CBORDecodeError, RecursionError, AttributeError, TypeError, ValueError, KeyError):
            raise EncryptionError(
                "not a COSE_Encrypt message", offset=0, expected="one of A128CTR", found=data[:8].hex()
            ) from None
        if not 0 < count <= MAX_RECIPIENTS:
            raise EncryptionError("recipients", offset=0, expected=f"1 to {MAX_RECIPIENTS}", found=count)
        found = cls(counter, tuple(Recipient.decode(row) for row in rows))
        kids = [row.kid for row in found.recipients]
        if kids != sorted(set(kids)):
            raise EncryptionError("recipients", offset=0, expected="ascending key ids", found=_short(kids))
        if len(counter) != COUNTER_BYTES or any(counter[-COUNTER_ZEROS:]):
            raise EncryptionError(
                "initial counter",
                offset=0,
                expected=f"{COUNTER_BYTES} bytes, the last {COUNTER_ZEROS} zero",
                found=counter.hex(),
            )
        check_encoding(data, found.encode(), EncryptionError, "not the one encoding of a COSE_Encrypt message")
        return found


PROTECTED = cbor2.dumps({_ALGORITHM: ECDH_ES_A128KW}, canonical=True)  # header of each recipient


def key_context(binding: bytes) -> bytes:
    """What the key that wraps is derived with: COSE_KDF_Context of RFC 9053, 5.2.

    Args:
        binding: 32 bytes, what the key is for and for nothing else.
    """
    nobody: Sequence[None] = [None, None, None]
    return cbor2.dumps([A128KW, nobody, nobody, [128, PROTECTED, binding]], canonical=True)


def size_of(recipients: int) -> int:
    """Bytes of a message for so many."""
    row = Recipient(bytes(KID_BYTES), bytes(1 + 2 * COORDINATE_BYTES), bytes(WRAPPED_BYTES))
    return len(Encryption(bytes(COUNTER_BYTES), (row,) * recipients).encode())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
