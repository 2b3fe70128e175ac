# SPDX-License-Identifier: BSD-2-Clause
"""Logs in an object store: what is found out is what a folder gives; faults of one object are one device's."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.extras.fleet import places
from host_tools.extras.fleet.places import Bucket, File, StoreError, place_of
from host_tools.support import object_stores
from tests.support.attestation_samples import NONCE, attest, claims_of
from tests.support.buckets import Buckets, bucket_store
from tests.support.fleet_samples import Fleet, fleet_in
from tests.support.log_samples import TRACES
from trace_format.errors import LimitError, TruncatedError

__all__ = ["bucket_store"]
URL = "s3://bucket/collected logs"
CHANGED = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)
FaultOf = Callable[[str, str], str]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "RETRY", {"max_retries": 2, "retry_timeout": timedelta(seconds=20)})


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path) -> Fleet:
    """Three devices, of which one has copies, one a gap and one only an attestation that proves its log."""
    fleet = fleet_in(tmp_path)
    for name in ("a", "b", "c"):
        device = fleet.enrol(name, log_key=name != "c")
        device.session(replays=3)
        device.refuse()
        device.session(replays=2)
        cut = 5 if name == "b" else 4
        fleet.collect(f"{name}/boot-9.log", device.entries[:4])
        fleet.collect(f"{name}/boot-10.log", device.entries[cut:])
        if name == "a":
            fleet.collect("2026-11-26T23:00/a.log", device.entries[:6])
        if name == "c":
            fleet.collect("c/report.cbor", [attest(claims_of(device, TRACES[1]), device.keys)])
            (fleet.enrolled / name / "nonce").write_text(NONCE.hex())
    fleet.collect("nobody.log", device.entries[:1])
    return fleet


def uploaded(fleet: Fleet, store: Buckets) -> None:
    for path in fleet.logs.rglob("*"):
        if path.is_file():
            name = f"bucket/collected logs/{path.relative_to(fleet.logs)}"
            store.put(name, path.read_bytes())
            store.changed[name] = CHANGED
            os.utime(path, (CHANGED.timestamp(), CHANGED.timestamp()))


def run(fleet: Fleet, logs: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["fleet", logs, "--devices", str(fleet.enrolled), *words])


def told(fleet: Fleet, logs: str) -> dict[str, Any]:
    done = run(fleet, logs, "--json")
    assert done.exit_code in (0, 1), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def findings(said: dict[str, Any]) -> dict[str, list[str]]:
    return {one["device"]: [row["text"] for row in one["findings"]] for one in said["devices"]}


@pytest.mark.parametrize("page", [2, 1000])
def test_an_object_store_gives_what_a_folder_gives(fleet: Fleet, store: Buckets, page: int) -> None:
    uploaded(fleet, store)
    store.page = page
    here, there = run(fleet, str(fleet.logs), "--json"), run(fleet, URL, "--json")
    assert here.exit_code == there.exit_code == 1
    assert there.stdout == here.stdout.replace(str(fleet.logs), URL)
    assert there.stderr == here.stderr.replace(str(fleet.logs), URL)
    assert "gap" in there.stdout
    assert "duplicate" in there.stdout
    assert '"has_end": true' in there.stdout


def test_objects_are_asked_for_once(fleet: Fleet, store: Buckets) -> None:
    uploaded(fleet, store)
    told(fleet, URL)
    files = len(store.objects) - 1  # nobody's is not read
    assert store.asked["GET"] == files + 1  # and the list


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda store, name: setattr(store, "fault", denies(name)), "AccessDenied: Access Denied"),
        (lambda store, name: setattr(store, "fault", removes(store, name)), "No such object"),
        (lambda store, name: setattr(store, "fault", shortens(store, name)), "expected "),
        (lambda store, name: store.put(f"{name}//x.log", b""), "contained empty path segment"),
        (lambda store, name: store.put(f"{name}/../x.log", b""), "illegal character sequence"),
        (lambda store, name: store.put(name, b"other" * 100), "not a replay log"),
    ],
    ids=["denied", "gone", "shorter", "empty", "dots", "other"],
)
def test_one_object_is_its_devices_problem(
    damage: Callable[[Buckets, str], object], text: str, fleet: Fleet, store: Buckets
) -> None:
    uploaded(fleet, store)
    before = findings(told(fleet, URL))
    damage(store, "bucket/collected logs/a/boot-9.log")
    after = findings(told(fleet, URL))
    assert any(text in found for found in after["a"]), after["a"]
    assert {name: after[name] for name in "bc"} == {name: before[name] for name in "bc"}


def denies(wanted: str) -> FaultOf:
    return lambda method, name: "403" if name == wanted else ""


def removes(store: Buckets, wanted: str) -> FaultOf:
    """After it was listed."""

    def fault(method: str, name: str) -> str:
        if name != "bucket":
            store.objects.pop(wanted, None)
        return ""

    return fault


def shortens(store: Buckets, wanted: str) -> FaultOf:
    """After it was listed."""

    def fault(method: str, name: str) -> str:
        if name == wanted:
            store.objects[wanted] = b""
        return ""

    return fault


@pytest.mark.parametrize(
    ("url", "variables", "error"),
    [
        ("s3://other/x", {}, "NoSuchBucket: The specified bucket does not exist"),
        (URL, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch: "),
        (URL, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "error sending request"),
        ("s3://", {}, "Unable to recognise URL"),
        ("az://container", {}, "Account must be specified"),
        ("ftp://there", {}, "expected a folder, or one of s3://, "),
        ("file:///there", {}, "expected a folder, or one of s3://, "),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(
    url: str,
    variables: dict[str, str],
    error: str,
    fleet: Fleet,
    store: Buckets,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run(fleet, url)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith(f"error: {url}: ")
    assert error in done.stderr


def test_a_store_that_stops_to_answer_is_no_devices_problem(fleet: Fleet, store: Buckets, tmp_path: Path) -> None:
    uploaded(fleet, store)
    store.fault = lambda method, name: "503" if name != "bucket" else ""
    done = run(fleet, URL, "-o", str(tmp_path / "rows.parquet"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert "SlowDown: Reduce your request rate" in done.stderr
    assert not (tmp_path / "rows.parquet").exists()


def test_without_the_package(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    monkeypatch.setitem(sys.modules, "obstore", None)
    done = run(fleet, URL)
    assert done.stderr == "error: obstore is missing: pip install 'gramophone[fleet]'\n"
    assert told(fleet, str(fleet.logs))["devices"], "a folder needs none"


def test_any_bytes_of_an_object_with_little_memory(store: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "BLOCK", 1000)
    monkeypatch.setattr(places, "HELD", 5000)
    chance = random.Random(1)
    data = {name: chance.randbytes(size) for name, size in (("x.log", 12_345), ("y.log", 1000), ("z.log", 0))}
    for name, content in data.items():
        store.put(f"bucket/{name}", content)
    bucket = place_of("s3://bucket")
    assert isinstance(bucket, Bucket)
    files = {str(file.path): file for file in bucket.files((".log",))}
    assert {name: file.size for name, file in files.items()} == {name: len(text) for name, text in data.items()}
    bucket.ahead(files.values())
    for _ in range(500):
        name = chance.choice(list(data))
        first = chance.randint(0, len(data[name]))
        size = chance.choice((0, 1, 8, 999, 1000, 3000, len(data[name])))
        if first + size <= len(data[name]):
            assert bucket.read(files[name], first, size) == data[name][first : first + size]
        else:
            with pytest.raises(TruncatedError, match=f"expected {size} bytes"):
                bucket.read(files[name], first, size)
        assert sum(map(len, bucket._held.values())) == bucket._size <= 5000
    with pytest.raises(LimitError):
        bucket.whole(File(PurePosixPath("x.log"), 1 << 40, 0))
    store.objects.clear()
    with pytest.raises(FileNotFoundError, match="No such object"):
        bucket.read(File(PurePosixPath("other.log"), 8, 0), 0, 8)
    store.fault = lambda method, name: "503"
    with pytest.raises(StoreError, match=r"^s3://bucket/another\.log: "):
        bucket.read(File(PurePosixPath("another.log"), 8, 0), 0, 8)
