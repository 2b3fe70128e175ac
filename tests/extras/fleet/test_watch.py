# SPDX-License-Identifier: BSD-2-Clause
"""What is found out of each device, and that nothing wrong with one hides another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host_tools.commands.verify_report import status_name
from host_tools.extras.fleet import answers
from host_tools.extras.fleet.places import Folder
from host_tools.extras.fleet.rows import Rows
from host_tools.extras.fleet.watch import Device, watch
from tests.support.attestation_samples import NONCE, attest, claims_of
from tests.support.fleet_samples import Fleet, fleet_in, keys_of
from tests.support.log_samples import TRACES, LoggingDevice
from trace_format.errors import GramophoneError
from trace_format.packing import pack
from trace_format.schema.log import LogKind
from trace_format.schema.report import Status


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path) -> Fleet:
    return fleet_in(tmp_path)


def watched(fleet: Fleet) -> tuple[dict[str, Device], dict[str, dict[str, object]]]:
    with Rows({}, status_name) as rows:
        devices, _ = watch(Folder(fleet.logs), fleet.enrolled, rows)
        return {device.name: device for device in devices}, answers.devices(rows)


def faults(device: Device) -> list[str]:
    return [problem.fault for problem in device.problems]


def good(fleet: Fleet, name: str, *, log_key: bool = True) -> LoggingDevice:
    device = fleet.enrol(name, log_key=log_key)
    device.session(replays=3)
    device.refuse()
    device.session(TRACES[1], replays=1)
    fleet.collect(f"{name}/1.log", device.entries[:4])
    fleet.collect(f"{name}/2.log", device.entries[4:])
    return device


def attested(fleet: Fleet, name: str, device: LoggingDevice, **changes: Any) -> None:
    (fleet.logs / name / "report.cbor").write_bytes(attest(claims_of(device, TRACES[1], **changes), device.keys))
    (fleet.enrolled / name / "nonce").write_text(NONCE.hex() + "\n", encoding="ascii")


def test_a_log_is_counted(fleet: Fleet) -> None:
    device = good(fleet, "a")
    device.write(LogKind.LOAD, TRACES[0], security_version=7, inputs=b"p" * 32, outputs=b"\x02".ljust(32, b"\0"))
    device.write(LogKind.REPLAY, TRACES[0], Status.DIVERGED, phase=3)
    fleet.collect("a/3.log", device.entries[-2:])
    found, said = watched(fleet)
    assert found["a"] == Device("a", files=3)
    one = said["a"]
    assert (one["entries"], one["boots"], one["replays"]) == (len(device.entries), 3, 4)
    assert (one["failed"], one["refusals"]) == ({"DIVERGED": 1}, {"SIGNATURE": 1})
    assert (one["security_version"], one["trust_version"]) == (7, 2)


DAMAGE: dict[str, tuple[Callable[[Fleet], object], list[str], int]] = {
    "an entry is missing": (lambda f: cut(f, 0, 240), ["gap"], 9),
    "cut in an entry": (lambda f: cut(f, 0, 0, 100), ["damaged"], 9),
    "a bit": (lambda f: write(f, 300, b"\xff\xff"), ["altered"], 9),
    "noise": (lambda f: (f.logs / "bad/2.log").write_bytes(b"noise" * 100), ["damaged"], 4),
    "noise after": (lambda f: (f.logs / "bad/3.log").write_bytes(b"noise" * 100), ["damaged"], 10),
    "twice": (lambda f: f.collect("bad/3.log", read(f)), ["duplicate"], 10),
    "a pipe": (lambda f: os.mkfifo(f.logs / "bad/3.log"), ["damaged"], 10),
    "another's": (lambda f: f.collect("bad/1.log", other("x")), ["foreign"], 0),
    "empty": (lambda f: (f.logs / "bad/3.log").write_bytes(b""), [], 10),
    "a key that is short": (lambda f: (f.enrolled / "bad/log.key").write_bytes(b"short"), ["damaged"], 0),
}


def read(fleet: Fleet) -> list[bytes]:
    return [(fleet.logs / "bad/1.log").read_bytes(), (fleet.logs / "bad/2.log").read_bytes()]


def other(name: str) -> list[bytes]:
    device = LoggingDevice(keys_of(name))
    device.session(replays=2)
    return device.entries


def cut(fleet: Fleet, low: int, high: int, end: int = 0) -> None:
    path = fleet.logs / "bad/2.log"
    data = path.read_bytes()
    path.write_bytes((data[:low] + data[high:])[: len(data) - end])


def write(fleet: Fleet, at: int, data: bytes) -> None:
    with (fleet.logs / "bad/2.log").open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_of_one_device_never_stops_the_others(what: str, fleet: Fleet) -> None:
    before, after = good(fleet, "a"), good(fleet, "c")
    good(fleet, "bad")
    damage, wanted, proven = DAMAGE[what]
    damage(fleet)
    if what == "another's":
        (fleet.logs / "bad/2.log").unlink()
    found, said = watched(fleet)
    assert faults(found["bad"]) == wanted
    assert said.get("bad", {"entries": 0})["entries"] == proven
    for name, device in (("a", before), ("c", after)):
        assert faults(found[name]) == []
        assert said[name]["entries"] == len(device.entries)


def test_an_attestation_says_where_the_log_ends(fleet: Fleet) -> None:
    device = good(fleet, "a")
    attested(fleet, "a", device)
    found, _ = watched(fleet)
    assert (faults(found["a"]), found["a"].has_end) == ([], True)
    cut_log = fleet.collect("a/2.log", device.entries[4:-2])
    found, _ = watched(fleet)
    assert faults(found["a"]) == ["cut-tail"]
    cut_log.unlink()
    (fleet.logs / "a/1.log").unlink()
    found, _ = watched(fleet)
    assert faults(found["a"]) == ["cut-tail"]


def test_without_a_log_key_the_attestation_proves_entries(fleet: Fleet) -> None:
    device = good(fleet, "a", log_key=False)
    found, said = watched(fleet)
    assert (faults(found["a"]), said) == (["no-proof"], {})
    attested(fleet, "a", device)
    found, said = watched(fleet)
    assert (faults(found["a"]), said["a"]["entries"]) == ([], len(device.entries))
    device.session()  # goes on
    fleet.collect("a/3.log", device.entries[10:])
    found, said = watched(fleet)
    assert (faults(found["a"]), said["a"]["entries"]) == (["unproven"], 10)


@pytest.mark.parametrize("changes", [{"nonce": b"old nonce"}, {"ueid": b"\x01" + bytes(16)}])
def test_an_attestation_for_another_nonce_or_device_proves_nothing(
    changes: dict[str, bytes], fleet: Fleet
) -> None:
    device = good(fleet, "a", log_key=False)
    attested(fleet, "a", device, **changes)
    found, said = watched(fleet)
    assert faults(found["a"]) == ["other-nonce" if "nonce" in changes else "other-device"]
    assert said == {}


def test_keys_that_lie_beside_the_logs_count_for_nothing(fleet: Fleet) -> None:
    """Who fills that folder is not trusted."""
    good(fleet, "a")
    device = LoggingDevice(keys_of("attacker"))
    device.session()
    fleet.collect("a/1.log", device.entries)
    (fleet.logs / "a/2.log").unlink()
    (fleet.logs / "a/log.key").write_bytes(device.keys.log)
    found, said = watched(fleet)
    assert (faults(found["a"]), said) == (["foreign"], {})


def test_a_tail_of_the_device(fleet: Fleet) -> None:
    device = good(fleet, "a")
    tail = {"entries": device.tail.entries + 2, "boots": device.boots, "hash": bytes(32)}
    (fleet.enrolled / "a/device.tail").write_bytes(pack("log_tail", tail))
    found, _ = watched(fleet)
    assert faults(found["a"]) == ["cut-tail"]


def test_a_device_without_a_log_is_silent(fleet: Fleet) -> None:
    good(fleet, "a")
    fleet.enrol("b")
    found, said = watched(fleet)
    assert (found["b"], "b" in said) == (Device("b"), False)


def test_nobody_is_enrolled(fleet: Fleet) -> None:
    with Rows({}, status_name) as rows, pytest.raises(GramophoneError, match=r"expected folders with log\.key"):
        watch(Folder(fleet.logs), fleet.enrolled, rows)
