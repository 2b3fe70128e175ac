# SPDX-License-Identifier: BSD-2-Clause
"""Programs that commands start: what is returned of them, and that none outlives the command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_tools.support import programs
from tests.support.processes import Marked, default_signals

SLEEP = "31536000"  # no test waits for it
FAMILY = f"sleep {SLEEP} & sleep {SLEEP}"  # a shell, and two children
DEAF = f"trap '' TERM HUP INT; {FAMILY}"
DEAF_CHILDREN = f"(trap '' TERM HUP INT; {FAMILY}) & sleep {SLEEP}"
PROGRAMS = pytest.mark.parametrize("program", [FAMILY, DEAF, DEAF_CHILDREN], ids=["good", "deaf", "deaf children"])
# Two threads with a program each, as recordings have, and a folder of temporary files.
COMMAND = """
import sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from host_tools.support.programs import Ended, ended_by_signals, run
where, program = sys.argv[1:]
def work(_):
    run(["sh", "-c", program])
    run(["sh", "-c", "touch " + where + "/went-on"])
try:
    with ended_by_signals(), tempfile.TemporaryDirectory(dir=where), ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, i) for i in range(2)]:
            done.result()
except Ended as ended:
    sys.exit(ended.exit_status)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def marked() -> Iterator[Marked]:
    found = Marked()
    yield found
    found.end()


def test_what_is_printed() -> None:
    done = programs.run(["sh", "-c", r"printf 'a\303\244'; printf 'b\377' >&2; cat; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\u00e4", "b\ufffd")
    merged = programs.run(["sh", "-c", "echo a; echo b >&2"], merged=True)
    assert merged.stdout == "a\nb\n"


def test_a_missing_program() -> None:
    with pytest.raises(FileNotFoundError):
        programs.run(["no-such-program"])


@PROGRAMS
def test_time_is_up(program: str, marked: Marked) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["sh", "-c", program], timeout_s=0.3, env=marked.environment)
    assert marked.gone()


@PROGRAMS
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)], ids=str
)
def test_signals(number: signal.Signals, status: int, program: str, marked: Marked, tmp_path: Path) -> None:
    """Nothing is left, and nothing new is started."""
    command = [sys.executable, "-c", COMMAND, str(tmp_path), program]
    with subprocess.Popen(command, env=marked.environment, preexec_fn=default_signals) as process:
        try:
            marked.wait_for(f"sleep\0{SLEEP}", 4)
            process.send_signal(number)
            process.send_signal(number)  # a second one does not disturb the cleaning up, or comes after it
            ended = process.wait(30)
            assert marked.gone()
        finally:
            marked.end()
    assert ended in (status, -number)
    assert list(tmp_path.iterdir()) == []


def test_who_is_killed_leaves_no_program(marked: Marked, tmp_path: Path) -> None:
    """SIGKILL lets nobody clean up; what the programs started themselves is not ours to find."""
    command = [sys.executable, "-c", COMMAND, str(tmp_path), f"exec sleep {SLEEP}"]
    with subprocess.Popen(command, env=marked.environment) as process:
        try:
            marked.wait_for(f"sleep\0{SLEEP}", 2)
            process.kill()
            process.wait(30)
            assert marked.gone()
        finally:
            marked.end()


def test_an_ignored_signal_stays_ignored(marked: Marked, tmp_path: Path) -> None:
    """As with nohup."""
    ignoring = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + COMMAND
    command = [sys.executable, "-c", ignoring, str(tmp_path), "sleep 1"]
    with subprocess.Popen(command, env=marked.environment) as process:
        try:
            marked.wait_for("sleep\0")
            process.send_signal(signal.SIGHUP)
            assert process.wait(30) == 0
        finally:
            marked.end()


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in programs.SIGNALS]
    with pytest.raises(programs.Ended, match="ended by SIGTERM"), programs.ended_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in programs.SIGNALS] == before
    assert programs.run(["true"]).returncode == 0
