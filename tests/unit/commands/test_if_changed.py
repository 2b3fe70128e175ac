# SPDX-License-Identifier: BSD-2-Clause
"""`record --if-changed`: what is recorded again, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.commands import if_changed
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.machine import root
from host_tools.machine.errors import RecordError
from host_tools.support.unchanged import SUFFIX
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

DONE = "unchanged: recorded from the same files, options and versions; nothing is done"


class Recorder:
    """A recorder that counts, in place of the emulated machine; and the folder that it is used in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.packages, self.tool = "packages 1", "tool 1"
        self.options = ["--shape", "data=1x28x28"]
        self.fails = False
        (folder / "net.param").write_bytes(PARAM.read_bytes())
        (folder / "net.bin").write_bytes(WEIGHTS.read_bytes())

    def record(self, *_: object, **options: Any) -> Trace:
        self.count += 1
        if self.fails:
            raise GramophoneError("the guest has no GPU")
        return Trace.read(RAW)

    def root(self, stamp: str) -> SimpleNamespace:
        if not self.packages:
            raise RecordError("none was prepared")
        return SimpleNamespace(key=self.packages + stamp)

    def run(self, *more: str, param: str = "net.param") -> Result:
        files = [str(self.folder / name) for name in (param, "net.bin")]
        words = [*files, *self.options, "-o", str(self.output), *more]
        return CliRunner().invoke(main, ["record", "ncnn", *words])

    @property
    def output(self) -> Path:
        return self.folder / "net.raw.gtr"

    def change(self, name: str) -> None:
        path = self.folder / name
        path.write_bytes(path.read_bytes() + b"\n")


@pytest.fixture(name="recorder")
def _recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(tmp_path)
    monkeypatch.setattr("host_tools.api.recording.record_network", recorder.record)
    monkeypatch.setattr(root, "record_root", recorder.root)
    monkeypatch.setattr(if_changed, "tool_stamp", lambda: recorder.tool)
    return recorder


def test_the_second_time_nothing_is_done(recorder: Recorder) -> None:
    first, second = recorder.run("--if-changed"), recorder.run("--if-changed")
    assert (first.exit_code, second.exit_code, recorder.count) == (0, 0, 1)
    assert f"{recorder.output}: it is not there" in first.stderr
    assert second.stdout == f"{recorder.output}: {DONE}\n"
    told = json.loads(recorder.run("--if-changed", "--json").stdout)
    assert told["unchanged"] is True
    assert told["trace_bytes"] == RAW.stat().st_size


def test_without_the_option_it_is_always_recorded(recorder: Recorder) -> None:
    recorder.run("--if-changed")
    assert recorder.run().exit_code == 0
    assert recorder.count == 2


CHANGES: dict[str, tuple[Callable[[Recorder], object], str]] = {
    "a byte of the network": (lambda r: r.change("net.param"), "changed: param net.param"),
    "a byte of the weights": (lambda r: r.change("net.bin"), "changed: weights net.bin"),
    "an option": (lambda r: r.options.append("--fp16"), "changed: options"),
    "the tool, or a package": (lambda r: setattr(r, "tool", "tool 2"), "changed: the tool"),
    "the guest": (lambda r: setattr(r, "packages", "packages 2"), "changed: the recording machine's packages"),
    "no guest": (lambda r: setattr(r, "packages", ""), "changed: the recording machine's packages"),
    "the output": (lambda r: r.change("net.raw.gtr"), "it has been changed since it was made"),
    "the output is gone": (lambda r: r.output.unlink(), "it is not there"),
    "nothing beside it": (
        lambda r: Path(f"{r.output}{SUFFIX}").unlink(),
        "nothing says what it was made of: net.raw.gtr.made.json is missing",
    ),
    "noise beside it": (
        lambda r: Path(f"{r.output}{SUFFIX}").write_bytes(b"[1]"),
        "net.raw.gtr.made.json does not say what it was made of",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_recorded_and_said(what: str, recorder: Recorder) -> None:
    recorder.run("--if-changed")
    change, why = CHANGES[what]
    change(recorder)
    done = recorder.run("--if-changed")
    assert (done.exit_code, recorder.count) == (0, 2)
    assert f"{recorder.output}: {why}\n" in done.stderr
    assert recorder.output.read_bytes() == RAW.read_bytes()
    assert recorder.run("--if-changed").stdout == f"{recorder.output}: {DONE}\n"


def test_where_files_lie_makes_no_difference(recorder: Recorder) -> None:
    recorder.run("--if-changed")
    moved = recorder.folder / "moved"
    moved.mkdir()
    for path in [path for path in recorder.folder.iterdir() if path.is_file()]:
        path.rename(moved / path.name)
    recorder.folder = moved
    assert DONE in recorder.run("--if-changed", "--timeout", "9").stdout
    assert recorder.count == 1


def test_a_recording_that_fails_leaves_all_as_it_was(recorder: Recorder) -> None:
    recorder.run("--if-changed")
    before = {path.name: path.read_bytes() for path in recorder.folder.iterdir()}
    recorder.options.append("--fp16")
    recorder.fails = True
    assert recorder.run("--if-changed").exit_code == 2
    assert {path.name: path.read_bytes() for path in recorder.folder.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-o", "-", "--if-changed"], "error: --if-changed: standard output has no file to compare with\n"),
        (["-o", "x.gtr", "--if-changed"], "error: no.param: No such file or directory\n"),
    ],
)
def test_bad_input(
    words: tuple[str, ...], error: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorder.folder)
    done = CliRunner().invoke(main, ["record", "ncnn", "no.param", "net.bin", "--shape", "data=1x28x28", *words])
    assert (done.exit_code, done.stderr, recorder.count) == (2, error, 0)


def test_files_of_a_program_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, those of --file with their folders, those of --input, and arguments that name files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    names = ("prog", "data.bin", "x.bin", "folder/in")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    count = 0

    def record(*_: object, **__: object) -> SimpleNamespace:
        nonlocal count
        count += 1
        return SimpleNamespace(trace=Trace.read(RAW), output="")

    monkeypatch.setattr("host_tools.commands.record.record_program", record)
    monkeypatch.setattr(root, "record_root", lambda _: SimpleNamespace(key="packages"))
    options = ["--if-changed", "-o", "out.gtr", "--file", "folder", "--input", "x=x.bin"]
    words = ["record", "run", *options, "--", "./prog", "data.bin", "1000"]
    for number, name in enumerate(names):
        for _ in range(2):
            assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
        assert count == number + 1
        (tmp_path / name).write_bytes(b"other")
    assert CliRunner().invoke(main, words).exit_code == 0
    assert count == len(names) + 1
