# SPDX-License-Identifier: BSD-2-Clause
"""Packages as of a date: which dates there are, and a private apt that takes them from a snapshot on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.commands import record_options as recording_options
from host_tools.machine import apt, root, snapshot
from host_tools.machine.errors import RecordError
from host_tools.support.cache import cache_dir
from host_tools.support.results import fields
from tests.support import json_schemas
from tests.support.debian_archive import require_tools, served, signer, write
from tests.support.signing_samples import small_trace
from trace_format.trace import Trace

OLD, BETWEEN, NEW = "20251101T000000Z", "20251107T120000Z", "20251115T000000Z"
NEXT_WEEK = datetime.now(UTC) + timedelta(days=7)  # tests may run over midnight


@pytest.mark.parametrize(
    ("date", "stamp"),
    [
        ("2025-11-01", "20251101T000000Z"),
        ("2024-02-29", "20240229T000000Z"),
        ("2005-03-12", "20050312T000000Z"),
        ("20251107T123456Z", "20251107T123456Z"),
    ],
)
def test_dates(date: str, stamp: str) -> None:
    assert snapshot.timestamp(date) == stamp


@pytest.mark.parametrize(
    "date",
    ["", "yesterday", "2025-11", "2025-1-1", "01.11.2025", "2025-02-29", "2025-11-01T00:00:00", "20251101",
     "20251101T250000Z", "20251101T000000", " 2025-11-01", "2025-11-01\n", "２０２５-11-01", "../../etc"],
)  # fmt: skip
def test_what_is_no_date(date: str) -> None:
    with pytest.raises(
        RecordError, match="--snapshot: expected a date such as 2026-11-01 or 20261101T000000Z, found"
    ):
        snapshot.timestamp(date)


@pytest.mark.parametrize(
    "date",
    [
        pytest.param("2005-03-11", id="before the first"),
        pytest.param("0001-01-01", id="long before"),
        pytest.param(f"{NEXT_WEEK:%Y-%m-%d}", id="next week"),
        pytest.param(f"{NEXT_WEEK:%Y%m%dT%H%M%SZ}", id="in seven days"),
    ],
)
def test_dates_without_a_snapshot(date: str) -> None:
    with pytest.raises(RecordError, match=f"expected a date from 2005-03-12 on, in the past, found {date}"):
        snapshot.timestamp(date)


@pytest.mark.parametrize("command", ["ncnn lenet.param lenet.bin --shape data=1x28x28", "run"])
def test_a_bad_date_is_said_before_anything_is_done(command: str, tmp_path: Path) -> None:
    output = tmp_path / "raw.gtr"
    line = [
        *command.split(),
        "--snapshot",
        "yesterday",
        "-o",
        str(output),
        *(["true"] if command == "run" else []),
    ]
    done = CliRunner().invoke(main, ["record", *line])
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --snapshot: expected a date such as 2026-11-01 or 20261101T000000Z, found 'yesterday'\n",
    )


@pytest.mark.parametrize("stamp", ["", OLD])
def test_what_is_said_of_a_recording(stamp: str, tmp_path: Path) -> None:
    outcome = recording_options.written(Trace.parse(small_trace()), tmp_path / "raw.gtr", stamp)
    json_schemas.check("record ncnn", {"ok": True, "warnings": [], **fields(outcome.data)})
    assert outcome.data.snapshot == (stamp or None)
    assert outcome.text.endswith(f"\npackages: snapshot.debian.org as of {stamp}") == bool(stamp)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two snapshots; the paths that were asked for."""
    require_tools()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "served" / "archive" / "debian"
    with signer() as key:
        (tmp_path / "keyring.gpg").write_bytes(key.gpg("--export"))
        write(folder / OLD, key, "Fri, 31 Oct 2025 20:12:13", {"x": "1.0-1", "y": "7"})
        write(folder / NEW, key, "Fri, 14 Nov 2025 20:12:13", {"x": "1.0-2"})
    redirects = {f"/archive/debian/{BETWEEN}/": f"/archive/debian/{OLD}/"}
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "keyring.gpg")
    config = apt.apt_config  # without the machine's own settings, of which one may allow old indexes
    none = 'Dir::Etc::parts "/dev/null";\nDir::Etc::main "/dev/null";\n'
    monkeypatch.setattr(apt, "apt_config", lambda *args: config(*args) + none)
    monkeypatch.setattr(apt, "mirror_uri", lambda: "http://127.0.0.1:9/today")  # nothing answers there
    with served(tmp_path / "served", redirects) as (address, asked):
        monkeypatch.setattr(snapshot, "ARCHIVE", f"{address}/archive/debian")
        yield asked


def packages(stamp: str) -> apt.AptRoot:
    return apt.AptRoot("trixie", "arm64", "test", stamp=stamp)


@pytest.mark.parametrize(("stamp", "version"), [(OLD, "1.0-1"), (BETWEEN, "1.0-1"), (NEW, "1.0-2")])
def test_packages_are_those_of_the_date(archive: list[str], stamp: str, version: str, tmp_path: Path) -> None:
    """Although the indexes are valid no more."""
    found = packages(stamp)
    (deb,) = found.download(["x"])
    assert (deb.name, deb.version) == ("x", version)
    found.extract(tmp_path / "tree")
    assert (tmp_path / "tree" / "version").read_text() == version
    assert any(path.startswith(f"/archive/debian/{stamp}/dists/trixie/") for path in archive)
    archive.clear()
    assert packages(stamp).download(["x"]) == [deb]
    assert archive == [], "what is in the cache is not fetched again"


def test_dates_do_not_share_an_index(archive: list[str]) -> None:
    packages(OLD).download(["y"])
    with pytest.raises(RecordError, match="Unable to locate package y"):
        packages(NEW).download(["y"])


def test_a_date_that_the_archive_does_not_have(archive: list[str]) -> None:
    with pytest.raises(RecordError, match=r"20200101T000000Z \(--snapshot names another date\): E: "):
        packages("20200101T000000Z").download(["x"])


def test_an_index_that_is_newer_than_its_snapshot(archive: list[str], tmp_path: Path) -> None:
    """Of a proxy that serves today's archive: correctly signed, but not what was asked for."""
    served = tmp_path / "served" / "archive" / "debian"
    (served / "20251110T000000Z").symlink_to(NEW)
    for _ in range(2):  # the second time the index is in the cache
        with pytest.raises(
            RecordError, match="expected at most Mon, 10 Nov 2025 00:00:00 UTC, found Fri, 14 Nov 2025"
        ):
            packages("20251110T000000Z").download(["x"])


@pytest.mark.parametrize("text", ["Origin: x\n", "Date: soon\n", "Date:\n"])
def test_an_index_without_a_date(text: str, tmp_path: Path) -> None:
    (tmp_path / "trixie_InRelease").write_text(text)
    with pytest.raises(RecordError, match="date of the index: expected at most"):
        snapshot.check_index(tmp_path, OLD)


def test_each_snapshot_has_its_own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []
    monkeypatch.setattr(root, "prepare", lambda snapshot: asked.append(snapshot))
    for key, stamp in (("newest", ""), ("old", OLD)):
        folder = cache_dir("record", key)
        manifest = {"key": key, "builder": root._builder(), "kernel": "6.12", "packages": []}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        root._current(stamp).write_text(f"{key}\n")
    assert (root.ready_root().key, root.ready_root(OLD).key) == ("newest", "old")
    assert root.ready_root().notes == {"packages": {"kernel": "6.12"}}
    assert root.ready_root(OLD).notes == {"packages": {"kernel": "6.12"}, "snapshot": OLD}
    assert asked == []
    root.ready_root(NEW)
    assert asked == [NEW]
