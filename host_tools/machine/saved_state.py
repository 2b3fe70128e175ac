# SPDX-License-Identifier: BSD-2-Clause
"""The state of a machine that is ready for a job: made once, kept in the user's cache, where every run starts.

The guest says that it is ready by a write to the device plugin's window (vgpu/qemu/job_window.h), and the machine
stops at that instruction. So the state is the same whenever it is made, and with it all that follows from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host_tools.machine import qmp
from host_tools.machine.errors import RecordError
from host_tools.support import programs
from host_tools.support.cache import cache_dir, locked, made_once
from host_tools.vgpu import build
from trace_format.files import open_regular, read_file_text

PART = "machines"  # of the cache
STATE, SIZES = "state", "sizes.json"
KEPT_UNUSED_S = 7 * 86400
# A stopped machine does not say in its state that it was stopped: it goes on as soon as the state is loaded.
SAVING = ("-global", "migration.store-global-state=off")
NOT_LOADED = "load of migration failed"  # QEMU migration/migration.c
NO_LIMIT = 1 << 40  # bytes a second; QEMU's own is for networks
Identity = tuple[int, int]  # of a folder: inode, time of its last change
WINDOW = Path(build.__file__).parent / "qemu" / "job_window.c"


class Damaged(RecordError):
    """A state cannot be loaded.

    Args:
        folder: where it is.
        found: which one it was, if several were made there.
        why: for the message.
    """

    def __init__(self, folder: Path, found: Identity | None, why: str) -> None:
        super().__init__(f"{folder}: the machine's saved state cannot be loaded: {why}; remove the folder")
        self.folder, self.found = folder, found


def kept(determined_by: Iterable[bytes], make: Callable[[Path], object]) -> Path:
    """A folder with a state, made when it is first needed.

    Args:
        determined_by: all that decides what is in it, but for this module and the plugin's window.
        make: fills a folder with the file STATE and whatever else a run of the state needs.
    """
    digest = hashlib.sha256()
    for part in (Path(__file__).read_bytes(), WINDOW.read_bytes(), *determined_by):
        digest.update(len(part).to_bytes(8, "little") + part)
    folder = cache_dir(PART) / digest.hexdigest()[:16]
    fresh = not folder.exists()

    def make_whole(path: Path) -> None:
        path.mkdir()
        make(path)
        sizes = {file.name: _written(file) for file in sorted(path.iterdir())}
        (path / SIZES).write_text(json.dumps(sizes), encoding="ascii")
        _written(path / SIZES)

    made_once(folder, make_whole)
    with contextlib.suppress(OSError):  # of a damaged one, `load` speaks
        os.utime(folder / SIZES)  # in use, says this to _remove_unused
    if fresh:
        _remove_unused(folder.parent)
    return folder


def _written(path: Path) -> int:
    """A file's bytes, which are on the disk: a machine that loses its power leaves no state with holes."""
    with open_regular(path) as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def remove(damaged: Damaged) -> None:
    """Remove a state, so that it is made anew; not one that somebody else has made anew since."""
    with locked(damaged.folder.parent / "in-use"):
        if _identity(damaged.folder) == damaged.found:
            shutil.rmtree(damaged.folder, ignore_errors=True)


def _identity(folder: Path) -> Identity | None:
    """What tells a folder from another one that was at the same place; None: there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _remove_unused(parent: Path) -> None:
    """Remove states that nobody has used of late, of some 200 MB each, and what a process that was ended left."""
    with locked(parent / "in-use"):  # so that nobody is making one
        for folder in parent.glob("*/"):
            try:
                age = time.time() - (folder / SIZES).stat().st_mtime
            except OSError:  # not whole
                age = math.inf
            if age > KEPT_UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)


def load(command: Sequence[str], folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run QEMU from a state to its end.

    Args:
        command: as that which the state was made with, but for the plugin's arguments and the initramfs.
        folder: from `kept`.
        timeout_s: of host time.

    Raises:
        Damaged: the state cannot be loaded.
        subprocess.TimeoutExpired: QEMU was ended.
    """
    found = _identity(folder)
    _check(folder, found)
    with open_regular(folder / STATE) as file:
        number = file.fileno()
        done = programs.run([*command, "-incoming", f"fd:{number}"], timeout_s=timeout_s, pass_fds=[number])
    if done.returncode and NOT_LOADED in done.stderr:
        raise Damaged(folder, found, done.stderr.strip().splitlines()[-1])
    return done


def _check(folder: Path, identity: Identity | None) -> None:
    """Raise Damaged if a file has not the size that it was made with."""
    try:
        sizes = json.loads(read_file_text(folder / SIZES))
        found = {name: (folder / name).stat().st_size for name in sizes}
    except (OSError, ValueError) as error:
        raise Damaged(folder, identity, str(error)) from error
    for name, size in sizes.items():
        if found[name] != size:
            raise Damaged(folder, identity, f"{name}: expected {size} bytes, found {found[name]}")


def save(command: Sequence[str], state: Path, timeout_s: float) -> subprocess.CompletedProcess[str] | None:
    """Run QEMU until its machine stops, and write its state.

    Args:
        command: QEMU with a plugin that has a window and no archive.
        state: file to write.
        timeout_s: of host time, after which QEMU is ended.

    Returns:
        None; if QEMU ended before it had saved the state, what it left.

    Raises:
        RecordError: QEMU cannot save the state.
        subprocess.TimeoutExpired: QEMU was ended.
    """
    ours, theirs = socket.socketpair()
    with state.open("wb") as file, ours, ThreadPoolExecutor(1) as pool:
        channel = ("-chardev", f"socket,id=control,fd={theirs.fileno()}", "-mon", "chardev=control,mode=control")

        def run() -> subprocess.CompletedProcess[str]:
            with theirs:  # closed when QEMU has ended, so that nobody waits for its answer
                whole = [*command, *SAVING, *channel]
                return programs.run(whole, timeout_s=timeout_s, pass_fds=[theirs.fileno()])

        qemu = pool.submit(run)
        try:
            control = qmp.Control(ours)
            try:
                # Nobody is told of a stop before the connection was ready for events.
                if control.command("query-status")["running"]:
                    control.event("STOP")
                _migrate(control, file.fileno())
            finally:
                with contextlib.suppress(qmp.Ended):
                    control.command("quit")
        except qmp.Ended:
            return qemu.result()
        qemu.result()
        return None


def _migrate(control: qmp.Control, number: int) -> None:
    """Write the state to an open file of QEMU's."""
    control.command("migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}])
    control.command("migrate-set-parameters", **{"max-bandwidth": NO_LIMIT})
    control.give("state", number)
    control.command("migrate", uri="fd:state")
    while (status := control.event("MIGRATION")["status"]) != "completed":
        if status in ("failed", "cancelled"):
            why = control.command("query-migrate").get("error-desc", status)
            raise RecordError(f"QEMU cannot save the machine's state: {why}")
