# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone speed calibrate` and `time --constants`: what they take, write, and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.accesses.job_times import replay_time
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.timing import chips
from host_tools.passes.pipeline import build
from tests.support.places import CHECKOUT
from trace_format.trace import Trace

JOBS = 14


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def answer(us: Any, jobs: Any = JOBS) -> bytes:
    """What `gramophone-tee replay --json` prints on a board, as far as it matters."""
    return json.dumps({"via": "ioctl", "replays": 10, "log": {"jobs": jobs, "replay_us": us}}).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("calibrate")
    (made / "net.gtr").write_bytes(build(Trace.read(RAW)).build())
    (made / "pi5.gtr").write_bytes(build(Trace.read(CHECKOUT / "tests/support/lenet.v3d71.raw.gtr")).build())
    return made


def test_from_a_board_to_its_own_estimates(folder: Path) -> None:
    """LeNet is all starts: a board on which it takes twice as long starts jobs more slowly."""
    trace, mine = folder / "net.gtr", folder / "mine.toml"
    us = replay_time(Trace.read(trace), chips()["pi4"]).us
    (folder / "net.json").write_bytes(answer(round(2 * us)))
    done = run("speed", "calibrate", f"{trace}={folder / 'net.json'}", "-o", mine, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["chip"], found["errors"]["left_out"]) == ("pi4", None)
    assert found["errors"]["before"] == pytest.approx(0.5, abs=0.01)
    assert found["errors"]["after"] < 0.02
    assert found["moved"]["start"]["value"] > 1.5 * found["moved"]["start"]["before"]
    of_linux = json.dumps({"status": 0, "jobs": JOBS, "replay_us": round(2 * us)})
    (folder / "net.json").write_text(of_linux)  # a process of Linux prints it flat
    text = run("speed", "calibrate", f"{trace}={folder / 'net.json'}", "-o", mine).stdout
    assert "start: 20 -> " in text
    assert "(was a guess)" in text
    assert "mean error: 50.0 % before, " in text
    timed = run("speed", "time", trace, "--constants", mine, "--json")
    assert timed.exit_code == 0, timed.stderr
    assert json.loads(timed.stdout)["replay"]["us"] == pytest.approx(2 * us, rel=0.02)
    assert json.loads(run("speed", "time", trace, "--json").stdout)["replay"]["us"] == pytest.approx(us)


REFUSED: dict[str, tuple[list[str], dict[str, bytes], str]] = {
    # words after `calibrate -o OUT`, files, the sentence
    "no result": (["net.gtr=none.json"], {}, "none.json: No such file"),
    "no trace": (["none.gtr=r.json"], {"r.json": answer(900)}, "none.gtr: No such file"),
    "an empty result": (["net.gtr=r.json"], {"r.json": b""}, "r.json: not what a device's replay --json prints"),
    "another command's": (
        ["net.gtr=r.json"],
        {"r.json": b'{"ok": true, "replay_us": 9}'},
        "r.json: not what a dev",
    ),
    "a list": (["net.gtr=r.json"], {"r.json": b"[3]"}, "r.json: not what a device's replay --json prints"),
    "a log that is a text": (
        ["net.gtr=r.json"],
        {"r.json": b'{"log": "x"}'},
        "r.json: not what a device's replay",
    ),
    "a nest": (["net.gtr=r.json"], {"r.json": b"[" * 100_000}, "r.json: not what a device's replay --json prints"),
    "a time that is a text": (
        ["net.gtr=r.json"],
        {"r.json": answer("9")},
        "r.json: replay_us and jobs: expected who",
    ),
    "a time that is true": (
        ["net.gtr=r.json"],
        {"r.json": answer(True)},
        "r.json: replay_us and jobs: expected whole",
    ),
    "no time": (
        ["net.gtr=r.json"],
        {"r.json": answer(0)},
        "net.gtr: its time: expected 1 to 600000000 microseconds",
    ),
    "a negative time": (
        ["net.gtr=r.json"],
        {"r.json": answer(-9)},
        "net.gtr: its time: expected 1 to 600000000 mic",
    ),
    "ten hours": (
        ["net.gtr=r.json"],
        {"r.json": answer(36 * 10**9)},
        "net.gtr: its time: expected 1 to 600000000",
    ),
    "of another trace": (
        ["net.gtr=r.json"],
        {"r.json": answer(9, 13)},
        "r.json: a replay of another trace: expected",
    ),
    "another board's chip": (
        ["net.gtr=r.json", "--chip", "pi5"],
        {"r.json": answer(9)},
        "net.gtr: pi5 has another GPU",
    ),
    "an unknown chip": (
        ["net.gtr=r.json", "--chip", "pi9"],
        {"r.json": answer(9)},
        "net.gtr: no chip is called pi9",
    ),
    "a trace twice": (["net.gtr=r.json", "net.gtr=s.json"], {"r.json": answer(9)}, "a trace is given twice"),
    "two chips": (
        ["net.gtr=r.json", "pi5.gtr=r.json"],
        {"r.json": answer(900)},
        "pi5.gtr: it is for another chip than the traces before: expected pi4, found pi5",
    ),
    "no pair": (["net.gtr"], {}, "expected TRACE=RESULT, found 'net.gtr'"),
    "a result for a trace": (["r.json=r.json"], {"r.json": answer(9)}, "r.json at offset 0x0: not a trace"),
    "nothing": ([], {}, "Missing argument 'TRACE=RESULT...'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, status 2, and no file."""
    words, files, sentence = REFUSED[name]
    for trace in folder.glob("*.gtr"):
        (tmp_path / trace.name).symlink_to(trace)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    done = run("speed", "calibrate", *words, "-o", "out.toml")
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.toml").exists()


CONSTANTS: dict[str, tuple[bytes, str]] = {
    "not TOML": (b"[pi4", "mine.toml: not TOML: "),
    "no chip": (b"x = 3\n", "mine.toml: x: expected a chip's table"),
    "nothing": (b"", "no chip with GPU v3d42 has constants"),
    "a chip of another GPU": (b"", "no chip with GPU v3d42 has constants; there are some of v3d71"),
    "a key too many": (b"[pi4]\ntitle = 3\n", "mine.toml: pi4"),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_are_none(name: str, folder: Path, tmp_path: Path) -> None:
    data, sentence = CONSTANTS[name]
    mine = tmp_path / "mine.toml"
    mine.write_bytes(data)
    if "another GPU" in name:
        (folder / "five.json").write_bytes(answer(4000))
        assert run("speed", "calibrate", f"{folder / 'pi5.gtr'}={folder / 'five.json'}", "-o", mine).exit_code == 0
    done = run("speed", "time", folder / "net.gtr", "--constants", mine)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert sentence in done.stderr
