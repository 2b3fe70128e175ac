# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone fleet`: table, time line, rows; exit statuses; memory that does not grow with the logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.extras.fleet.rows import MEMORY, PART
from signing.replay_log import head_hash
from tests.bench import usage
from tests.support.attestation_samples import NONCE, attest, claims_of
from tests.support.fleet_samples import Fleet, fleet_in, write_long
from tests.support.log_samples import TRACES
from tests.support.places import CHECKOUT
from tests.support.signing_samples import small_trace
from trace_format.schema.log import LogKind

DOCUMENT = CHECKOUT / "docs/FLEET.md"
NET = small_trace()
HEAD = head_hash(NET)


@pytest.fixture(name="fleet")
def _fleet(tmp_path: Path) -> Fleet:
    fleet = fleet_in(tmp_path)
    (tmp_path / "net.gtr").write_bytes(NET)
    for name in ("device-1", "device-2", "device-10"):
        device = fleet.enrol(name)
        device.session(HEAD, replays=3)
        device.refuse()
        fleet.collect(f"{name}/2026-11-26T23:10.log", device.entries[:])
        device.session(HEAD, replays=2)
        fleet.collect(f"{name}/2026-11-27T00:20.log", device.entries[7:])
    return fleet


def run(fleet: Fleet, *words: str) -> Result:
    return CliRunner().invoke(main, ["fleet", str(fleet.logs), "--devices", str(fleet.enrolled), *words])


def told(fleet: Fleet, *words: str, status: int = 0) -> dict[str, Any]:
    done = run(fleet, *words, "--json")
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_table_and_time_line(fleet: Fleet, tmp_path: Path) -> None:
    done = run(fleet, "--trace", str(tmp_path / "net.gtr"))
    lines = done.stdout.replace(str(tmp_path), "DIR").splitlines()
    assert done.exit_code == 0
    assert lines == [
        "DIR/logs: 33 entries of 3 devices are theirs",
        "  boots 9, replays 15, last seen 2026-11-27T00:20:00Z",
        "  failed: none; refused: 3 SIGNATURE",
        "  broken logs 0, devices without a log 0, logs whose end nobody knows 3",
        "",
        "device     boots  replays  failed  refused  security  policy  last seen             log",
        *(
            line
            for name in ("device-1 ", "device-10", "device-2 ")
            for line in (
                f"{name}      3        5       0        1         0       -  2026-11-27T00:20:00Z  no end",
                "  refused: 1 SIGNATURE",
            )
        ),
        "",
        "collected         replays   failed  refused  devices  trace",
        "2026-11-26T23Z          9        0        0        3  DIR/net.gtr",
        "2026-11-26T23Z          0        0        3        3  without a good signature",
        "2026-11-27T00Z          6        0        0        3  DIR/net.gtr",
        "",
        "verified",
    ]
    days = told(fleet, "--by", "day")["time_line"]
    assert [(row["since"], row["replays"], row["refusals"]) for row in days] == [
        ("2026-11-26", 9, 0),
        ("2026-11-26", 0, 3),
        ("2026-11-27", 6, 0),
    ]


def test_the_document_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_in(tmp_path, "collected")
    (tmp_path / "net.sgtr").write_bytes(NET)
    for number in (1, 2, 10):
        device = fleet.enrol(f"device-{number}")
        device.session(HEAD, replays=3)
        if number == 10:
            device.refuse()
        fleet.collect(f"device-{number}/2026-11-26T23:10.log", device.entries[:])
        at = len(device.entries)
        device.session(HEAD, replays=2)
        fleet.collect(f"device-{number}/2026-11-27T00:20.log", device.entries[at + (number == 2) :])
        if number == 1:
            (fleet.enrolled / "device-1/nonce").write_text(NONCE.hex(), encoding="ascii")
            (fleet.logs / "device-1/report.cbor").write_bytes(attest(claims_of(device, HEAD), device.keys))
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    session = re.search(r"```console\n\$ gramophone (fleet .*)\n((?s:.)*?)```", text)
    assert session
    done = CliRunner().invoke(main, session[1].split())
    assert (done.exit_code, done.output) == (1, session[2])


def test_broken_logs_are_named(fleet: Fleet) -> None:
    path = fleet.logs / "device-2/2026-11-27T00:20.log"
    path.write_bytes(path.read_bytes()[240:])
    done = run(fleet)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "REFUSED: device-2"
    assert f"  gap: {path}, entry 0: entry number 7 is missing before entry 7\n" in done.stdout
    found = told(fleet, status=1)
    assert [one["device"] for one in found["devices"] if one["findings"]] == ["device-2"]
    assert found["totals"]["broken"] == 1


def test_copies_count_once(fleet: Fleet) -> None:
    path = fleet.logs / "device-2/2026-11-26T23:10.log"
    path.with_name("2026-11-28.log").write_bytes(path.read_bytes())
    found = told(fleet, status=1)
    assert [one["fault"] for one in found["devices"][2]["findings"]] == ["duplicate"]
    assert found["totals"]["replays"] == 15


def test_other_traces_and_policies(fleet: Fleet, tmp_path: Path) -> None:
    device = fleet.enrol("device-3")
    device.session(TRACES[1], replays=1)
    device.write(LogKind.LOAD, HEAD, inputs=b"p" * 32, outputs=b"\x05".ljust(32, b"\0"))
    fleet.collect("device-3.log", device.entries)
    found = told(fleet, "--trace", str(tmp_path / "net.gtr"), status=1)
    findings = {one["device"]: one["findings"] for one in found["devices"]}
    assert [(one["fault"], one["sequence"]) for one in findings.pop("device-3")] == [("unknown-trace", 1)]
    assert not any(findings.values())


def test_rows(fleet: Fleet, tmp_path: Path) -> None:
    rows = tmp_path / "it's.parquet"
    found = told(fleet, "-o", str(rows))
    assert found["rows"] == str(rows)
    question = "SELECT kind, count(*), min(seen)::VARCHAR FROM read_parquet(?) GROUP BY kind ORDER BY kind"
    answer = duckdb.execute(question, [str(rows)]).fetchall()
    assert [row[:2] for row in answer] == [("boot", 9), ("load", 6), ("refusal", 3), ("replay", 15)]
    assert {row[2] for row in answer} == {"2026-11-26 23:10:00"}
    assert {path.name for path in tmp_path.iterdir()} == {"enrolled", "logs", "net.gtr", rows.name}


def test_files_of_nobody_are_warned_of(fleet: Fleet) -> None:
    fleet.collect("device-99.log", [b"?" * 240])
    found = told(fleet)
    assert found["warnings"] == [f"{fleet.logs}: of no device in {fleet.enrolled}: device-99.log"]
    assert found["strange_files"] == [str(fleet.logs / "device-99.log")]


@pytest.mark.parametrize(
    ("change", "words", "error"),
    [
        ("logs", (), "{0}/logs: No such file or directory"),
        ("enrolled", (), "{0}/enrolled: No such file or directory"),
        ("", ("-o", "{0}/no/x.parquet"), "{0}/no/x.parquet: No such file or directory"),
        ("", ("--by", "week"), "Invalid value for '--by': 'week' is not one of 'hour', 'day'"),
        ("", ("--trace", "{0}/logs/device-1/2026-11-26T23:10.log"), "{0}/logs/device-1/2026-11-26T23:10.log"),
    ],
)
def test_bad_input(change: str, words: tuple[str, ...], error: str, fleet: Fleet, tmp_path: Path) -> None:
    if change:
        (tmp_path / change).rename(tmp_path / "elsewhere")
    done = run(fleet, *(word.format(tmp_path) for word in words))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {error.format(tmp_path)}")
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_without_duckdb_the_extra_is_named(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("duckdb", *(f"host_tools.extras.fleet.{name}" for name in ("answers", "rows", "watch"))):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = run(fleet)
    assert (done.exit_code, done.stderr) == (2, "error: duckdb is missing: pip install 'gramophone[fleet]'\n")


def peak(folder: Path, devices: int, entries: int) -> int:
    """Bytes of memory that the command takes at its largest."""
    folder.mkdir()
    fleet = fleet_in(folder)
    write_long(fleet, devices, entries)
    command = [sys.executable, "-m", "host_tools.cli", "fleet", str(fleet.logs), "--devices", str(fleet.enrolled)]
    assert usage.__file__
    done = subprocess.run(
        [sys.executable, usage.__file__, *command, "--json", "--quiet"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["totals"]["entries"] == devices * entries
    return int(json.loads(done.stderr)["peak_bytes"])


def test_memory_does_not_grow_with_the_logs(tmp_path: Path) -> None:
    """Four times the entries: much less than the bytes of the others more."""
    few, many = peak(tmp_path / "few", 4, PART // 2), peak(tmp_path / "many", 4, 2 * PART)
    more = 4 * (2 * PART - PART // 2)
    assert many - few < more * 240 / 4, (few, many)
    assert few < 300 << 20, MEMORY
