# SPDX-License-Identifier: BSD-2-Clause
"""The replay log under faults: what the board keeps, what is asked of it, and what a verifier makes of the answer.

The device has been up once before: its log goes on.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.runners import mailbox
from host_tools.runners.mailbox import Extra
from host_tools.runners.replay import RunnerError
from signing.attestation import Attestation, Expected, check_attestation, read_attestation
from signing.curves import P256_ORDER
from signing.errors import EnvelopeError
from signing.log_checks import check_log
from signing.replay_log import ENTRY_BYTES, TAIL_BYTES, Entry, read_log, read_tail
from tee_replayer.generator.evidence import Evidence
from tests.support.log_samples import KEYS, PRIVATE, SECRET, LoggingDevice
from trace_format import packing
from trace_format.schema.log import LOG_MAGIC, LogKind
from trace_format.schema.mailbox import (
    MAILBOX_ATTESTATION,
    MAILBOX_ATTESTATION_BYTES,
    MAILBOX_LOG,
    MAILBOX_NONCE,
)
from trace_format.schema.report import Status

NONCE = bytes(range(16))
ENTRIES = 3  # of a boot, a load, a replay
SIZE_BYTES = packing.size_of("mailbox_message")
LOG_BYTES = SIZE_BYTES + ENTRIES * ENTRY_BYTES
HALF = 32  # bytes of one of a signature's two numbers


def extras(of: Evidence) -> tuple[Extra, ...]:
    """Room for the log and an attestation in the mailbox, where a firmware has them."""
    log = (Extra(MAILBOX_LOG, bytes(LOG_BYTES)),)
    nonce = Extra(MAILBOX_NONCE, NONCE), Extra(MAILBOX_ATTESTATION, bytes(MAILBOX_ATTESTATION_BYTES))
    return (log if of.log else ()) + (nonce if of.attestation else ())


@functools.cache
def _earlier() -> LoggingDevice:
    device = LoggingDevice()
    device.session()
    return device


def describe(buffers: Sequence[tuple[int, int]], folder: Path) -> list[tuple[str, int, int, object]]:
    """Rows of a machine's description: answers, what the board keeps, what is secret.

    Args:
        buffers: offset and size of the extras in the mailbox.
        folder: for files.
    """
    tail = _earlier().tail
    kept = (
        SECRET,
        packing.pack("log_tail", {"entries": tail.entries, "boots": tail.boots, "hash": tail.hash}),
        tail.boots.to_bytes(8, "little"),
    )
    log, *asked = buffers
    rows: list[tuple[str, int, int, object]] = [("answer", *log, "")]
    rows += [("answer", *attestation, "") for attestation in asked[1:]]  # behind the nonce
    for name, files in (("kept", kept), ("secret", (SECRET, KEYS.log, PRIVATE.to_bytes(HALF, "big")))):
        for index, data in enumerate(files):
            (folder / f"{name}{index}").write_bytes(data)
            rows.append((name, index, len(data), folder / f"{name}{index}"))
    return rows


@dataclass(frozen=True)
class Verdict:
    """Of what a device has answered.

    Attributes:
        claimed: a good entry or attestation says that a trace was loaded or replayed, which the run without a
            fault does not say, and nothing notices.
        spoilt: a verifier of the log finds something wrong with it.
        revealed: the attestations' key can be computed from the attestation, and one of a run without a fault.
    """

    claimed: bool
    spoilt: bool
    revealed: bool


def judge(answer: bytes, unspoilt: bytes) -> Verdict:
    """Judge what a device answered to a trace that it must refuse.

    Args:
        answer: log, attestation, and what the board keeps then, one after the other.
        unspoilt: the same of the run without a fault.
    """
    entries = b"".join(_entries(answer))
    kept = read_tail(answer[-TAIL_BYTES - 8 : -8])
    log = check_log(read_log(_earlier().data + entries), key=KEYS.log, tail=kept)
    spoilt = bool(log.findings) or len(entries) != len(b"".join(_entries(unspoilt)))
    good, other = _attestation(unspoilt), _attestation(answer)
    return Verdict(
        bool(_claims(answer, other) - _claims(unspoilt, good)),
        spoilt,
        good is not None and other is not None and recovered(good, other) is not None,
    )


def _entries(answer: bytes) -> list[bytes]:
    """Those that are there by the size before them."""
    size = int.from_bytes(answer[:SIZE_BYTES], "little")
    count = min(size // ENTRY_BYTES, ENTRIES)
    return [answer[SIZE_BYTES + i * ENTRY_BYTES :][:ENTRY_BYTES] for i in range(count)]


def _claims(answer: bytes, attestation: Attestation | None) -> set[str]:
    """What the device said that it has done well: load, replay, attest."""
    # An entry that was written to its place counts, whatever the size before them says.
    every = [answer[at : at + ENTRY_BYTES] for at in range(SIZE_BYTES, LOG_BYTES, ENTRY_BYTES)]
    said = [entry for raw in every if raw.startswith(LOG_MAGIC) for entry in read_log(raw)]
    claims = {str(entry.kind) for entry in said if _is_good(entry)}
    return claims | {"attestation"} if attestation and _attests(attestation) else claims


def _is_good(entry: Entry) -> bool:
    """Whether the device said that a trace was loaded or replayed, and that this went well."""
    return (
        entry.is_of(KEYS.log)
        and entry.kind in (LogKind.LOAD, LogKind.REPLAY)
        and entry.values["status"] == Status.OK
    )


def _attestation(answer: bytes) -> Attestation | None:
    """The attestation, if there is one that can be read."""
    try:
        return read_attestation(mailbox.message(memoryview(answer), LOG_BYTES, MAILBOX_ATTESTATION_BYTES))
    except (EnvelopeError, RunnerError):
        return None


def _attests(found: Attestation) -> bool:
    """Whether the device has signed that a trace was replayed."""
    return not list(check_attestation(found, KEYS.public, Expected(NONCE)))


def recovered(good: Attestation, other: Attestation) -> int | None:
    """The private key, from two signatures of one message: their secret numbers were the same, or one bit apart.

    With s = (e + r d) / k and s' = (e + r' d) / k' modulo the order, a known k' - k leaves one unknown, d; the
    device gives the lower of s and -s.
    """
    if good.tbs != other.tbs or good.signature == other.signature:
        return None
    e = int.from_bytes(hashlib.sha256(good.tbs).digest(), "big")
    (r, s), (r2, s2) = (
        (int.from_bytes(a.signature[:HALF], "big"), int.from_bytes(a.signature[HALF:], "big"))
        for a in (good, other)
    )
    if not s % P256_ORDER or not s2 % P256_ORDER:
        return None
    inverse, inverse2 = pow(s, -1, P256_ORDER), pow(s2, -1, P256_ORDER)
    for sign in (1, -1):
        slope = (sign * r2 * inverse2 - r * inverse) % P256_ORDER
        if not slope:
            continue
        per_slope = pow(slope, -1, P256_ORDER)
        start = e * (sign * inverse2 - inverse)
        for apart in (0, *(side << bit for bit in range(P256_ORDER.bit_length()) for side in (1, -1))):
            key = (apart - start) * per_slope % P256_ORDER
            if key == PRIVATE:
                return key
    return None
