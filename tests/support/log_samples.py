# SPDX-License-Identifier: BSD-2-Clause
"""A device in Python that keeps a replay log, and logs of it for tests."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from signing.device_keys import DeviceKeys, derive
from signing.replay_log import Tail
from trace_format import packing
from trace_format.schema.log import LogKind
from trace_format.schema.report import Status

SECRET = hashlib.sha256(b"a device").digest()
KEYS = derive(SECRET)
_KEY = KEYS.attestation.key
assert isinstance(_KEY, EllipticCurvePrivateKey)
PRIVATE = _KEY.private_numbers().private_value  # of the attestations' key
FIRMWARE = hashlib.sha256(b"a firmware").digest()
TRACES = tuple(hashlib.sha256(b"trace %d" % number).digest() for number in range(3))
NONE = bytes(32)


@dataclass
class LoggingDevice:
    """A device that keeps a log; an independent writer, for what `signing` reads.

    Attributes:
        keys: of the device.
        entries: of the log, in their order.
        boots: how often it has started.
    """

    keys: DeviceKeys = field(default_factory=lambda: KEYS)
    entries: list[bytes] = field(default_factory=list)
    boots: int = 0

    def write(self, kind: LogKind, subject: bytes = NONE, status: Status = Status.OK, **values: object) -> bytes:
        """Append an entry."""
        names = ("phase", "action", "op", "offset", "expected", "seen", "retries", "security_version")
        fields: dict[str, object] = {
            **dict.fromkeys(names, 0),
            "sequence": len(self.entries),
            "boot": self.boots,
            "kind": int(kind),
            "status": int(status),
            "previous": hashlib.sha256(self.entries[-1]).digest() if self.entries else NONE,
            "subject": subject,
            "trace_id": subject[:16] if kind is not LogKind.BOOT else bytes(16),
            "inputs": NONE,
            "outputs": NONE,
            "mac": NONE,
            **values,
        }
        return self.append(packing.pack("log_entry", fields))

    def append(self, entry: bytes) -> bytes:
        """Give an entry its MAC, and append it."""
        entry = entry[:-32] + hmac.new(self.keys.log, entry[:-32], hashlib.sha256).digest()
        self.entries.append(entry)
        return entry

    def start(self) -> None:
        """Boot."""
        self.boots += 1
        self.write(LogKind.BOOT, FIRMWARE)

    def session(self, subject: bytes = TRACES[0], replays: int = 2) -> None:
        """Boot, load, replay."""
        self.start()
        self.write(LogKind.LOAD, subject)
        for number in range(replays):
            self.write(LogKind.REPLAY, subject, phase=3, retries=number)

    def refuse(self, status: Status = Status.SIGNATURE) -> None:
        """Boot, and refuse a trace."""
        self.start()
        self.write(LogKind.REFUSAL, status=status, phase=1)

    def restored(self, entries: int, boots: int | None = None) -> LoggingDevice:
        """The same device, its state put back to `entries` entries."""
        kept = self.entries[:entries]
        boot = packing.Row("log_entry").unpack(kept[-1]).boot if boots is None else boots
        return LoggingDevice(self.keys, list(kept), boot)

    @property
    def data(self) -> bytes:
        """The log."""
        return b"".join(self.entries)

    @property
    def tail(self) -> Tail:
        """What it keeps."""
        last = hashlib.sha256(self.entries[-1]).digest() if self.entries else NONE
        return Tail(len(self.entries), self.boots, last)


def sample() -> LoggingDevice:
    """A device with a log of 12 entries: three boots with replays of two traces, one with a refusal."""
    device = LoggingDevice()
    device.session(TRACES[0])
    device.refuse()
    device.session(TRACES[1], replays=1)
    device.session(TRACES[0], replays=1)
    return device
