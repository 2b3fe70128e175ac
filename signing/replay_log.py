# SPDX-License-Identifier: BSD-2-Clause
"""The replay log as it is read: entries, and where it ends. `log_checks.py` judges it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_format import layout, packing
from trace_format.errors import MagicError, TruncatedError
from trace_format.schema import HASH_BYTES
from trace_format.schema.log import LOG_MAGIC, LogKind

ENTRY_BYTES = packing.size_of("log_entry")
TAIL_BYTES = packing.size_of("log_tail")
MAC_BYTES = 32
ZERO = bytes(HASH_BYTES)
_ROW = packing.Row("log_entry")


@dataclass(frozen=True)
class Entry:
    """One entry, as it lies in a log; nothing is verified.

    Attributes:
        position: its number in the file, from 0.
        raw: its bytes.
        values: the fields of the schema's `log_entry`, none of them checked.
    """

    position: int
    raw: bytes
    values: Mapping[str, Any]

    @property
    def sequence(self) -> int:
        """The number that the device gave it."""
        return int(self.values["sequence"])

    @property
    def boot(self) -> int:
        """In which boot it was written."""
        return int(self.values["boot"])

    @property
    def kind(self) -> LogKind | None:
        """What it is about; None: nothing that this version knows."""
        return next((kind for kind in LogKind if kind == self.values["kind"]), None)

    @property
    def hash(self) -> bytes:
        """SHA-256 of all its bytes: what the next entry holds."""
        return hashlib.sha256(self.raw).digest()

    @property
    def previous(self) -> bytes:
        """Hash of the entry before it."""
        return bytes(self.values["previous"])

    @property
    def subject(self) -> bytes:
        """Hash of the trace's head, or of the firmware; zeros: the device verified none."""
        return bytes(self.values["subject"])

    @property
    def trust_policy(self) -> bytes:
        """Of a load: SHA-256 of the trust policy under which the trace was accepted; b"": there was none."""
        found = bytes(self.values["inputs"])
        return found if self.kind is LogKind.LOAD and found != ZERO else b""

    @property
    def trust_version(self) -> int:
        """Of a load: that policy's version; 0: there was none."""
        return int.from_bytes(self.values["outputs"][:4], "little") if self.trust_policy else 0

    def is_of(self, key: bytes) -> bool:
        """Whether it is an entry that a device with this log key wrote."""
        return self.values["magic"] == LOG_MAGIC and hmac.compare_digest(
            mac(self.raw[:-MAC_BYTES], key), self.raw[-MAC_BYTES:]
        )


@dataclass(frozen=True)
class Tail:
    """Where a log ended.

    Attributes:
        entries: how many there were.
        boots: how many of its boots.
        hash: of the last entry; zeros when there was none.
        is_final: the device has written nothing since: it is what its board keeps. Otherwise it is attested, and
            the log may have gone on.
    """

    entries: int
    boots: int
    hash: bytes
    is_final: bool = True


def mac(data: bytes, key: bytes) -> bytes:
    """The MAC of an entry: HMAC-SHA-256 (RFC 2104) of all bytes before it."""
    return hmac.digest(key, data, "sha256")


def read_log(data: bytes, *, file: str = "") -> list[Entry]:
    """Take a log apart. An entry may say anything: `log_checks` finds out which are the device's.

    Raises:
        MagicError: this is no log: neither the first nor the second entry begins as one.
        TruncatedError: the last entry is not whole.
    """
    entries = []
    if data[: len(LOG_MAGIC)] != LOG_MAGIC and data[ENTRY_BYTES : ENTRY_BYTES + len(LOG_MAGIC)] != LOG_MAGIC:
        raise MagicError("not a replay log", offset=0, expected=LOG_MAGIC.hex(), found=data[:8].hex(), file=file)
    for position, at in enumerate(range(0, len(data), ENTRY_BYTES)):
        raw = data[at : at + ENTRY_BYTES]
        if len(raw) < ENTRY_BYTES:
            raise TruncatedError(
                "the last entry is not whole",
                offset=at,
                expected=f"{ENTRY_BYTES} bytes",
                found=len(raw),
                file=file,
            )
        entries.append(Entry(position, raw, _ROW.unpack(raw)._asdict()))
    return entries


def read_tail(data: bytes, *, file: str = "") -> Tail:
    """What a device keeps of its log; TruncatedError when it is of another size."""
    if len(data) != TAIL_BYTES:
        raise TruncatedError(
            "a log's tail",
            offset=min(len(data), TAIL_BYTES),
            expected=f"{TAIL_BYTES} bytes",
            found=len(data),
            file=file,
        )
    return Tail(**packing.unpack("log_tail", data))


def head_hash(trace: bytes) -> bytes:
    """The `subject` of entries about a trace (without envelope): SHA-256 of its head, which hashes the rest."""
    return hashlib.sha256(trace[: layout.read_header(trace)["head_bytes"]]).digest()
