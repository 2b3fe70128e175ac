# SPDX-License-Identifier: BSD-2-Clause
"""Fleets: folders of enrolled devices and of what was collected of them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from signing.device_keys import DeviceKeys, derive
from tests.support.log_samples import FIRMWARE, NONE, TRACES, LoggingDevice
from trace_format import packing
from trace_format.schema.log import LOG_MAGIC, LogKind
from trace_format.schema.report import Status

PER_BOOT = 200  # entries of a boot of a long log


@dataclass
class Fleet:
    """Its two folders."""

    logs: Path
    enrolled: Path

    def enrol(self, name: str, *, log_key: bool = True) -> LoggingDevice:
        """A new device, which has logged nothing; its folder has its keys."""
        device = LoggingDevice(keys_of(name))
        folder = self.enrolled / name
        folder.mkdir(parents=True)
        if log_key:
            (folder / "log.key").write_bytes(device.keys.log)
        (folder / "device.pub.pem").write_bytes(device.keys.public.pem())
        return device

    def collect(self, file: str, entries: list[bytes]) -> Path:
        """A file with entries."""
        path = self.logs / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(entries))
        return path


def fleet_in(folder: Path, logs: str = "logs") -> Fleet:
    """One without devices."""
    fleet = Fleet(folder / logs, folder / "enrolled")
    fleet.logs.mkdir()
    fleet.enrolled.mkdir()
    return fleet


def keys_of(name: str) -> DeviceKeys:
    """Keys of a device, by its name."""
    return derive(hashlib.sha256(name.encode()).digest())


def long_log(key: bytes, count: int) -> Iterator[bytes]:
    """Entries of a device that does nothing but replay, faster than `LoggingDevice` and without keeping them."""
    row = packing.Row("log_entry")
    fields = ("phase", "action", "op", "offset", "expected", "seen", "retries", "security_version")
    values = {**dict.fromkeys(fields, 0), "status": int(Status.OK), "inputs": NONE, "outputs": NONE, "mac": NONE}
    previous, trace = NONE, TRACES[0]
    for number in range(count):
        kinds = (LogKind.BOOT, LogKind.LOAD)
        at = number % PER_BOOT
        kind = kinds[at] if at < len(kinds) else LogKind.REPLAY
        data = row.pack(
            **values,
            sequence=number,
            boot=number // PER_BOOT + 1,
            kind=int(kind),
            previous=previous,
            subject=FIRMWARE if kind is LogKind.BOOT else trace,
            trace_id=bytes(16) if kind is LogKind.BOOT else trace[:16],
        )
        assert data.startswith(LOG_MAGIC)
        entry = data[:-32] + hmac.digest(key, data[:-32], "sha256")
        previous = hashlib.sha256(entry).digest()
        yield entry


def write_long(fleet: Fleet, devices: int, entries: int) -> None:
    """Enrol devices that have logged so many entries each."""
    for number in range(devices):
        name = f"device-{number}"
        device = fleet.enrol(name)
        with (fleet.logs / f"{name}.log").open("wb") as file:
            file.writelines(long_log(device.keys.log, entries))
