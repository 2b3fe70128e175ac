# SPDX-License-Identifier: BSD-2-Clause
"""Saved states of the recording machine, with a program in QEMU's place: when they are made, what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from host_tools.machine import saved_state
from host_tools.machine.errors import RecordError
from host_tools.support.cache import cache_dir

# Answers on its socket as QEMU does, but for the command ENDS_AT or REFUSES; a migration ends with STATUS.
FAKE = """
import array, json, re, socket, sys
number = int(re.search(r"fd=(\\d+)", " ".join(sys.argv))[1])
qemu = socket.socket(fileno=number)
say = lambda message: qemu.sendall(json.dumps(message).encode() + b"\\n")
say({"QMP": {}})
files = []
while True:
    line, more, *_ = socket.recv_fds(qemu, 4096, 1)
    files += more
    if not line:
        sys.exit(0)
    name = json.loads(line)["execute"]
    if name == ENDS_AT:
        print("it ends", file=sys.stderr)
        sys.exit(3)
    if name == REFUSES:
        say({"error": {"desc": "it does not"}})
        continue
    say({"return": {"running": True, "error-desc": "no space"}})
    if name == "query-status":
        say({"event": "STOP"})
    if name == "migrate":
        open(files[0], "wb").write(b"state")
        say({"event": "MIGRATION", "data": {"status": "active"}})
        say({"event": "MIGRATION", "data": {"status": STATUS}})
    if name == "quit":
        sys.exit(0)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_dir(saved_state.PART)


def fake(*, ends_at: str = "", refuses: str = "", status: str = "completed") -> list[str]:
    values = f"ENDS_AT, REFUSES, STATUS = {ends_at!r}, {refuses!r}, {status!r}\n"
    return [sys.executable, "-c", values + textwrap.dedent(FAKE)]


def test_saved_when_the_machine_stops(tmp_path: Path) -> None:
    assert saved_state.save(fake(), tmp_path / "state", 30) is None
    assert (tmp_path / "state").read_bytes() == b"state"


@pytest.mark.parametrize("command", ["qmp_capabilities", "query-status", "migrate"])
def test_what_a_qemu_left_that_ended(tmp_path: Path, command: str) -> None:
    done = saved_state.save(fake(ends_at=command), tmp_path / "state", 30)
    assert done is not None
    assert (done.returncode, done.stderr) == (3, "it ends\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refuses": "migrate"}, "QEMU refuses migrate: it does not"),
        ({"status": "failed"}, "QEMU cannot save the machine's state: no space"),
    ],
)
def test_a_state_that_qemu_cannot_save(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        saved_state.save(fake(**options), tmp_path / "state", 30)


def test_a_qemu_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        saved_state.save([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "state", 0.5)


def make(folder: Path) -> None:
    (folder / saved_state.STATE).write_bytes(b"state")


def test_made_once_and_anew_when_removed(cache: Path) -> None:
    folders = [saved_state.kept([b"a", b"b"], make) for _ in range(2)]
    assert folders[0] == folders[1]
    assert saved_state.kept([b"ab"], make) != folders[0]
    assert len(list(cache.glob("*/"))) == 2
    saved_state.remove(damaged(folders[0]))
    assert not folders[0].exists()
    assert saved_state.kept([b"a", b"b"], make).exists()


def damaged(folder: Path) -> saved_state.Damaged:
    (folder / saved_state.STATE).write_bytes(b"")
    with pytest.raises(saved_state.Damaged) as caught:
        saved_state.load(["true"], folder, 30)
    return caught.value


def test_of_two_that_find_it_damaged_one_removes_it() -> None:
    """The other one comes when it has been made anew."""
    folder = saved_state.kept([], make)
    both = [damaged(folder), damaged(folder)]
    saved_state.remove(both[0])
    saved_state.kept([], make)
    saved_state.remove(both[1])
    assert folder.exists()
    saved_state.load(["true"], folder, 30)


def test_nothing_stays_of_one_that_was_not_finished(cache: Path) -> None:
    def fail(folder: Path) -> None:
        make(folder)
        raise RecordError("no")

    with pytest.raises(RecordError):
        saved_state.kept([], fail)
    assert [path.name for path in cache.iterdir()] == ["in-use"]


def test_what_nobody_used_for_long_is_removed() -> None:
    old = saved_state.kept([b"old"], make)
    os.utime(old / saved_state.SIZES, (0, 0))
    assert saved_state.kept([b"old"], make) == old  # which is a use
    saved_state.kept([b"new"], make)
    assert old.exists()
    os.utime(old / saved_state.SIZES, (0, 0))
    saved_state.kept([b"newer"], make)
    assert not old.exists()


def test_what_an_ended_process_left_is_removed(cache: Path) -> None:
    left = cache / "tmp1234" / "0123456789abcdef"
    left.mkdir(parents=True)
    make(left)
    whole = saved_state.kept([], make)
    assert list(cache.glob("*/")) == [whole]


def test_a_state_that_cannot_be_loaded_is_named() -> None:
    folder = saved_state.kept([], make)
    script = f"import sys; sys.stderr.write('qemu: {saved_state.NOT_LOADED}: Invalid argument'); sys.exit(1)"
    with pytest.raises(saved_state.Damaged, match=f"{folder}.*Invalid argument; remove the folder"):
        saved_state.load([sys.executable, "-c", script], folder, 30)
    assert saved_state.load(["true"], folder, 30).returncode == 0
    (folder / saved_state.STATE).write_bytes(b"")
    with pytest.raises(saved_state.Damaged, match="state: expected 5 bytes, found 0"):
        saved_state.load(["true"], folder, 30)
    (folder / saved_state.STATE).unlink()
    with pytest.raises(saved_state.Damaged, match="No such file"):
        saved_state.load(["true"], folder, 30)
