# SPDX-License-Identifier: BSD-2-Clause
"""A function in a process of its own: what it answers, how it ends, and what it cannot do. With the sandbox off
each attack succeeds, so that it is known to be one."""

from __future__ import annotations

import ctypes
import errno
import functools
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import landlockpy
import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.extras.importers.networks import file
from host_tools.record import preflight
from host_tools.support import contained, sandbox, sheet
from host_tools.support.contained import ContainedError
from host_tools.support.messages import LOG
from host_tools.support.sandbox import VARIABLE, Sandbox, SandboxError, missing
from tests.support import attacks, call_attacks
from tests.support.sandbox import needs
from trace_format.errors import GramophoneError, SlotError


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return attacks.prepare(tmp_path / "outside")


@pytest.fixture
def victim() -> Iterator[Popen[bytes]]:
    with call_attacks.victim() as process:
        yield process


def refused(name: str, folder: Path, sandbox: Sandbox) -> bool:
    """Whether a sandbox refuses an attack, or ends who tries."""
    try:
        said = contained.call("it", lambda: attacks.outcome(name, folder), str, sandbox)
    except ContainedError as error:
        assert name == "kill_by_calls_of_32_bits"
        return "it ended with SIGSYS" in str(error)
    return said in ("refused", f"not there: {os.strerror(errno.ENOSYS)}")


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_an_attack_is_refused(name: str, outside: Path, victim: Popen[bytes]) -> None:
    needs(files=name in attacks.BY_FILES)
    assert refused(name, outside, Sandbox())
    assert attacks.untouched(outside)
    assert victim.poll() is None


@pytest.mark.parametrize("name", call_attacks.ATTACKS)
def test_an_attack_is_refused_beside_what_is_given(name: str, outside: Path, victim: Popen[bytes]) -> None:
    """What needs an open file, or a folder, has one."""
    needs(files=False)
    assert refused(name, outside, Sandbox(reads=(outside,), writes=(outside,)))
    assert attacks.untouched(outside)
    assert victim.poll() is None


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_it_is_one_where_there_is_no_sandbox(
    name: str, outside: Path, victim: Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a child of its own, which it may spoil."""
    monkeypatch.setenv(VARIABLE, "off")
    child = os.fork()
    if not child:
        found = contained.call("it", lambda: attacks.outcome(name, outside), str)
        os._exit(0 if found == "done" else 3 if found.startswith("not there") else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 3:
        pytest.skip(f"Linux {os.uname().release}, or the file system of {outside}, has no such call")
    assert status == 0
    if name in call_attacks.KILLS:
        assert victim.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("name", [name for name in call_attacks.KILLS if name != "kill_by_calls_of_32_bits"])
def test_signals_stay_inside_by_landlock_alone(
    name: str, outside: Path, victim: Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the list of system calls lets through; the kernel drops what it sends for a file without a word."""
    if landlockpy.abi_version() < 6:
        pytest.skip("no scope of signals: Linux 6.12 with landlock among the kernel's lsm=")
    monkeypatch.setattr(sandbox, "restrict", lambda *_: None)
    contained.call("it", lambda: attacks.outcome(name, outside), str, Sandbox(writes=(outside,)))
    time.sleep(0.05)
    assert victim.poll() is None


SMALL = 1 << 26


@pytest.mark.parametrize("name", call_attacks.MEMORY)
def test_memory_of_each_kind_is_bounded(name: str, tmp_path: Path) -> None:
    """The kernel refuses what is taken at once; what is in files is counted from outside while it is there."""
    needs(files=name == "posix_shared_memory")

    def work() -> int:
        call_attacks.MEMORY[name](tmp_path)
        return attacks.sleep_forever()

    small = Sandbox(writes=(tmp_path,), memory_bytes=SMALL, written_bytes=SMALL, cpu_s=60)
    with pytest.raises((ContainedError, OSError)) as error:
        contained.call("it", work, int, small)
    counted = f"it was ended: it wrote more than {SMALL} bytes"
    by_kernel = r"memory|Errno (1|12|13)\]|not permitted"
    assert re.search(counted if name.startswith("files") else by_kernel, str(error.value))


@pytest.mark.parametrize("name", call_attacks.MEMORY)
def test_there_is_memory_of_each_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    child = os.fork()
    if not child:
        try:
            call_attacks.MEMORY[name](tmp_path)
        except OSError as error:
            os._exit(3 if error.errno in attacks.ABSENT else 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 3:
        pytest.skip(f"Linux {os.uname().release} has no such memory")
    assert status == 0


def test_sheets_are_bounded() -> None:
    """No more than are given, and of all together no more bytes."""

    def many() -> int:
        return sum(len(item) for item in [sheet.Sheet.of([b"x"]) for _ in range(3)] if item)

    with pytest.raises(sheet.NoSheetError):
        contained.call("it", many, int, Sandbox(sheets=2))
    assert contained.call("it", many, int, Sandbox(sheets=3)) == 3

    def large() -> int:
        kept = [sheet.Sheet.of([bytes(SMALL // 2)] * 2) for _ in range(3)]
        return attacks.sleep_forever() + len(kept)

    with pytest.raises(ContainedError, match=f"it wrote more than {SMALL} bytes"):
        contained.call("it", large, int, Sandbox(sheets=3, written_bytes=SMALL))


def test_threads_are_bounded() -> None:
    def work() -> int:
        for _ in range(2000):
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        return attacks.sleep_forever()

    with pytest.raises(ContainedError, match="it started more than 1024 threads"):
        contained.call("it", work, int)


def test_a_folder_of_its_own(tmp_path: Path, outside: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()

    def work() -> str:
        (own / "new").write_bytes(b"text")
        os.rename(own / "new", own / "newer")
        return (own / "newer").read_text()

    assert contained.call("it", work, str, Sandbox(writes=(own,))) == "text"
    needs(files=True)
    with pytest.raises(OSError, match=r"\[Errno (1|13|18)\]"):
        contained.call(
            "it",
            lambda: os.link(outside / "secret", own / "secret"),
            None,
            Sandbox(reads=(outside,), writes=(own,)),
        )


def test_what_is_for_reading_is_not_written(outside: Path) -> None:
    needs(files=True)
    given = Sandbox(reads=(outside,))
    assert contained.call("it", lambda: attacks.outcome("read_a_file", outside), str, given) == "done"
    for name in ("write_a_file", "change_a_file", "remove_a_file", "truncate_a_file", "change_a_mode"):
        assert contained.call("it", functools.partial(attacks.outcome, name, outside), str, given) == "refused"
    assert attacks.untouched(outside)


def test_files_that_were_open_are_closed(outside: Path) -> None:
    with open(outside / "secret", "r+b", buffering=0) as file:
        os.set_inheritable(file.fileno(), True)
        with pytest.raises(OSError, match="Bad file descriptor"):
            contained.call("it", lambda: os.write(file.fileno(), b"A"), int)
    assert attacks.untouched(outside)


def test_nothing_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        return os.write(1, b"\x1b]0;x") + os.write(2, b"\x1b]0;x")

    assert contained.call("it", work, int) == 10
    assert capfd.readouterr() == ("", "")


def test_memory_ends() -> None:
    with pytest.raises(ContainedError, match="memory"):
        contained.call("it", attacks.exhaust_memory, int)
    with pytest.raises(ContainedError, match="memory"):
        contained.call("it", lambda: len(bytearray(1 << 30)), int, Sandbox(memory_bytes=1 << 28))


@pytest.mark.parametrize("work", [attacks.run_forever, attacks.sleep_forever])
def test_time_ends(work: Callable[[], int]) -> None:
    with pytest.raises(ContainedError, match=r"it took more than 1 s"):
        contained.call("it", work, int, Sandbox(cpu_s=1))


def test_a_crash_is_an_error() -> None:
    with pytest.raises(ContainedError, match="it ended with SIGSEGV"):
        contained.call("it", lambda: ctypes.string_at(1), bytes)
    with pytest.raises(ContainedError, match="it ended with status 0 and without an answer"):
        contained.call("it", lambda: os._exit(0), int)


def test_errors_keep_their_class_and_text() -> None:
    def work() -> int:
        raise SlotError("no such slot", file="net.gtr", offset=4)

    with pytest.raises(SlotError, match=r"^net.gtr at offset 0x4: no such slot"):
        contained.call("it", work, int)
    with pytest.raises(ZeroDivisionError):
        contained.call("it", lambda: 1 // 0, int)


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "print", "NoSuchError"])
def test_no_other_class_is_raised(name: str) -> None:
    """The answer names the class, and is anybody's."""
    assert type(contained._error(name, "text", ["text"], {}, "")) is GramophoneError


def test_of_two_errors_of_one_name_the_right_one_is_raised() -> None:
    def no_network() -> None:
        raise preflight.NetworkError("no network")

    assert file.NetworkError.__name__ == preflight.NetworkError.__name__
    with pytest.raises(preflight.NetworkError, match="no network"):
        contained.call("it", no_network, str)


def test_an_answer_of_another_type_is_an_error() -> None:
    with pytest.raises(ContainedError, match="it gave a wrong answer: expected int"):
        contained.call("it", lambda: "text", int)


def test_arrays_and_messages_arrive(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> NDArray[np.float32]:
        LOG.warning("said %d", 1)
        return np.arange(6, dtype=np.float32).reshape(2, 3)

    with caplog.at_level(logging.DEBUG, LOG.name):
        found = contained.call("it", work, NDArray[np.float32])
    assert found.dtype == np.float32
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [record.getMessage() for record in caplog.records] == ["said 1"]


def test_threads_can_be_started() -> None:
    """The virtual GPU has some."""

    def work() -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(1))
        thread.start()
        thread.join()
        return len(found)

    assert contained.call("it", work, int) == 1


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """Also if that is killed."""
    number = tmp_path / "number"
    text = (
        "import os, time\nfrom pathlib import Path\nfrom host_tools.support import contained, sandbox\n"
        f"def work():\n    Path({str(number)!r}).write_text(str(os.getpid()))\n    time.sleep(600)\n"
        f"contained.call('it', work, int, sandbox.Sandbox(writes=(Path({str(tmp_path)!r}),)))\n"
    )
    parent = os.posix_spawn(sys.executable, [sys.executable, "-c", text], os.environ)
    while not (number.exists() and number.read_text()):
        assert os.waitpid(parent, os.WNOHANG) == (0, 0)
    child = int(number.read_text())
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        pass


def test_off_runs_it_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert contained.call("it", os.getpid, int) == os.getpid()
    monkeypatch.setenv(VARIABLE, "on")
    assert contained.call("it", os.getpid, int) != os.getpid()


def test_a_wrong_value_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no")
    with pytest.raises(SandboxError, match="GRAMOPHONE_SANDBOX: expected on, require or off, found 'no'"):
        contained.call("it", os.getpid, int)
    assert issubclass(SandboxError, GramophoneError)
    assert isinstance(missing(), tuple)


def test_time_ends_for_who_says_nothing_more() -> None:
    """The pipe's end is not the process's."""

    def work() -> int:
        os.closerange(3, 100)
        return attacks.sleep_forever()

    with pytest.raises(ContainedError, match="it took more than 1 s"):
        contained.call("it", work, int, Sandbox(cpu_s=1))


def test_time_ends_for_who_never_stops_talking() -> None:
    def work() -> int:
        while True:
            LOG.debug("and")
            time.sleep(0)

    with pytest.raises(ContainedError, match="it took more than 1 s"):
        contained.call("it", work, int, Sandbox(cpu_s=1))
