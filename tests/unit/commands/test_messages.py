# SPDX-License-Identifier: BSD-2-Clause
"""What commands say besides their result: -v, -q, --log, progress without a terminal, streams, an interrupt."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec

from host_tools.__main__ import INTERRUPTED
from host_tools.cli import main
from host_tools.commands import framework
from host_tools.commands.framework import GramophoneCommand, Outcome, say, warn
from host_tools.support import progress
from host_tools.support.extra import LazyCommand
from host_tools.support.messages import LOG, listening
from host_tools.support.results import Result
from signing.key_files import private_pem
from tests.support import installed
from tests.support.places import CHECKOUT
from tests.support.processes import default_signals
from tests.support.signing_samples import ES256, P256_SCALAR, small_trace

PRIVATE_KEY = ec.derive_private_key(P256_SCALAR, ec.SECP256R1())
NOTE, WARNING, DETAIL = "a note", "warning: a warning", "a detail\x1b[2J"


class Said(Result):
    said: int


@click.command(cls=GramophoneCommand, example="talk")
def talk() -> Outcome[Said]:
    """Say something of each kind."""
    say(NOTE)
    warn("a warning")
    LOG.debug(DETAIL)
    return Outcome(Said(3), "the result")


@pytest.mark.parametrize(
    ("options", "said"),
    [([], [NOTE, WARNING]), (["-q"], [WARNING]), (["-v"], [NOTE, WARNING, "a detail\\x1b[2J"])],
)
def test_how_much_is_said(options: list[str], said: list[str]) -> None:
    """The result is the same, and what a terminal would act on is escaped."""
    done = CliRunner().invoke(talk, options)
    assert (done.exit_code, done.stdout) == (0, "the result\n")
    assert [line for line in done.stderr.splitlines() if not line.startswith("gramophone ")] == said


def test_a_log_has_everything(tmp_path: Path) -> None:
    """With times, also what is not printed; errors too, of whatever command wrote it last."""
    log = tmp_path / "all.log"
    done = CliRunner().invoke(talk, ["-q", "--log", str(log)])
    assert done.stderr == f"{WARNING}\n"
    lines = log.read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ", line) for line in lines)
    assert [line.split(" ", 2)[2] for line in lines[1:]] == [
        f"INFO {NOTE}",
        f"WARNING {WARNING}",
        "DEBUG a detail\\x1b[2J",
    ]
    assert CliRunner().invoke(main, ["dump", "none.gtr", "--log", str(log)]).exit_code == 2
    assert log.read_text().splitlines()[-1].endswith("ERROR error: none.gtr: No such file or directory")
    assert not LOG.handlers


class _Noticing(logging.Handler):
    """Sets an event at the first message on what takes very long."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "so far" in record.getMessage():
            self.said.set()


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for a phase that took long, and lines before it is over if it takes very long."""
    monkeypatch.setattr(progress, "LONG_S", 0)
    monkeypatch.setattr(progress, "SO_FAR_S", 0.05)
    noticing = _Noticing()
    with listening():
        LOG.addHandler(noticing)
        try:
            with progress.phase("boot 2 of 3"):
                assert noticing.said.wait(30)
        finally:
            LOG.removeHandler(noticing)
    lines = capsys.readouterr().err.splitlines()
    assert set(lines[:-1]) == {"boot 2 of 3, 0 s so far"}
    assert lines[-1] == "boot 2 of 3, 0 s"


def test_a_short_phase_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(), progress.phase("checking"):
        pass
    with pytest.raises(ValueError, match="x"), listening(verbose=True), progress.phase("checking"):
        raise ValueError("x")
    assert capsys.readouterr().err.splitlines() == [
        "checking: begins",
        "checking: ended early, after 0 s",
    ]


def test_standard_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With - a trace comes from standard input and goes to standard output, and the result to standard error."""
    monkeypatch.chdir(tmp_path)
    Path("key.pem").write_bytes(private_pem(PRIVATE_KEY, None))
    Path("pub.pem").write_bytes(ES256.public.pem())
    done = CliRunner().invoke(main, ["sign", "-", "--signing-key", "key.pem", "-o", "-"], input=small_trace())
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith(f"-: {len(done.stdout_bytes)} bytes, signed by ES256 key ")
    quiet = CliRunner().invoke(
        main, ["sign", "-", "--signing-key", "key.pem", "-o", "-", "-q"], input=small_trace()
    )
    assert (quiet.stdout_bytes, quiet.stderr) == (done.stdout_bytes, "")
    found = CliRunner().invoke(
        main, ["verify", "trace", "-", "--key", "pub.pem", "--json"], input=done.stdout_bytes
    )
    assert json.loads(found.stdout)["verdict"] == "verified"
    both = CliRunner().invoke(
        main, ["sign", "-", "--signing-key", "key.pem", "-o", "-", "--json"], input=small_trace()
    )
    assert both.exit_code == 2
    assert (
        json.loads(both.stdout)["error"] == "'-o -' cannot be combined with --json: there is one standard output"
    )
    assert sorted(path.name for path in Path().iterdir()) == ["key.pem", "pub.pem"]


def test_a_file_that_was_written_is_not_summed_up_if_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for is printed all the same."""
    monkeypatch.chdir(tmp_path)
    Path("key.pem").write_bytes(private_pem(PRIVATE_KEY, None))
    Path("net.gtr").write_bytes(small_trace())
    signed = CliRunner().invoke(main, ["sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr", "-q"])
    assert (signed.exit_code, signed.output) == (0, "")
    assert Path("net.sgtr").exists()
    told = CliRunner().invoke(main, ["inspect", "net.sgtr", "-q"])
    assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "net.sgtr: signed trace")


def test_an_interrupt_before_a_command_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is being imported: as an interrupt later on."""

    def interrupted(self: LazyCommand) -> click.Command:
        raise KeyboardInterrupt

    monkeypatch.setattr(LazyCommand, "load", interrupted)
    done = CliRunner().invoke(main, ["sign", "net.gtr", "--json"])
    assert (done.exit_code, done.stderr) == (130, "error: interrupted\n")
    assert json.loads(done.stdout) == {"ok": False, "error": "interrupted"}


@pytest.mark.parametrize("module", ["host_tools.cli", "click", "host_tools.support.version"])
def test_an_interrupt_in_the_first_instant(module: str) -> None:
    """Python is still importing the command."""
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from host_tools.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "--version"], cwd=CHECKOUT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "error: interrupted\n")
    assert framework.INTERRUPTED == INTERRUPTED


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "host_tools", "--version"], cwd=CHECKOUT, capture_output=True)
    assert done.returncode == 0
    assert done.stdout.startswith(b"gramophone, version ")


def test_standard_error_that_is_closed(tmp_path: Path) -> None:
    """Nothing of what belongs there ends up in the result."""
    (tmp_path / "net.gtr").write_bytes(small_trace())
    (tmp_path / "key.pem").write_bytes(private_pem(PRIVATE_KEY, None))
    line = 'exec "$@" 2>&-'
    command = [sys.executable, installed.program("gramophone"), "sign", "net.gtr", "--signing-key", "key.pem"]
    done = subprocess.run(
        ["sh", "-c", line, "sh", *command, "-o", "out", "-v", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout)["ok"]


def test_an_interrupt_is_exit_status_130(tmp_path: Path) -> None:
    """The command reads a pipe that nobody writes more to, and is interrupted there."""
    command = [sys.executable, installed.program("gramophone"), "dump", "-", "--json"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )
    with process:
        assert process.stdin
        process.stdin.write(" " * (1 << 20))  # more than a pipe holds: waits until the command reads
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "error: interrupted\n"
    assert json.loads(out) == {"ok": False, "error": "interrupted"}
